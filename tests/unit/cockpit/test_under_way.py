"""What late listeners get of what was streamed and not said for good yet."""

from __future__ import annotations

from datetime import UTC, datetime

from kagura_kernel.cockpit.handles import KEPT_OUTPUT, UnderWay
from kagura_kernel.domain.events import OutputStreamed, TextStreamed, TextWritten, ToolCalled, ToolFinished

WHERE = {"run_id": "run-1", "session_id": "ses-1", "at": datetime(2026, 1, 1, tzinfo=UTC)}


def streams(text: str) -> TextStreamed:
    return TextStreamed(**WHERE, text=text)


def prints(text: str, call: str = "c1") -> OutputStreamed:
    return OutputStreamed(**WHERE, call_id=call, stream="stdout", text=text)


def told(*events: object) -> list[tuple[str, str]]:
    under_way = UnderWay()
    for event in events:
        under_way.take(event)  # type: ignore[arg-type]
    return [(event.kind, event.text) for event in under_way.events()]  # type: ignore[union-attr]


def test_a_passage_that_grows_comes_in_one_piece():
    assert told(streams("Let me "), streams("look.")) == [("text.streamed", "Let me look.")]


def test_a_passage_that_was_said_for_good_is_not_told_twice():
    assert told(streams("Look."), TextWritten(**WHERE, text="Look.")) == []
    assert told(streams("Look."), ToolCalled(**WHERE, call_id="c1", tool="bash")) == []


def test_the_output_of_each_call_that_goes_on_comes_in_one_piece():
    done = ToolFinished(**WHERE, call_id="c1", tool="bash", text="ab")
    assert told(prints("a"), prints("b"), prints("x", "c2")) == [("output.streamed", "ab"), ("output.streamed", "x")]
    assert told(prints("a"), prints("x", "c2"), done) == [("output.streamed", "x")]


def test_of_much_output_the_latest_is_kept():
    ((_, text),) = told(*(prints(f"{number:07},") for number in range(10_000)))
    assert len(text) == KEPT_OUTPUT
    assert text.endswith("0009999,")
