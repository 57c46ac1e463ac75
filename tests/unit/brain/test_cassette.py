import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.brain.cassette import (
    LIMIT,
    Called,
    CassetteHeader,
    Counted,
    Finished,
    Spoken,
    entry_line,
    header_line,
    read_cassette,
)
from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.brain.replay import RecordingBrain, ReplayBrain, open_cassette
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import CassetteBroken, CassetteMissing
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.testing.brain import Ask, FakeBrain, Together
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.redactors import shared_redactor

HEADER = '{"kagura_cassette": 1}'
DONE = '{"done": {"text": "Bye."}}'
DEEP = '{"call": {"name": "bash", "arguments": {"a": ' + "[" * 200 + "]" * 200 + "}}}"


@pytest.fixture
def tape(tmp_path):
    def write(*lines: str):
        path = tmp_path / "run.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def test_what_is_written_is_what_is_read(tape):
    header = CassetteHeader("2026-01-02T03:04:05+00:00", "claude", "opus", "näh 布\nzwei")
    one, two = ToolCall("1", "bash", {"command": "ls\n"}), ToolCall("2", "read_file", {"path": "a"})
    entries = [Spoken("Hé\n\n*x*"), Called((one,)), Called((one, two)), Counted(Usage(4, 3, 2, 1), "m")]
    done = BrainDone(text="Bye.", model="m", turns=3, stopped="turns", reported_usd=0.5)
    cassette = read_cassette(tape(header_line(header), *map(entry_line, entries), entry_line(done)))
    assert cassette.header == header
    assert cassette.entries == (*entries, Finished("Bye.", "m", 3, "turns"))
    assert cassette.finished.text == "Bye."


def test_empty_lines_and_little_are_fine(tape):
    cassette = read_cassette(tape("", HEADER, "", DONE, ""))
    assert cassette.entries == (Finished("Bye."),)


def test_a_missing_cassette_is_missing(tmp_path):
    with pytest.raises(CassetteMissing, match="--record"):
        read_cassette(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("lines", "number", "why"),
    [
        ([], 1, "empty"),
        (["hello"], 1, "not JSON"),
        (["[1]"], 1, "not a JSON object"),
        ([DONE], 1, "first line"),
        (['{"kagura_cassette": 2}', DONE], 1, "version is 2"),
        ([HEADER], 1, "cut short"),
        ([HEADER, '{"text": "x"}'], 2, "cut short"),
        ([HEADER, "", '{"text": "x"'], 3, "not JSON"),
        ([HEADER, DONE, '{"text": "x"}', DONE], 2, "lines follow"),
        ([HEADER, '{"shout": "x"}', DONE], 2, "'shout' is none"),
        ([HEADER, '{"text": "x", "call": {}}', DONE], 2, "exactly one"),
        ([HEADER, "{}", DONE], 2, "exactly one"),
        ([HEADER, '{"text": 7}', DONE], 2, "'text' is not as it should be"),
        ([HEADER, '{"call": {"arguments": {}}}', DONE], 2, "'call' is not"),
        ([HEADER, '{"call": {"name": "bash", "arguments": []}}', DONE], 2, "'call' is not"),
        ([HEADER, '{"calls": []}', DONE], 2, "no call in it"),
        ([HEADER, '{"calls": {"name": "bash"}}', DONE], 2, "'calls' is not"),
        ([HEADER, '{"usage": {"dollars": 3}}', DONE], 2, "'usage' is not"),
        ([HEADER, '{"usage": {"input_tokens": "3"}}', DONE], 2, "'usage' is not"),
        ([HEADER, '{"done": {"stopped": "bored"}}'], 2, "bored"),
        ([HEADER, '{"done": []}'], 2, "'done' is not"),
        ([HEADER, '{"done": {}}'], 2, "'done' is not"),
        ([HEADER, '{"done": {"text": "", "turns": -1}}'], 2, "'done' is not"),
        ([HEADER, '{"done": {"text": "", "turns": true}}'], 2, "'done' is not"),
        ([HEADER, '{"usage": {"input_tokens": -3}}', DONE], 2, "'usage' is not"),
        ([HEADER, '{"usage": {"output_tokens": true}}', DONE], 2, "'usage' is not"),
        ([HEADER, '{"usage": {"output_tokens": 1e3}}', DONE], 2, "'usage' is not"),
        ([HEADER, '{"usage": {"output_tokens": 1' + "0" * 30 + "}}", DONE], 2, "'usage' is not"),
        (['{"kagura_cassette": true}', DONE], 1, "first line"),
        (['{"kagura_cassette": 1.0}', DONE], 1, "first line"),
        (["[" * 100_000], 1, "nested too deeply"),
        ([HEADER, "[" * 100_000], 2, "nested too deeply"),
        ([HEADER, DEEP, DONE], 2, "nested too deeply"),
    ],
)
def test_a_broken_cassette_says_where_and_why(tape, lines, number, why):
    with pytest.raises(CassetteBroken) as caught:
        read_cassette(tape(*lines))
    assert caught.value.line == number
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        ([HEADER, '{"text": 7}'], "Record it again"),
        ([HEADER, "cut of"], "Record it again"),
        (['{"kagura_cassette": 2}'], "Record it again"),
        ([HEADER, "x" * LIMIT], "Record it again"),
        ([], "no cassette; nothing was changed"),
        (["my notes"], "no cassette; nothing was changed"),
        (["[" * 100_000], "no cassette; nothing was changed"),
        (['{"kagura_cassette": true}', DONE], "no cassette; nothing was changed"),
    ],
    ids=range(8),
)
def test_only_what_is_a_cassette_should_be_recorded_again(tape, lines, advice):
    with pytest.raises(CassetteBroken) as caught:
        read_cassette(tape(*lines))
    assert advice in caught.value.message


def test_a_byte_order_mark_is_fine(tape):
    assert read_cassette(tape("\ufeff" + HEADER, DONE)).finished.text == "Bye."


def test_bytes_that_are_no_text_are_broken(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CassetteBroken, match="UTF-8"):
        read_cassette(path)


def test_the_line_with_bytes_that_are_no_text_is_named(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(HEADER.encode() + b'\n{"text": "\xe9"}\n' + DONE.encode())
    with pytest.raises(CassetteBroken, match=r"line 2: it is not UTF-8 text\. Record it again"):
        read_cassette(path)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (".", "a folder"),
        ("pipe", "a pipe"),
        ("link-to-pipe", "a pipe"),
        ("/dev/zero", "a device"),
        ("notes/run.jsonl", "Not a directory"),
        ("a\0b", "no file name"),
    ],
)
def test_what_is_no_plain_file_is_broken_at_once(tmp_path, name, what):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link-to-pipe").symlink_to("pipe")
    (tmp_path / "notes").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(CassetteBroken, match=f"{what}.*no cassette; nothing was changed"):
        read_cassette(tmp_path / name)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_pipe_that_somebody_writes_into_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(writer, f"{HEADER}\n{DONE}\n".encode())
        with pytest.raises(CassetteBroken, match="a pipe"):
            read_cassette(tmp_path / "pipe")
    finally:
        os.close(writer)


@pytest.mark.parametrize("start", [b"", HEADER.encode() + b"\n"])
def test_a_file_without_end_takes_no_memory(tmp_path, start):
    path = tmp_path / "run.jsonl"
    path.write_bytes(start)
    os.truncate(path, 2**40)
    tracemalloc.start()
    try:
        with pytest.raises(CassetteBroken, match="larger than 64 MiB"):
            read_cassette(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


def test_a_tool_that_does_not_exist_is_found_with_its_line(tape):
    calls = [{"id": "1", "name": "bash", "arguments": {}}, {"id": "2", "name": "teleport", "arguments": {}}]
    path = tape(HEADER, '{"text": "x"}', json.dumps({"calls": calls}), DONE)
    with pytest.raises(CassetteBroken, match="no tool 'teleport'") as caught:
        read_cassette(path, ["bash", "grep"])
    assert caught.value.line == 3
    assert read_cassette(path).finished.text == "Bye."


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
    for number, redact in enumerate((BlindRedactor().fields, Redacting(shared_redactor()).value)):
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

    brain = RecordingBrain(FakeBrain([Ask("echo", given), "Done."]), path, BlindRedactor().fields)
    await all_events(brain, replace(turn, call_tool=spoils))
    [called] = [entry for entry in read_cassette(path).entries if isinstance(entry, Called)]
    assert called.calls[0].arguments == {"word": "a", "list": [1]}
