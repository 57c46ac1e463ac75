from __future__ import annotations

import asyncio
import json

import pytest

from kagura_kernel.brain.cassette import Called, Counted, Finished, Spoken, read_cassette
from kagura_kernel.brain.recording import RecordingBrain
from kagura_kernel.brain.replay import ReplayBrain
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.testing.brain import PER_ROUND, Ask, FakeBrain, Hang, Together
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events

SCRIPT = [
    "First.",
    Ask("echo", {"word": "a"}),
    Together((Ask("echo", {"word": "b"}), Ask("echo", {"word": "c"}))),
    "Last.",
]


async def test_a_recorded_run_replays_with_the_same_words_and_calls(tmp_path):
    path = tmp_path / "run.jsonl"
    live, again = ToolLog(wait=0.01), ToolLog(wait=0.01)
    recorded = await all_events(RecordingBrain(FakeBrain(SCRIPT), path), a_turn(live, model="m-2"))
    replayed = await all_events(ReplayBrain(path), a_turn(again))
    assert recorded == await all_events(FakeBrain(SCRIPT), a_turn(ToolLog(), model="m-2"))
    assert [call.arguments for call in again.calls] == [call.arguments for call in live.calls]
    assert again.most_at_once == 2
    assert (replayed[-1].text, replayed[-1].model) == ("Last.", "m-2")
    assert list(tmp_path.iterdir()) == [path]


async def test_what_is_in_the_cassette(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(RecordingBrain(FakeBrain(SCRIPT), path), a_turn(ToolLog(wait=0.01)))
    cassette = read_cassette(path, ["echo"])
    kinds = [type(entry) for entry in cassette.entries]
    assert kinds == [Spoken, Counted, Called, Counted, Called, Spoken, Counted, Finished]
    assert cassette.entries[1] == Counted(PER_ROUND, "fake-1")
    assert (cassette.header.brain, cassette.header.task) == ("fake", "Say something.")
    assert cassette.header.recorded_at.endswith("+00:00")


async def test_answers_of_tools_are_not_in_the_cassette(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(RecordingBrain(FakeBrain(SCRIPT), path), a_turn(ToolLog()))
    assert "echo: a" not in path.read_text()


@pytest.mark.parametrize("end", [ValueError("boom"), Hang()])
async def test_a_run_that_does_not_end_leaves_the_old_cassette(tmp_path, end):
    path = tmp_path / "run.jsonl"
    path.write_text("the old one")
    brain = RecordingBrain(FakeBrain(["Hi.", end]), path)
    with pytest.raises((ValueError, TimeoutError)):
        await asyncio.wait_for(all_events(brain, a_turn(ToolLog())), 0.2)
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["nowhere/run.jsonl", "."])
async def test_a_place_that_cannot_be_written_is_found_before_the_brain_thinks(tmp_path, place):
    inner = FakeBrain()
    with pytest.raises(UsageError, match="cannot be written"):
        await all_events(RecordingBrain(inner, tmp_path / place), a_turn(ToolLog()))
    assert inner.turns == []


async def test_closing_the_recording_closes_the_brain(tmp_path):
    events = RecordingBrain(FakeBrain(["Hi there.", Hang()]), tmp_path / "run.jsonl").run(a_turn(ToolLog()))
    await anext(events)
    await events.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert list(tmp_path.iterdir()) == []


async def test_each_line_is_one_json_object(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(RecordingBrain(FakeBrain(["two\nlines"]), path), a_turn(ToolLog()))
    assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())


def test_it_is_the_brain_that_it_records(tmp_path):
    inner = FakeBrain(ready=False, name="claude")
    brain = RecordingBrain(inner, tmp_path / "x")
    assert brain.name == "claude"
    assert brain.resolve_auth() == inner.resolve_auth()
    assert brain.capabilities() == inner.capabilities()
