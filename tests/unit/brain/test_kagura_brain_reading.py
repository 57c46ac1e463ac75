import json

import pytest

from kagura_kernel.brain.kagura_brain import Printed, read_claude, read_codex
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BrainRefused


def lines(*events: object) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


def codex(*events: object, code: int = 0) -> Printed:
    return Printed(code, "a word beside the events\n" + lines(*events), "WARNING: something")


ANSWER = {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}}
USED = {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}}


def test_what_claude_printed_is_its_answer_and_its_bill():
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "num_turns": 3,
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 7},
        "modelUsage": {"claude-x": {}},
    }
    said = read_claude(Printed(0, lines(result), ""), [])
    assert (said.text, said.model, said.turns, said.reported_usd) == ("Done.", "claude-x", 3, 0.25)
    assert said.usage == Usage(25, 7, 20)


def test_an_answer_is_whole_whatever_ends_a_line_elsewhere():
    text = "one\u2028two\x85three"
    result = json.dumps({"type": "result", "result": text}, ensure_ascii=False)
    assert read_claude(Printed(0, f"{result}\n", ""), []).text == text
    answer = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
    events = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in (answer, USED))
    assert read_codex(Printed(0, events, ""), []).text == text


@pytest.mark.parametrize(("subtype", "stopped"), [("error_max_budget_usd", "budget"), ("error_max_turns", "turns")])
def test_a_limit_that_claude_kept_is_no_failure(subtype, stopped):
    result = {"type": "result", "subtype": subtype, "is_error": True}
    assert read_claude(Printed(1, lines(result), ""), []).stopped == stopped


def test_an_error_of_claude_s_service_has_its_status_and_no_secret():
    result = {"type": "result", "is_error": True, "api_error_status": 418, "result": "no tea for sk-1"}
    with pytest.raises(BrainRefused, match="418: no tea for …") as caught:
        read_claude(Printed(1, lines(result), ""), ["sk-1"])
    assert caught.value.status == 418


def test_claude_without_a_sign_in_is_not_configured():
    result = {"type": "result", "is_error": True, "result": "Not logged in · Please run /login"}
    with pytest.raises(BrainNotConfigured, match="not signed in"):
        read_claude(Printed(1, lines(result), ""), [])


@pytest.mark.parametrize("read", [read_claude, read_codex])
def test_a_program_that_says_nothing_is_lost_with_its_last_words(read):
    with pytest.raises(BrainLost, match=r"exit code 3 \(I am not well, …\)"):
        read(Printed(3, "", "I am not well, sk-1"), ["sk-1"])


def test_what_codex_printed_is_its_last_answer_and_its_tokens():
    first = {"type": "item.completed", "item": {"type": "agent_message", "text": "I look."}}
    said = read_codex(codex(first, ANSWER, USED), [])
    assert (said.text, said.usage, said.reported_usd) == ("Done.", Usage(10, 2, 4), None)


@pytest.mark.parametrize("kind", ["command_execution", "file_change"])
def test_codex_with_a_hand_of_its_own_is_given_up_at_once(kind):
    moved = {"type": "item.started", "item": {"type": kind, "command": "ls"}}
    with pytest.raises(BrainLost, match="should have been off"):
        read_codex(codex(moved, ANSWER, USED), [])


def test_a_model_that_codex_gives_no_direct_tools_is_refused_where_tools_matter():
    notice = {"type": "item.completed", "item": {"type": "error", "message": "Code Mode is unavailable because …"}}
    with pytest.raises(BrainRefused, match="--model"):
        read_codex(codex(notice, ANSWER, USED), [], tools=True)
    assert read_codex(codex(notice, ANSWER, USED), []).text == "Done."


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("unexpected status 401 Unauthorized: no, sk-1", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", 429),
        ("it is what it is", None),
    ],
)
def test_a_failure_of_codex_is_refused_with_the_status_that_it_names(message, status):
    failed = {"type": "turn.failed", "error": {"message": message}}
    with pytest.raises(BrainRefused) as caught:
        read_codex(codex(failed, code=1), ["sk-1"])
    assert caught.value.status == status
    assert "sk-1" not in str(caught.value)
