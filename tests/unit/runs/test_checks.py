import io
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as nps

from kagura_kernel.domain.errors import VariableRefused
from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.jupyter.variables import value_of
from kagura_kernel.runs.box_runner import frames
from kagura_kernel.runs.box_runner.pack import pack_array
from kagura_kernel.runs.box_runner.wire import CannotCross
from kagura_kernel.runs.checks import check_array, check_stream
from tests.support.effort import examples

ROOM = 2**24


def file_of(descr, shape, data=b"", header=None):
    text = header or f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    raw = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


TYPES = nps.scalar_dtypes() | nps.array_dtypes(max_size=3)


@given(nps.arrays(TYPES.filter(lambda one: one.itemsize), nps.array_shapes(min_dims=0, max_side=4)))
def test_an_array_comes_back_as_it_was(array):
    packed = pack_array(array, ROOM)
    check_array(packed.data)
    back = value_of(PackedVariable("x", "array", packed.data), None)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.writeable


def test_a_structured_array_and_one_in_fortrans_order_cross():
    points = np.array([(1, 2.5, "a")], dtype=[("x", "i4"), ("y", "f8"), ("name", "U3")])
    turned = np.asfortranarray(np.arange(6).reshape(2, 3))
    for array in (points, turned):
        data = pack_array(array, ROOM).data
        check_array(data)
        assert np.array_equal(np.load(io.BytesIO(data)), array)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([object()]), "an array of objects"),
        (np.ma.array([1, 2], mask=[0, 1]), "masked"),
        (np.zeros(ROOM), "may cross"),
    ],
)
def test_what_does_not_cross_is_told(array, words):
    with pytest.raises(CannotCross, match=words):
        pack_array(array, ROOM)


WHOLE = pack_array(np.array([(1, "ab")], dtype=[("n", "<i4"), ("s", "<U2")]), ROOM).data


# NumPy reads a header of Python 2 and the old name of a type, and says so.
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning", "ignore:Data type alias:DeprecationWarning")
@examples(50, 300, "kagura_kernel/runs/")
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_damaged_files_are_refused_or_are_arrays(where, value, end):
    data = bytearray(WHOLE)
    data[where] = value
    for damaged in (bytes(data), bytes(data[:end])):
        try:
            check_array(damaged)
            value_of(PackedVariable("x", "array", damaged), None)
        except (CannotCross, VariableRefused):
            continue


@given(st.text(alphabet="{}[]()'\",:<>|ifOVU0123456789 descrfortanhpTlu_-*", max_size=300))
def test_made_up_headers_are_refused(header):
    with pytest.raises(CannotCross):
        check_array(file_of("", (), header=header))


@pytest.mark.parametrize(
    "data",
    [
        file_of("|O", (1,), b"\x80\x04N."),
        file_of("<i8", (10**18,)),
        file_of("<i8", (2**62, 2**62)),
        file_of("<i8", (-1,), b""),
        file_of("|V0", (10**9,)),
        file_of("<U0", (10**9,)),
        file_of("<i8", (1,), b"\0" * 9),
        file_of("<i8", (1,) * 40, b"\0" * 8),
        file_of("", (), header="__import__('os').system('true')"),
        file_of("", (), header="{'descr': " + "[" * 3000 + "]" * 3000 + ", 'fortran_order': False, 'shape': ()}"),
        file_of("", (), header="{'descr': '<i8', 'fortran_order': False, 'shape': (" + "-" * 4000 + "1,)}"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\x7f",
        b"\x93NUMPY\x01\x00",
        b"",
    ],
)
def test_claims_objects_and_code_in_a_header_are_refused(data):
    with pytest.raises(CannotCross):
        check_array(data)


ROOM_OF_ARROW = 2**20
FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"]), "d": [[1], []]}, index=["p", "q"])
PACKED = frames.pack_frame(FRAME, ROOM_OF_ARROW)
DETAILS = dict(PACKED.details)


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def told(*dtypes, rows=1):
    return {
        "library": "pandas",
        "labels": [str(number) for number in range(len(dtypes))],
        "names": [None],
        "multi": False,
        "columns": [{"dtype": dtype} for dtype in dtypes],
        "index": {"range": [0, rows, 1], "names": [None]},
    }


def of(array, dtype="object"):
    return stream(pa.table([array], names=["0"])), told(dtype, rows=len(array))


def refuses(data, details, words=".", room=ROOM_OF_ARROW):
    with pytest.raises(CannotCross, match=words):
        check_stream(data, details, room)


@examples(50, 300, "kagura_kernel/runs/")
@given(st.integers(0, len(PACKED.data) - 1), st.integers(1, 255), st.integers(0, len(PACKED.data)))
def test_damaged_streams_are_refused_or_are_frames_and_nothing_else(where, change, end):
    data = bytearray(PACKED.data)
    data[where] ^= change
    for damaged in (bytes(data), bytes(data[:end])):
        try:
            check_stream(damaged, DETAILS, ROOM_OF_ARROW)
            value_of(PackedVariable("x", "frame", damaged, DETAILS), None)
        except (CannotCross, VariableRefused):
            continue


def test_a_time_zone_whose_name_is_no_text_is_refused():
    data = stream(pa.table({"a": pa.array([0], pa.timestamp("s", tz="Zone/One"))}))
    refuses(data.replace(b"Zone/One", b"Zone/\xffne"), told("datetime64[s, UTC]"), "not a whole Arrow stream")


@given(st.binary(max_size=400))
def test_bytes_that_are_no_stream_are_refused(data):
    refuses(data, DETAILS)


@given(st.binary(max_size=300))
def test_a_stream_with_a_made_up_message_is_refused(data):
    refuses(struct.pack("<II", 0xFFFFFFFF, len(data)) + data, DETAILS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@examples(33, 200, "kagura_kernel/runs/")
@given(st.sampled_from(sorted(DETAILS)), JSON)
def test_details_of_any_shape_are_refused_or_fit(key, value):
    details = DETAILS | {key: value}
    try:
        check_stream(PACKED.data, details, ROOM_OF_ARROW)
        value_of(PackedVariable("x", "frame", PACKED.data, details), None)
    except (CannotCross, VariableRefused):
        return


def test_a_compressed_stream_is_refused_before_anything_is_unpacked():
    table = pa.table([pa.array([0] * 1_000_000)], names=["0"])
    data = stream(table, compression="zstd")
    assert len(data) < 10_000
    refuses(data, told("int64", rows=1_000_000), "compressed")


def test_columns_that_cost_nothing_to_send_may_not_cost_gigabytes_here():
    nothing = stream(pa.table([pa.nulls(2**29)] * 4, names=list("abcd")))
    assert len(nothing) < 2000
    refuses(nothing, told(*["object"] * 4, rows=2**29), "of memory")
    many = pa.ListArray.from_arrays(pa.array([0, 2**29], pa.int32()), pa.nulls(2**29))
    refuses(*of(many), "of memory")
    wide = pa.array(["x" * 1000]).dictionary_encode().take(pa.array([0] * 1000))
    check_stream(*of(wide, "category"), ROOM_OF_ARROW)


@pytest.mark.parametrize(
    "array",
    [
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int32()), pa.array([1])),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array([b""], pa.binary(0)),
        pa.array([[]], pa.list_(pa.int8(), 0)),
        pa.array([0], pa.timestamp("s", tz="../../etc/passwd")),
        pa.array([[[[[[[[[[1]]]]]]]]]]),
        pa.array(["x"], pa.string_view()),
    ],
    ids=lambda array: str(array.type)[:40],
)
def test_types_that_do_not_travel_are_refused(array):
    refuses(*of(array), "type|zone|nested")


def test_metadata_of_a_stream_changes_nothing():
    table = pa.table([pa.array([1, 2])], names=["0"]).replace_schema_metadata({"pandas": '{"index_columns": ["0"]}'})
    details = told("int64", rows=2)
    check_stream(stream(table), details, ROOM_OF_ARROW)
    frame = value_of(PackedVariable("x", "frame", stream(table), details), None)
    assert frame.to_dict("list") == {"0": [1, 2]}


def test_a_stream_of_deltas_is_refused():
    schema = pa.schema([("0", pa.dictionary(pa.int32(), pa.string()))])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for words in (["a"], ["a", "b"]):
            array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(words))
            writer.write_batch(pa.record_batch([array], schema=schema))
    refuses(sink.getvalue().to_pybytes(), told("category", rows=2), "changes as it goes")
