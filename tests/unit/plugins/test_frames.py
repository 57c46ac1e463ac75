"""Frames: whatever is JSON comes back as it was; whatever is not is refused, however large it claims to be."""

import json
import time

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.plugins.frames import HEADER, MAX_BYTES, MAX_DEPTH, FrameError, decode, encode, length

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=50,
)


@given(values)
def test_what_is_sent_comes_back(value):
    frame = encode(value)
    assert length(frame[: HEADER.size]) == len(frame) - HEADER.size
    assert decode(frame[HEADER.size :]) == value


@given(st.binary(max_size=300))
def test_any_bytes_are_a_value_or_refused(data):
    try:
        value = decode(data)
    except FrameError:
        return
    assert decode(encode(value)[HEADER.size :]) == value


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "💡", "\x00", '"[{', "\\", '\\"'])
def test_texts_of_every_kind_come_back(text):
    assert decode(encode([text, {text: text}])[HEADER.size :]) == [text, {text: text}]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "a number that JSON has not"),
        ([float("-inf")], "a number that JSON has not"),
        (b"bytes", "bytes is not JSON"),
        ({(1, 2): 3}, "keys must be"),
        ({1, 2}, "set is not JSON"),
        ("x" * MAX_BYTES, "bytes long"),
    ],
)
def test_what_is_no_json_cannot_be_sent(value, why):
    with pytest.raises(FrameError, match=why):
        encode(value)


def test_what_contains_itself_cannot_be_sent():
    value: list[object] = []
    value.append(value)
    with pytest.raises(FrameError, match="contains itself"):
        encode(value)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 100_000])
def test_what_is_nested_too_deeply_passes_neither_way(levels):
    data = b"[" * levels + b"]" * levels
    if levels <= MAX_DEPTH:
        assert json.dumps(decode(data)).encode() == data
        return
    with pytest.raises(FrameError, match="levels deep"):
        decode(data)
    value: object = 0
    for _ in range(levels):
        value = [value]
    with pytest.raises(FrameError, match="levels deep"):
        encode(value)


def test_brackets_in_texts_are_no_levels():
    assert decode(encode(["[" * 1000, '\\"[[[' * 100, *[[]] * 100])[HEADER.size :])[0] == "[" * 1000


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"1e999", "too large"),
        (b"\xff", "no JSON"),
        (b"{'a': 1}", "no JSON"),
        (b"[1] [2]", "no JSON"),
        (b"9" * 100_000, "no JSON"),
        (b"[" + b"{}," * 300_000 + b"0]", "lists and objects"),
    ],
)
def test_what_is_no_frame_is_refused(data, why):
    with pytest.raises(FrameError, match=why):
        decode(data)


@pytest.mark.parametrize("count", [0, MAX_BYTES + 1, 2**32 - 1])
def test_no_length_is_believed_that_no_frame_has(count):
    with pytest.raises(FrameError, match="bytes long"):
        length(HEADER.pack(count))


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"[", b"\\", b"[]", b'"",'])
def test_the_bounds_are_found_in_linear_time(piece):
    # What takes time by the square would take hours for this.
    data = b'["' + piece * (3_000_000 // len(piece))
    begun = time.process_time()
    with pytest.raises(FrameError):
        decode(data)
    assert time.process_time() - begun < 60
