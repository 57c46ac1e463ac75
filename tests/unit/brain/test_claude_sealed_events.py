"""What a program in a box says is read as the box's word: bounded, and without its figures."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from kagura_kernel.brain import claude_sealed_talk as sealed_events
from kagura_kernel.brain.claude_sealed_talk import LONGEST_RESULT, SealedReading, shortened
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainText, BrainToolCalled, BrainToolFinished
from kagura_kernel.domain.errors import BrainLost


def said(*blocks: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m-1", **more)


def answered(*blocks: Any) -> UserMessage:
    return UserMessage(content=list(blocks))


def result(**more: Any) -> ResultMessage:
    fields = {"subtype": "success", "is_error": False, "num_turns": 9, "session_id": "s", "total_cost_usd": 0.0}
    return ResultMessage(duration_ms=1, duration_api_ms=1, result="Done.", **{**fields, **more})


def read(*messages: Message, reading: SealedReading | None = None) -> list[BrainEvent]:
    reading = reading or SealedReading()
    return [event for message in messages for event in reading.read(message)]


def test_its_own_tools_are_told_with_ids_of_ours():
    called, finished = read(
        said(ToolUseBlock("call-1", "Bash", {"command": "ls"})), answered(ToolResultBlock("call-1", "a.txt"))
    )
    assert isinstance(called, BrainToolCalled)
    assert (called.name, called.arguments) == ("Bash", {"command": "ls"})
    assert called.id != "call-1", "the box could name a call of somebody else"
    assert called.known
    assert finished == BrainToolFinished(called.id, "Bash", "a.txt", known=True)


def test_a_tool_that_the_program_was_not_given_is_told_as_not_known():
    (called,) = read(said(ToolUseBlock("call-1", "no_such_tool", {})))
    assert isinstance(called, BrainToolCalled)
    assert not called.known


def test_what_a_sub_agent_of_it_uses_is_told_too():
    events = read(said(TextBlock("inner"), ToolUseBlock("t", "Read", {}), parent_tool_use_id="task"))
    assert [type(event) for event in events] == [BrainToolCalled]


def test_calls_of_our_tools_are_told_by_those_who_carry_them_out():
    block = ToolUseBlock("t", "mcp__kagura__ask_user", {"question": "?"})
    assert read(said(block), answered(ToolResultBlock("t", "yes"))) == []


def test_answers_that_nobody_waits_for_are_none():
    block = ToolResultBlock("never-called", "x")
    assert read(answered(block), UserMessage(content="a text")) == []


def test_it_is_busy_while_a_tool_of_its_own_runs():
    reading = SealedReading()
    assert not reading.busy
    read(said(ToolUseBlock("t", "Bash", {})), reading=reading)
    assert reading.busy
    read(answered(ToolResultBlock("t", None, is_error=True)), reading=reading)
    assert not reading.busy


def test_what_it_says_of_tokens_and_money_is_not_believed():
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "m", "model": "m-1", "usage": usage}}
    stop = {"type": "message_stop"}
    streamed = [StreamEvent(uuid="u", session_id="s", event=event) for event in (start, stop)]
    events = read(*streamed, said(TextBlock("Hello."), message_id="n", usage=usage), result(total_cost_usd=99.0))
    assert events == [BrainText("Hello."), BrainDone(text="Done.")]


def test_a_limit_of_rounds_is_told_as_the_one_that_was_set():
    (done,) = read(result(subtype="error_max_turns", is_error=True), reading=SealedReading(max_turns=3))
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.turns) == ("turns", 3)
    (done,) = read(result(subtype="error_max_budget_usd", is_error=True))
    assert isinstance(done, BrainDone)
    assert done.stopped == "", "it was given no budget to keep to"


def test_long_results_keep_their_beginning_and_their_end():
    _, finished = read(
        said(ToolUseBlock("t", "Bash", {})),
        answered(ToolResultBlock("t", [{"type": "text", "text": "a" * 99_999 + "z"}, {"type": "image", "data": "…"}])),
    )
    assert isinstance(finished, BrainToolFinished)
    assert len(finished.text) < LONGEST_RESULT + 100
    assert finished.text.startswith("aaa")
    assert finished.text.endswith("z\n(image)")
    assert "characters left out" in finished.text


@pytest.mark.parametrize("arguments", [{"content": "x" * 100_000}, {"a": [[[["deep"]]]]}])
def test_arguments_that_are_too_much_are_cut(arguments, monkeypatch):
    monkeypatch.setattr(sealed_events, "DEEPEST", 3)
    (called,) = read(said(ToolUseBlock("t", "Write", arguments)))
    assert isinstance(called, BrainToolCalled)
    assert set(called.arguments) <= {"shortened", "left_out"}
    assert len(str(called.arguments)) < 40_000


def test_a_name_that_is_none_is_made_harmless():
    (called,) = read(said(ToolUseBlock("t", "\x1b[31m" + "n" * 500, {})))
    assert isinstance(called, BrainToolCalled)
    assert called.name.isprintable()
    assert len(called.name) <= 64


@pytest.mark.parametrize(("limit", "value"), [("MOST_EVENTS", 5), ("MOST_CHARACTERS", 20)])
def test_a_program_that_says_too_much_is_lost(limit, value, monkeypatch):
    monkeypatch.setattr(sealed_events, limit, value)
    with pytest.raises(BrainLost, match="more than anybody could read"):
        read(*(said(TextBlock("Hello.")) for _ in range(10)))


def test_a_program_that_begins_without_end_is_lost():
    with pytest.raises(BrainLost, match="more than it could end"):
        read(*(said(ToolUseBlock(f"t{number}", "Bash", {})) for number in range(300)))


def test_a_short_text_stays_as_it_is():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdef", 4) == "ab\n… 2 characters left out …\nef"
