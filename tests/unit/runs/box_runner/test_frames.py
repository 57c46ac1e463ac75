import datetime as dt
import enum
import math
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import pandas as pds

from kagura_kernel.runs.box_runner import frames, plain
from kagura_kernel.runs.box_runner.wire import CannotCross, Packed
from kagura_kernel.runs.checks import check_stream

ROOM = 2**24


def there_and_back(value):
    packed = frames.pack_frame(value, ROOM) if isinstance(value, pd.DataFrame) else frames.pack_series(value, ROOM)
    check_stream(packed.data, packed.details, ROOM)
    return frames.unpack(packed.form, frames.read_stream(packed.data), dict(packed.details))


DAYS = pd.date_range("2026-01-01", periods=3, freq="D")
FRAMES = {
    "plain": pd.DataFrame({"a": [1, 2], "b": [1.5, np.nan], "c": ["x", "ü"], "d": [True, False]}),
    "missing text": pd.DataFrame({"a": ["x", np.nan, None]}),
    "missing objects": pd.DataFrame({"a": pd.Series(["x", np.nan], dtype=object)}),
    "no objects": pd.DataFrame({"a": pd.Series(["x", None], dtype=object)}),
    "named index": pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key")),
    "stepped index": pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(10, 14, 2, name="n")),
    "levels": pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["k", None])),
    "column levels": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", "q"])),
    "column name": pd.DataFrame([[1, 2]], columns=pd.Index(["a", "b"], name="what")),
    "doubled names": pd.DataFrame([[1, "x"]], columns=["a", "a"]),
    "numbered columns": pd.DataFrame([[1, 2.5]]),
    "mixed labels": pd.DataFrame([[1, 2, 3]], columns=["a", 1, None]),
    "dates as labels": pd.DataFrame([[1, 2, 3]], columns=pd.DatetimeIndex(list(DAYS))),
    "times": pd.DataFrame({"t": DAYS, "z": DAYS.tz_localize("Europe/Oslo"), "d": DAYS - DAYS[0]}),
    "time index": pd.DataFrame({"a": [1, 2, 3]}, index=DAYS),
    "categories": pd.DataFrame({"c": pd.Categorical(["b", "a", None], ["b", "a", "z"], ordered=True)}),
    "nullable": pd.DataFrame(
        {
            "i": pd.array([1, None], "Int16"),
            "b": pd.array([True, None], "boolean"),
            "f": pd.array([1.5, None], "Float64"),
            "s": pd.array(["x", None], "string"),
        }
    ),
    "arrow": pd.DataFrame({"a": pd.array([1, None], pd.ArrowDtype(pa.int32()))}),
    "small": pd.DataFrame(
        {"a": np.array([1, 2], "uint8"), "b": np.array([1, 2], "float16"), "c": DAYS[:2].as_unit("s")}
    ),
    "objects": pd.DataFrame(
        {
            "l": pd.Series([[1, 2], []], dtype=object),
            "d": pd.Series([Decimal("1.50"), None], dtype=object),
            "t": pd.Series([dt.date(2026, 1, 2), dt.date(2026, 1, 3)], dtype=object),
            "b": pd.Series([b"x", b""], dtype=object),
        }
    ),
    "nothing": pd.DataFrame(),
    "no rows": pd.DataFrame({"a": pd.Series([], dtype="int64"), "b": pd.Series([], dtype="str")}),
    "no columns": pd.DataFrame(index=pd.RangeIndex(3)),
    "no columns, named rows": pd.DataFrame(index=pd.Index(["x", "y"])),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back_as_it_was(name):
    frame = FRAMES[name]
    pd.testing.assert_frame_equal(there_and_back(frame), frame, check_column_type="equiv")


@pytest.mark.parametrize("name", ["plain", "levels", "time index", "missing objects"])
def test_a_series_comes_back_as_it_was(name):
    series = FRAMES[name].iloc[:, 0]
    pd.testing.assert_series_equal(there_and_back(series), series)


@given(
    pds.data_frames(
        [
            pds.column("i", dtype="int32"),
            pds.column("f", dtype="float64"),
            pds.column("t", dtype="datetime64[ns]", elements=st.datetimes(pd.Timestamp.min, pd.Timestamp.max)),
            pds.column("o", dtype=object, elements=st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
        ]
    )
)
def test_any_frame_of_usual_columns_comes_back_as_it_was(frame):
    pd.testing.assert_frame_equal(there_and_back(frame), frame)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"x": [1, "a"]}, dtype=object), r"column 'x' mixes int, str"),
        (pd.DataFrame({"x": [object()]}), r"column 'x' holds object that do not travel"),
        (pd.DataFrame({"x": pd.period_range("2026", periods=2)}), r"\.dt\.to_timestamp\(\)"),
        (pd.DataFrame({"x": pd.cut([1, 2], 2)}), r"interval.*\.astype\(str\)"),
        (pd.DataFrame({"x": [1j]}), "real and imaginary"),
        (pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])}), r"\.sparse\.to_dense\(\)"),
        (pd.DataFrame({"x": [10**30]}), "column 'x'"),
        (pd.DataFrame([[1]], columns=[frozenset()]), "labels have to be text"),
        (pd.DataFrame({"x": [1]}, index=pd.Index([(1, 2)], tupleize_cols=False)), "the index"),
    ],
)
def test_a_column_that_cannot_travel_is_named_with_what_to_do(frame, words):
    with pytest.raises(CannotCross, match=words):
        there_and_back(frame)


def test_a_frame_too_large_is_refused_with_its_size_and_the_limit():
    with pytest.raises(CannotCross, match=r"it has 15\.3 MiB, and 1\.0 MiB may cross"):
        frames.pack_frame(pd.DataFrame(np.zeros((1000, 2000))), 2**20)
    with pytest.raises(CannotCross, match="may cross"):
        frames.pack_frame(pd.DataFrame({"x": ["long " * 1000] * 1000}), 2**20)


def test_the_summary_tells_shape_and_columns():
    assert frames.pack_frame(FRAMES["plain"], ROOM).summary == (
        "DataFrame, 2 rows × 4 columns: a (int64), b (float64), c (str), d (bool)"
    )
    assert frames.pack_series(FRAMES["plain"]["a"], ROOM).summary == "Series 'a', 2 × int64"


def test_an_arrow_table_crosses_without_its_metadata():
    table = pa.table({"a": [1, 2], "b": [["x"], []]}).replace_schema_metadata({"pandas": "{}"})
    packed: Packed = frames.pack_table(table, ROOM)
    check_stream(packed.data, packed.details, ROOM)
    back = frames.unpack("frame", frames.read_stream(packed.data), dict(packed.details))
    assert back.equals(table)
    assert back.schema.metadata is None


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
)
KEYS = st.text() | st.just(plain.MARK)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)


@given(VALUES)
def test_plain_values_come_back_as_they_were(value):
    data, _ = plain.encode(value)
    assert plain.decode(data) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}":,0123456789e$kagurdtimplh', max_size=200).map(str.encode))
def test_bytes_of_a_box_are_a_value_or_a_refusal(data):
    try:
        plain.decode(data)
    except CannotCross:
        return


def test_numbers_that_are_none_cross_too():
    [nan, high, low] = plain.decode(plain.encode([math.nan, math.inf, -math.inf])[0])
    assert math.isnan(nan)
    assert (high, low) == (math.inf, -math.inf)


class Point(NamedTuple):
    x: int
    y: tuple[int, int]


def test_tuples_become_lists_and_that_is_told():
    point = Point(1, (2, 3))
    data, tuples = plain.encode({"p": point})
    assert (plain.decode(data), tuples) == ({"p": [1, [2, 3]]}, True)


def test_what_is_nearly_plain_becomes_plain():
    value = OrderedDict(a=np.int64(3), b=np.float32(0.5), c=np.bool_(1), d=np.str_("x"), e=pd.Timestamp("2026-01-02"))
    assert plain.decode(plain.encode(value)[0]) == {
        "a": 3,
        "b": 0.5,
        "c": True,
        "d": "x",
        "e": dt.datetime(2026, 1, 2),  # noqa: DTZ001 - as it was
    }


def test_a_time_keeps_its_offset_and_a_path_is_asked_about():
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Oslo"))
    data, _ = plain.encode([noon, Path("/a/b")], lambda path: f"/workspace/{path.name}")
    [back, path] = plain.decode(data)
    assert (back, back.utcoffset(), path) == (noon, dt.timedelta(hours=2), Path("/workspace/b"))


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: 2}, "the key 1, and keys have to be text"),
        ({"a": [{3}]}, "a set at ['a'][0] cannot cross: make it a list"),
        ({"a": b"x"}, "bytes cross by themselves"),
        (1j, "pass its real and imaginary parts"),
        (Colour.RED, "pass its `.value`"),
        (print, "only data crosses; put the code into the cell"),
        ((one for one in [1]), "pass `list(…)` of it"),
        (pd.NaT, "use None for no time"),
        (pd.Timestamp(1), "round it to microseconds"),
        (pd.Index([1]), "pass `.to_frame()` or `.to_list()` of it"),
        (
            pd.period_range("2026", periods=1, freq="M"),
            "a PeriodIndex cannot cross: pass `.astype(str).to_list()` of it",
        ),
        (pd.interval_range(0, 1), "pass `.astype(str).to_list()` of it"),
        (pd.Period("2026"), "pass `.to_timestamp()` of it, or `str(…)`"),
        (object(), "only data crosses"),
        (10**5000, "more than 4000 digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_does_not_cross_is_told_with_its_place_and_what_to_do(value, words):
    with pytest.raises(CannotCross) as told:
        plain.encode(value)
    assert words in str(told.value)


def test_a_value_that_holds_itself_is_refused():
    knot: list[object] = []
    knot.append(knot)
    with pytest.raises(CannotCross, match="holds itself"):
        plain.encode(knot)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[" * 200 + b"]" * 200,
        b"[" + b"[]," * 3_000_000 + b"1]",
        b'"' + b"x" * (33 * 2**20) + b'"',
        b"1" * 100_000,
        b'{"$kagura": ["datetime", "2026-13-45"]}',
        b'{"$kagura": ["decimal", "one"]}',
        b'{"$kagura": ["eval", "1"]}',
        b'{"$kagura": [["dict"], "1"]}',
        b'{"$kagura": ["timedelta", "99999999999999999999 0 0"]}',
        b'{"$kagura": ["dict", 5]}',
        b'{"$kagura": 5}',
        b"\xff\xfe",
        b"",
    ],
    ids=lambda data: str(data[:20]),
)
def test_a_bomb_or_a_wrong_mark_is_refused(data):
    with pytest.raises(CannotCross):
        plain.decode(data)


def test_a_list_of_more_values_than_may_cross_is_refused_before_all_of_it_is_looked_at(monkeypatch):
    monkeypatch.setattr(plain, "MAX_VALUES", 3)
    assert plain.encode([1]) == (b"[1]", False)
    with pytest.raises(CannotCross, match="more than the 3 plain values that may cross"):
        # The last one could not cross either, and is not looked at.
        plain.encode([1, 2, 3, object()])
