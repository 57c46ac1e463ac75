from __future__ import annotations

import json

import pytest

from kagura_kernel.brain.provider import BrainDone, BrainText, BrainUsage
from kagura_kernel.brain.replay import ReplayBrain
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import CassetteBroken, CassetteMissing
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events


def echo(word: str) -> dict[str, object]:
    return {"id": word, "name": "echo", "arguments": {"word": word}}


@pytest.fixture
def tape(tmp_path):
    def write(*lines: dict[str, object]):
        path = tmp_path / "run.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in ({"kagura_cassette": 1}, *lines)))
        return path

    return write


async def test_recorded_money_is_not_counted_again(tape):
    usage = {"input_tokens": 1000, "output_tokens": 100, "model": "m"}
    done = {"text": "Bye.", "model": "m", "turns": 4, "stopped": "budget", "reported_usd": 3.5}
    events = await all_events(ReplayBrain(tape({"usage": usage}, {"done": done})), a_turn(ToolLog()))
    assert events == [BrainDone("Bye.", "", 0.0, Usage(), "m", 4, "budget")]
    assert not [event for event in events if isinstance(event, BrainUsage)]


async def test_the_tools_run_for_real_in_the_recorded_order(tape):
    log = ToolLog()
    path = tape(
        {"call": echo("a")},
        {"text": "x"},
        {"calls": [echo("b"), echo("c")]},
        {"call": echo("d")},
        {"done": {"text": ""}},
    )
    await all_events(ReplayBrain(path), a_turn(log))
    assert [call.arguments["word"] for call in log.calls] == ["a", "b", "c", "d"]


async def test_two_replays_are_two_different_sets_of_calls(tape):
    log = ToolLog()
    brain = ReplayBrain(tape({"call": echo("a")}, {"done": {"text": ""}}))
    await all_events(brain, a_turn(log))
    await all_events(brain, a_turn(log))
    assert len({call.id for call in log.calls}) == 2


async def test_nothing_runs_when_a_later_line_is_broken(tape):
    log = ToolLog()
    path = tape({"call": echo("a")}, {"call": {"id": "x", "name": "teleport", "arguments": {}}}, {"done": {"text": ""}})
    with pytest.raises(CassetteBroken, match="line 3"):
        await all_events(ReplayBrain(path), a_turn(log))
    assert log.calls == []


async def test_when_one_of_several_calls_raises_the_others_are_cancelled(tape):
    log = ToolLog(wait=600)

    async def one_fails(call: ToolCall) -> ToolResult:
        if call.arguments["word"] == "bad":
            raise LookupError("bad")
        return await log(call)

    path = tape({"calls": [echo("good"), echo("bad")]}, {"done": {"text": ""}})
    with pytest.raises(LookupError):
        await all_events(ReplayBrain(path), a_turn(one_fails))
    assert log.cancelled == 1


async def test_with_a_delay_a_text_comes_in_words(tape):
    path = tape({"text": "one two  three\n"}, {"done": {"text": ""}})
    events = await all_events(ReplayBrain(path, delay=0.001), a_turn(ToolLog()))
    pieces = [event.text for event in events if isinstance(event, BrainText) and event.partial]
    assert len(pieces) > 1
    assert "".join(pieces) == "one two  three\n"


async def test_a_cassette_that_is_not_there_is_missing(tmp_path):
    brain = ReplayBrain(tmp_path / "none.jsonl")
    assert not brain.resolve_auth().ready
    assert "none.jsonl" in brain.resolve_auth().reason
    with pytest.raises(CassetteMissing):
        await all_events(brain, a_turn(ToolLog()))


def test_it_knows_no_budget_and_cannot_resume(tmp_path):
    can = ReplayBrain(tmp_path / "x").capabilities()
    assert (can.budget, can.resume, can.reports_cost) == (False, False, True)
