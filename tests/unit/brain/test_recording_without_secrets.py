"""What is written to a cassette goes through redaction first, and still plays."""

from __future__ import annotations

from dataclasses import replace

from kagura_kernel.brain.cassette import Called, read_cassette
from kagura_kernel.brain.replay import RecordingBrain, ReplayBrain, open_cassette
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.testing.brain import Ask, FakeBrain, Together
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events
from tests.support.redactors import shared_redactor

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
SCRIPT = [
    f"I shall use {TOKEN} now.",
    Ask("echo", {"word": f"curl -u me:{TOKEN} https://example.com"}),
    Together((Ask("echo", {"word": "b"}), Ask("echo", {"word": TOKEN}))),
    f"The token was {TOKEN}, said the log.",
]


async def test_a_cassette_holds_no_secret_of_the_task_the_texts_and_the_calls_and_still_plays(tmp_path):
    path = tmp_path / "run.jsonl"
    live, again = ToolLog(wait=0.01), ToolLog(wait=0.01)
    brain = RecordingBrain(FakeBrain(SCRIPT), path, Redacting(shared_redactor()).value)
    spoken = await all_events(brain, replace(a_turn(live), task=f"Deploy with {TOKEN}, please."))
    assert TOKEN not in path.read_text()
    assert TOKEN in repr(spoken), "the run itself is not changed by being recorded"
    assert TOKEN in repr(live.calls)
    played, task = open_cassette(path)
    assert task.startswith("Deploy with [REDACTED:")
    assert task.endswith(", please.")
    replayed = await all_events(played, a_turn(again))
    assert replayed[-1].text.startswith("The token was [REDACTED:")
    assert again.most_at_once == 2
    words = [str(call.arguments["word"]) for call in again.calls]
    assert words[0].startswith("curl -u me:[REDACTED:")
    assert words[0].endswith("] https://example.com")
    assert sorted(words[1:])[1] == "b"


async def test_names_and_ids_of_calls_are_written_as_they_are(tmp_path):
    path = tmp_path / "run.jsonl"
    live = ToolLog()
    await all_events(RecordingBrain(FakeBrain(SCRIPT), path, Redacting(shared_redactor()).value), a_turn(live))
    written = [call for entry in read_cassette(path).entries if isinstance(entry, Called) for call in entry.calls]
    assert [(call.id, call.name) for call in written] == [(call.id, call.name) for call in live.calls]


async def test_without_secrets_the_cassette_is_the_same_as_one_that_is_not_looked_through(tmp_path):
    script = ["Grüße.", Ask("echo", {"word": "a", "deep": [{"n": 1, "x": None}]}), "Done.\u2028"]
    lines = []
    for number, redact in enumerate((None, Redacting(shared_redactor()).value)):
        path = tmp_path / f"{number}.jsonl"
        await all_events(RecordingBrain(FakeBrain(script), path, redact), a_turn(ToolLog()))
        cassette = read_cassette(path)
        lines.append([repr(one) for one in cassette.entries if not isinstance(one, Called)])
        assert [one.calls[0].arguments for one in cassette.entries if isinstance(one, Called)] == [script[1].arguments]
        assert (await all_events(ReplayBrain(path), a_turn(ToolLog())))[-1].text == "Done.\u2028"
    assert lines[0] == lines[1]


async def test_what_a_tool_makes_of_its_arguments_later_is_not_recorded(tmp_path):
    path = tmp_path / "run.jsonl"
    given = {"word": "a", "list": [1]}
    turn = a_turn(ToolLog())

    async def spoils(call):
        result = await turn.call_tool(call)
        call.arguments["list"].append(2)
        return result

    brain = RecordingBrain(FakeBrain([Ask("echo", given), "Done."]), path)
    await all_events(brain, replace(turn, call_tool=spoils))
    [called] = [entry for entry in read_cassette(path).entries if isinstance(entry, Called)]
    assert called.calls[0].arguments == {"word": "a", "list": [1]}
