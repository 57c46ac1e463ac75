from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolUseBlock,
)

from kagura_kernel.brain.claude_events import Reading, join_session, refused, split_session, usage_of
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainText, BrainUsage
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BrainRefused

FIGURES = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30, "output_tokens": 1}


def streamed(event: dict[str, Any], parent: str | None = None) -> StreamEvent:
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def start(message_id: str) -> StreamEvent:
    return streamed({"type": "message_start", "message": {"id": message_id, "model": "m", "usage": FIGURES}})


def delta(text: str) -> StreamEvent:
    return streamed({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


def end(output: int) -> list[StreamEvent]:
    usage = {"output_tokens": output, "input_tokens": None}
    return [streamed({"type": "message_delta", "delta": {}, "usage": usage}), streamed({"type": "message_stop"})]


def whole(message_id: str, *blocks: TextBlock | ToolUseBlock, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m", usage=FIGURES, message_id=message_id, **fields)


def result(**fields: Any) -> ResultMessage:
    plain = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "session_id": "abc", "subtype": "success"}
    return ResultMessage(**{"is_error": False, **plain, **fields})


def read(reading: Reading, *messages: Message) -> list[BrainEvent]:
    return [event for message in messages for event in reading.read(message)]


def test_a_streamed_message_is_counted_once_with_its_last_figures():
    blocks = whole("1", TextBlock("Hi")), whole("1", ToolUseBlock("t", "mcp__kagura__bash", {}))
    events = read(Reading([]), start("1"), delta("H"), delta("i"), *blocks, *end(40))
    assert events == [
        BrainText("H", partial=True),
        BrainText("i", partial=True),
        BrainText("Hi"),
        BrainUsage(Usage(60, 40, 20, 30), "m"),
    ]


def test_a_message_that_was_not_streamed_is_counted_once_for_all_its_blocks():
    events = read(Reading([]), whole("1", TextBlock("a")), whole("1", TextBlock("b")))
    assert [event for event in events if isinstance(event, BrainUsage)] == [BrainUsage(Usage(60, 1, 20, 30), "m")]


def test_a_message_that_broke_off_is_counted_when_the_next_begins():
    events = read(Reading([]), start("1"), delta("x"), start("2"), whole("2", TextBlock("y")), *end(7))
    counted = [event.usage.output_tokens for event in events if isinstance(event, BrainUsage)]
    assert counted == [1, 7]


def test_a_second_try_at_a_message_is_not_read_twice():
    broken = [start("1"), delta("The wh"), streamed({"type": "message_stop"})]
    again = [start("2"), delta("The wh"), delta("ole."), whole("2", TextBlock("The whole.")), *end(7)]
    after = [start("3"), delta("More."), whole("3", TextBlock("More.")), *end(7)]
    texts = [event for event in read(Reading([]), *broken, *again, *after) if isinstance(event, BrainText)]
    assert texts == [
        BrainText("The wh", partial=True),
        BrainText("The whole."),
        BrainText("More.", partial=True),
        BrainText("More."),
    ]


@pytest.mark.parametrize("stop", [[], [streamed({"type": "message_stop"})]])
@pytest.mark.parametrize("status", [None, 200])
def test_a_connection_that_was_cut_in_an_answer_is_a_loss_in_few_words(stop, status):
    reading = Reading([])
    said = "API Error: API returned an empty or malformed response (HTTP 200) - check for a proxy " + "x" * 900
    read(reading, start("1"), delta("The wh"), *stop, whole("x", TextBlock(said), error="unknown"))
    with pytest.raises(BrainLost, match="cut in the middle of an answer") as caught:
        read(reading, result(is_error=True, result=said, api_error_status=status))
    assert len(caught.value.message) < 150


def test_a_refusal_after_a_cut_is_a_refusal():
    reading = Reading([])
    read(reading, start("1"), delta("The wh"), streamed({"type": "message_stop"}))
    with pytest.raises(BrainRefused) as caught:
        read(reading, result(is_error=True, api_error_status=529))
    assert caught.value.status == 529


def test_an_error_after_a_cut_that_was_made_good_is_no_cut():
    reading = Reading([])
    read(reading, start("1"), delta("a"), start("2"), whole("2", TextBlock("ab")), *end(3))
    with pytest.raises(BrainLost, match="error_during_execution"):
        read(reading, result(subtype="error_during_execution", is_error=True))


def test_the_end_sums_up():
    reading = Reading([])
    read(reading, start("1"), *end(5), start("2"), *end(6))
    (done,) = read(reading, result(result="Fine.", total_cost_usd=0.25))
    assert done == BrainDone("Fine.", join_session("abc", 0.25), 0.25, Usage(120, 11, 40, 60), "m", 2)


def test_a_resumed_session_reports_what_was_added():
    (done,) = read(Reading([], join_session("abc", 0.2)), result(total_cost_usd=0.5))
    assert isinstance(done, BrainDone)
    assert done.reported_usd == pytest.approx(0.3)
    assert split_session(done.session) == ("abc", 0.5)


def test_no_reported_cost_is_none_and_not_zero():
    (done,) = read(Reading([]), result())
    assert isinstance(done, BrainDone)
    assert done.reported_usd is None


@pytest.mark.parametrize(("subtype", "stopped"), [("error_max_budget_usd", "budget"), ("error_max_turns", "turns")])
def test_a_limit_is_an_end_and_keeps_the_last_text(subtype, stopped):
    reading = Reading([])
    read(reading, whole("1", TextBlock("so far")))
    (done,) = read(reading, result(subtype=subtype, is_error=True))
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.text) == (stopped, "so far")


def test_what_a_helper_agent_says_is_not_the_brains_text():
    reading = Reading([])
    inner = streamed({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}, parent="t")
    assert read(reading, inner, whole("1", TextBlock("x"), parent_tool_use_id="t")) == []


def test_a_tool_that_is_not_ours_ends_the_run_before_it_begins():
    init = SystemMessage("init", {"tools": ["mcp__kagura__bash", "Bash"]})
    with pytest.raises(BrainLost, match="not ours \\(Bash\\)"):
        read(Reading(["mcp__kagura__bash"]), init)


def test_our_own_tools_are_fine():
    assert read(Reading(["mcp__kagura__bash"]), SystemMessage("init", {"tools": ["mcp__kagura__bash"]})) == []


def test_the_programs_own_error_text_is_not_the_models():
    assert read(Reading([]), whole("1", TextBlock("API Error"), error="rate_limit")) == []


def test_a_key_that_is_not_accepted_is_not_tried_again():
    with pytest.raises(BrainRefused) as caught:
        read(Reading([]), SystemMessage("api_retry", {"error_status": 401}))
    assert caught.value.status == 401


def test_an_overload_may_be_tried_again():
    assert read(Reading([]), SystemMessage("api_retry", {"error_status": 529})) == []


def test_an_error_without_a_status_is_told_by_its_kind():
    reading = Reading([])
    read(reading, whole("1", TextBlock("Not logged in"), error="authentication_failed"))
    with pytest.raises(BrainNotConfigured, match="sign in"):
        read(reading, result(is_error=True, result="Not logged in · Please run /login"))
    other = Reading([])
    read(other, whole("1", TextBlock("?"), error="unknown"))
    with pytest.raises(BrainRefused, match="no connection"):
        read(other, result(is_error=True, result="no connection"))


def test_an_error_that_says_nothing_means_it_is_lost():
    with pytest.raises(BrainLost, match="error_during_execution"):
        read(Reading([]), result(subtype="error_during_execution", is_error=True))


def test_an_unknown_status_brings_the_services_own_words():
    assert "answered 418: tea" in str(refused(418, "tea"))


def test_tokens_that_are_missing_are_none_at_all():
    assert usage_of({}) == Usage()
    assert usage_of({"input_tokens": 5, "cache_read_input_tokens": None}) == Usage(input_tokens=5)


@pytest.mark.parametrize("session", ["a b", "x;y", "abc$money", "--resume=x y"])
def test_a_strange_session_is_refused(session):
    with pytest.raises(BrainRefused, match="--new"):
        split_session(session)


def test_a_plain_session_id_has_cost_nothing():
    assert split_session("abc-1") == ("abc-1", 0.0)
    assert split_session("") == ("", 0.0)
    assert join_session("", 1.0) == ""
