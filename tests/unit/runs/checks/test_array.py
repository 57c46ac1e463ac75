from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from kagura_kernel.domain.errors import VariableRefused
from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.jupyter.variables import value_of
from kagura_kernel.runs.box_runner.crossing import CannotCross
from kagura_kernel.runs.box_runner.packing import pack_array
from kagura_kernel.runs.checks.array import check_array
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
