from __future__ import annotations

import datetime as dt
import enum
import math
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.runs.box_runner import plain
from kagura_kernel.runs.box_runner.crossing import CannotCross

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
