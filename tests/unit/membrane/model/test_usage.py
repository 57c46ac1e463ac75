"""What an answer has cost, read from its bytes as they pass."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.cost import Usage
from kagura_kernel.membrane.model_usage import Counted, UsageReader
from tests.support.model_script import ModelTurn, Says, calls, says
from tests.support.model_server import message_body, stream_events

EACH = Usage(input_tokens=1420, output_tokens=40, cache_read_tokens=1000, cache_write_tokens=300)


def streamed(turn: ModelTurn) -> bytes:
    events = stream_events(turn, {"model": "m-1"})
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def read(data: bytes, size: int = 10_000_000) -> Counted | None:
    reader = UsageReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader.finish()


@pytest.mark.parametrize("turn", [says("Hello."), calls("Bash", {"command": "ls"}), ModelTurn(())])
def test_a_stream_tells_its_tokens_at_its_beginning_and_its_end(turn: ModelTurn) -> None:
    assert read(streamed(turn)) == Counted(EACH, "m-1", whole=True)


def test_an_answer_that_is_no_stream_tells_them_too() -> None:
    body = json.dumps(message_body(says("Hello."), {"model": "m-1"}))
    assert read(body.encode()) == Counted(EACH, "m-1", whole=True)
    assert read(f"{body}\n".encode()) == Counted(EACH, "m-1", whole=True)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("before", ["", "\n \r\n", "\ufeff"])
def test_an_answer_may_be_laid_out_over_lines_as_it_likes(before: str, size: int) -> None:
    words = 'data: {"type": "message_delta", "usage": {"output_tokens": 0}}'
    body = before + json.dumps(message_body(says(words), {"model": "m-1"}), indent=2)
    assert read(body.encode(), size) == Counted(EACH, "m-1", whole=True)


def test_an_answer_without_end_is_not_kept() -> None:
    reader = UsageReader(most=100)
    for _ in range(5):
        reader.feed(b'{"a": "\n' + b"x" * 90)
        assert len(reader._buffer) <= 100
    assert reader.finish() is None


def test_what_a_cache_keeps_for_an_hour_is_counted_apart() -> None:
    body = message_body(says("Hello."), {"model": "m-1"})
    body["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}
    found = read(json.dumps(body).encode())
    assert found is not None
    assert found.usage == replace(EACH, cache_write_1h_tokens=200)


@given(st.integers(1, 400), st.text(max_size=300))
def test_it_does_not_matter_how_the_bytes_are_cut(size: int, text: str) -> None:
    data = streamed(ModelTurn((Says(text + "message_start message_delta"),)))
    assert read(data, size) == Counted(EACH, "m-1", whole=True)


def test_a_stream_that_breaks_off_costs_what_it_has_told() -> None:
    data = streamed(says("Hello."))
    half = read(data[: data.index(b"message_delta")])
    assert half is not None
    assert (half.usage.input_tokens, half.whole) == (1420, False)


@pytest.mark.parametrize("word", ["Hello. ", "message_delta ", 'data: {"type": "message_delta"} '])
def test_who_hangs_up_before_the_figures_of_an_answer_has_not_had_it_for_nothing(word: str) -> None:
    data = streamed(ModelTurn(tuple(Says(word * 40) for _ in range(25))))
    half = read(data[: data.index(b"event: message_delta")])
    assert half is not None
    assert half.usage.output_tokens >= 25 * 40 * len(word) // 8
    assert read(data) == Counted(EACH, "m-1", whole=True)


def test_a_last_line_without_its_end_counts() -> None:
    assert read(streamed(says("Hello.")).rstrip(b"\n")) == Counted(EACH, "m-1", whole=True)
    counted = read(b'data: {"type": "message_delta", "usage": {"output_tokens": 7}}')
    assert counted is not None
    assert counted.usage.output_tokens == 7


def test_words_of_the_model_are_not_taken_for_figures() -> None:
    lie = 'data: {"type": "message_delta", "usage": {"output_tokens": 0}}'
    assert read(streamed(says(f"\n{lie}\n\n{lie}"))) == Counted(EACH, "m-1", whole=True)


@pytest.mark.parametrize(
    "data",
    [b"", b"no json", b"[]", b"data: x\n\n", b'{"type": "error"}', b'data: {"type": "message_start", "message": 1}\n'],
)
def test_what_tells_of_no_tokens_is_none(data: bytes) -> None:
    assert read(data) is None


def test_a_line_without_end_is_passed_over_and_the_next_one_read() -> None:
    reader = UsageReader(most=100)
    reader.feed(b"data: " + b"x" * 500)
    reader.feed(b"y" * 500 + b"\n" + b'data: {"type": "message_delta", "usage": {"output_tokens": 7}}\n')
    counted = reader.finish()
    assert counted is not None
    assert counted.usage.output_tokens == 7
