import asyncio
import json
import os
from pathlib import Path

import pytest

from kagura_kernel.brain.cassette import Called, Counted, Finished, Heard, Spoken, read_cassette
from kagura_kernel.brain.provider import BrainDone, BrainHeard, BrainText, BrainUsage
from kagura_kernel.brain.replay import RecordingBrain, ReplayBrain, check_recording
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import CassetteBroken, CassetteMissing, UsageError
from kagura_kernel.domain.sentences import LONGEST, Sentence
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.testing.brain import PER_ROUND, Ask, FakeBrain, Hang, Listen, Together
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events
from kagura_kernel.testing.redaction import BlindRedactor


def recorder(brain, path):
    return RecordingBrain(brain, path, BlindRedactor().fields)


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


OLD = '{"kagura_cassette": 1, "task": "the old one"}\n{"done": {"text": ""}}\n'
SCRIPT = [
    "First.",
    Ask("echo", {"word": "a"}),
    Together((Ask("echo", {"word": "b"}), Ask("echo", {"word": "c"}))),
    "Last.",
]


async def test_a_recorded_run_replays_with_the_same_words_and_calls(tmp_path):
    path = tmp_path / "run.jsonl"
    live, again = ToolLog(wait=0.01), ToolLog(wait=0.01)
    recorded = await all_events(recorder(FakeBrain(SCRIPT), path), a_turn(live, model="m-2"))
    replayed = await all_events(ReplayBrain(path), a_turn(again))
    assert recorded == await all_events(FakeBrain(SCRIPT), a_turn(ToolLog(), model="m-2"))
    assert [call.arguments for call in again.calls] == [call.arguments for call in live.calls]
    assert again.most_at_once == 2
    assert (replayed[-1].text, replayed[-1].model) == ("Last.", "m-2")
    assert list(tmp_path.iterdir()) == [path]


async def test_what_is_in_the_cassette(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(recorder(FakeBrain(SCRIPT), path), a_turn(ToolLog(wait=0.01)))
    cassette = read_cassette(path, ["echo"])
    kinds = [type(entry) for entry in cassette.entries]
    assert kinds == [Spoken, Counted, Called, Counted, Called, Spoken, Counted, Finished]
    assert cassette.entries[1] == Counted(PER_ROUND, "fake-1")
    assert (cassette.header.brain, cassette.header.task) == ("fake", "Say something.")
    assert cassette.header.recorded_at.endswith("+00:00")


async def test_answers_of_tools_are_not_in_the_cassette(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(recorder(FakeBrain(SCRIPT), path), a_turn(ToolLog()))
    assert "echo: a" not in path.read_text()


@pytest.mark.parametrize("end", [ValueError("boom"), Hang()])
async def test_a_run_that_does_not_end_leaves_the_old_cassette(tmp_path, end):
    path = tmp_path / "run.jsonl"
    path.write_text(OLD)
    brain = recorder(FakeBrain(["Hi.", end]), path)
    with pytest.raises((ValueError, TimeoutError)):
        await asyncio.wait_for(all_events(brain, a_turn(ToolLog())), 0.2)
    assert path.read_text() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nowhere/run.jsonl", "its folder is missing, or"),
        ("notes.txt/run.jsonl", "its folder is a file"),
        (".", "it is a folder"),
        ("notes.txt", "no cassette"),
        ("empty.txt", "no cassette"),
        ("pipe", "no cassette"),
        ("to-notes", "no cassette"),
        ("round", "cannot be used"),
        ("/proc/run.jsonl", "takes no files"),
        ("n" * 300, "cannot be used"),
        ("a\0b", "cannot be used"),
    ],
)
def test_a_bad_place_is_found_before_there_is_anything_to_run(tmp_path, place, why):
    (tmp_path / "notes.txt").write_text("my notes, for years")
    (tmp_path / "empty.txt").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-notes").symlink_to("notes.txt")
    (tmp_path / "round").symlink_to("round")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=f"cannot be written: .*{why}.*Nothing was changed"):
        check_recording(tmp_path / place)
    with pytest.raises(UsageError, match="cannot be written"):
        recorder(FakeBrain(), tmp_path / place)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "notes.txt").read_text() == "my notes, for years"


@pytest.mark.parametrize("start", [OLD, "\ufeff\n" + OLD, '{"kagura_cassette": 7}', '{"kagura_cassette": 1}\ncut of'])
def test_any_cassette_even_a_broken_one_may_be_recorded_over(tmp_path, start):
    (tmp_path / "run.jsonl").write_text(start)
    check_recording(tmp_path / "run.jsonl")
    check_recording(tmp_path / "new.jsonl")
    assert (tmp_path / "run.jsonl").read_text() == start
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.parametrize("late", ["a file", "a folder"])
async def test_what_somebody_put_there_meanwhile_is_not_overwritten(tmp_path, late):
    path = tmp_path / "run.jsonl"
    events = recorder(FakeBrain(["Hi."]), path).run(a_turn(ToolLog()))
    await anext(events)
    path.mkdir() if late == "a folder" else path.write_text("mine")
    with pytest.raises(UsageError, match="could not be written"):
        async for _ in events:
            pass
    assert list(tmp_path.iterdir()) == [path]
    assert path.is_dir() or path.read_text() == "mine"


async def test_a_relative_place_and_a_link_mean_what_they_meant_at_the_start(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("real.jsonl")
    monkeypatch.chdir(tmp_path)
    brain = recorder(FakeBrain(["Hi."]), Path("link"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    await all_events(brain, a_turn(ToolLog()))
    assert read_cassette(tmp_path / "real.jsonl").finished.text == "Hi."
    assert (tmp_path / "link").is_symlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_name_of_the_greatest_length_is_recorded(tmp_path):
    path = tmp_path / ("n" * 255)
    await all_events(recorder(FakeBrain(["Hi."]), path), a_turn(ToolLog()))
    assert read_cassette(path).finished.text == "Hi."


async def test_odd_characters_come_back_from_a_recording(tmp_path):
    odd = "name \udcff, line\u2028paragraph\u2029next\x85 end"
    path = tmp_path / "run.jsonl"
    script = [Ask("echo", {"word": odd}), odd.replace("\udcff", "é")]
    await all_events(recorder(FakeBrain(script), path), a_turn(ToolLog()))
    entries = read_cassette(path).entries
    assert [entry.calls[0].arguments for entry in entries if isinstance(entry, Called)] == [{"word": odd}]
    assert entries[-1].text == odd.replace("\udcff", "é")


async def test_closing_the_recording_closes_the_brain(tmp_path):
    events = recorder(FakeBrain(["Hi there.", Hang()]), tmp_path / "run.jsonl").run(a_turn(ToolLog()))
    await anext(events)
    await events.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert list(tmp_path.iterdir()) == []


async def test_each_line_is_one_json_object(tmp_path):
    path = tmp_path / "run.jsonl"
    await all_events(recorder(FakeBrain(["two\nlines"]), path), a_turn(ToolLog()))
    assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())


def test_it_is_the_brain_that_it_records(tmp_path):
    inner = FakeBrain(ready=False, name="claude")
    brain = recorder(inner, tmp_path / "x")
    assert brain.name == "claude"
    assert brain.resolve_auth() == inner.resolve_auth()
    assert brain.capabilities() == inner.capabilities()


async def test_what_a_person_said_is_on_the_tape_where_it_was_taken_up_and_is_told_there_again(tmp_path):
    turn = a_turn(ToolLog())
    turn.sentences.put_nowait(Sentence("The second, please."))
    brain = FakeBrain(["Which?", Listen(), Ask("echo", {"word": "two"}), "Done."])
    await all_events(recorder(brain, tmp_path / "run.jsonl"), turn)
    entries = read_cassette(tmp_path / "run.jsonl").entries
    kinds = [type(entry) for entry in entries if not isinstance(entry, Counted)]
    assert kinds == [Spoken, Heard, Called, Spoken, Finished]
    log = ToolLog()
    first, second = [await all_events(ReplayBrain(tmp_path / "run.jsonl"), a_turn(log)) for _ in range(2)]
    assert first == second
    assert first[:2] == [BrainText("Which?"), BrainHeard("The second, please.")]


def test_what_is_said_on_a_tape_is_bounded(tape):
    with pytest.raises(CassetteBroken, match="too many to say"):
        read_cassette(tape({"said": "x" * (LONGEST + 1)}, {"done": {"text": ""}}))
