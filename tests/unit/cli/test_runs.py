import contextlib
import io
import json
import os
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.cli.runs import contain
from kagura_kernel.domain.errors import RunUnknown
from kagura_kernel.domain.events import PersonSaid
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.journal import sentences, views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.sentences import take_sentences
from kagura_kernel.memory.location import FILE
from tests.support.sample_run import SampleRun


def test_the_newest_run_stands_first_and_a_live_one_is_marked(journal, running, prints):
    old = SampleRun("run-old")
    journal.append(old.started())
    journal.append(old.finished())
    live = running()
    head, first, second = prints("runs").splitlines()
    assert head.split()[:3] == ["run", "status", "started"]
    assert first.split()[:3] == ["*", live.run_id, "running"]
    assert second.split()[:3] == ["run-old", "done", "2026-01-01"]


def test_a_run_whose_process_is_gone_is_not_live(journal, gone, prints):
    journal.append(SampleRun().started(owner=gone))
    assert "running, its process is gone" in prints("runs")
    (row,) = json.loads(prints("runs", "--json"))
    assert (row["run_id"], row["status"], row["live"]) == ("run-1", "running", False)
    assert row["started_at"] == "2026-01-01T12:00:00+00:00"


def test_what_a_run_comes_from_and_how_good_it_was_is_told_where_there_is_something_to_tell(journal, prints):
    facts: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"resumes": "run-0"}, {"verified": False}),
        ({"lineage": ("run-0", "run-1")}, {"untrusted": True}),
    ]
    for number, (started, finished) in enumerate(facts):
        told = SampleRun(f"run-{number}")
        journal.append(told.started(**started))
        journal.append(told.finished(**finished))
        if not number:
            assert prints("runs").split("\n")[0].split()[-2:] == ["user", "task"]
    head, child, resumed, own = prints("runs").splitlines()
    assert head.split()[-5:] == ["verified", "untrusted", "resumes", "parent", "task"]
    assert child.split()[-7:-3] == ["-", "yes", "-", "run-1"]
    assert resumed.split()[-7:-3] == ["NO", "-", "run-0", "-"]
    assert own.split()[-7:-3] == ["-"] * 4
    [row] = json.loads(prints("runs", "run-2", "--json"))
    assert (row["parent"], row["lineage"], row["untrusted"], row["resumes"]) == ("run-1", ["run-0", "run-1"], True, "")


def test_no_more_are_listed_than_asked_for(journal, prints):
    for number in range(3):
        journal.append(SampleRun(f"run-{number}").started())
    assert [row["run_id"] for row in json.loads(prints("runs", "--limit", "2", "--json"))] == ["run-2", "run-1"]


def test_a_task_cannot_pose_as_another_line(journal, prints):
    journal.append(SampleRun().started(task="count \x1b[2K\rrun-9  done\nsecond line"))
    said = prints("runs")
    assert len(said.splitlines()) == 2
    assert "\x1b" not in said


def test_only_the_runs_that_are_named_are_listed_and_one_that_is_not_there_is_an_error(journal, capsys, prints):
    for run_id in ("run-a", "run-b", "run-c"):
        journal.append(SampleRun(run_id).started(project=str(Path.cwd())))
    assert [row["run_id"] for row in json.loads(prints("runs", "run-a", "n-b", "--json"))] == ["run-b", "run-a"]
    assert [row["run_id"] for row in json.loads(prints("runs", "last", "--json"))] == ["run-c"]
    assert main(["runs", "run-a", "nope"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.partition(":")[0]) == ("", "ERR_RUN_UNKNOWN")


@pytest.mark.usefixtures("journal")
def test_a_journal_without_runs_says_so(prints):
    assert prints("runs").startswith("No run yet: ")


@pytest.mark.usefixtures("journal")
def test_a_limit_that_makes_no_sense_is_wrong_usage(refuses):
    assert "--limit: '0' is too small; it has to be 1 or more." in refuses("runs", "--limit", "0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs"], "No run yet: "),
        (["runs", "--json"], "[]\n"),
        (["sessions"], "No session yet: "),
        (["cost"], "No run yet: "),
        (["approvals", "--json"], "[]\n"),
        (["leases"], "No credential is out: "),
        (["egress", "log", "--json"], "[]\n"),
        (["leases", "log", "--json"], "[]\n"),
        (["graduation", "chart"], "No category has shown anything yet. `kagura-kernel graduation` lists"),
    ],
)
def test_before_anything_has_run_there_is_nothing_to_tell_and_nothing_is_made(words, said, books, prints):
    assert prints(*words).startswith(said)
    assert not books.exists()


def test_a_place_that_was_named_and_has_no_journal_is_an_error(books, tmp_path, refuses):
    assert "There is no journal" in refuses("runs", "--dir", str(tmp_path / "elsewhere"))
    assert "There is no journal" in refuses("kill", "last")
    assert not books.exists()


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_on_a_terminal_no_line_is_wider_than_it_and_what_is_typed_again_is_whole(journal, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    run_id = new_run_id()
    started = SampleRun(run_id).started(task="count the lines of every file and say which is the longest")
    journal.append(started.model_copy(update={"owner": process_owner()}))
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command = [sys.executable, "-m", "kagura_kernel.cli.main", "runs"]
    # Named, for readline writes COLUMNS into this process's variables behind Python's back.
    environ = dict(os.environ)
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123 - a descriptor, no path
        subprocess.run(command, stdin=theirs, stdout=theirs, env=environ, check=True, timeout=60)
        os.close(theirs)
        lines = everything(screen).decode().splitlines()
    assert any(run_id in line for line in lines[1:-1])
    assert max(map(len, lines)) <= columns
    assert "count the lines of every" in lines[-2]
    assert lines[-1] == f"    next: kagura-kernel kill {run_id}"


def everything(screen: io.FileIO) -> bytes:
    """All that was written; a terminal whose other end is closed has no end, but an error."""
    said = b""
    with contextlib.suppress(OSError):
        while part := screen.read(4096):
            said += part
    return said


def explained(capsys, *words: str) -> str:
    assert main(["route", *words]) == 0
    return capsys.readouterr().out


def test_json_holds_every_key(capsys):
    told = json.loads(explained(capsys, "--json", "--", "ls; rm x"))
    assert told == {
        "command": "ls; rm x",
        "route": "sandbox",
        "approval_needed": False,
        "reasons": ["commands run in the sandbox without approval"],
        "safe": False,
        "meta": [";"],
    }


def test_several_words_are_one_line(capsys):
    told = json.loads(explained(capsys, "--json", "--strict", "--", "ls", "-la", "--color"))
    assert (told["command"], told["route"], told["safe"]) == ("ls -la --color", "sandbox", True)


def test_a_double_dash_of_the_command_itself_is_kept(capsys):
    assert json.loads(explained(capsys, "--json", "--", "grep", "--", "-x", "f"))["command"] == "grep -- -x f"


def test_escalated_strict_full_control_and_no_sandbox_change_the_answer(capsys):
    def ask(*words):
        told = json.loads(explained(capsys, "--json", *words, "--", "rm x"))
        return told["route"], told["approval_needed"]

    assert ask() == ("sandbox", False)
    assert ask("--escalated") == ("host", True)
    assert ask("--strict") == ("host", True)
    assert ask("--no-sandbox", "no bwrap") == ("host", True)
    assert ask("--mode", "full_control", "--no-sandbox", "no bwrap") == ("host", False)


def test_the_settings_decide_and_words_add_to_them(capsys, monkeypatch):
    def ask(*words):
        told = json.loads(explained(capsys, "--json", "--escalated", *words, "--", "tool --version"))
        return told["route"], told["approval_needed"]

    monkeypatch.setenv("KAGURA_SAFE_COMMANDS", "tool")
    assert ask() == ("host", True)
    assert ask("--preapproved", "tool") == ("host", False)
    monkeypatch.setenv("KAGURA_PREAPPROVED_HOST_COMMANDS", "tool")
    assert ask() == ("host", False)
    monkeypatch.setenv("KAGURA_PERMISSION_MODE", "full_control")
    monkeypatch.delenv("KAGURA_SAFE_COMMANDS")
    assert ask("--mode", "default") == ("host", True)


def test_why_there_is_no_sandbox_is_passed_on(capsys):
    told = json.loads(explained(capsys, "--json", "--no-sandbox", "no bwrap", "--", "ls"))
    assert told["reasons"] == ["sandbox unavailable, host execution requires approval: no bwrap"]


def test_a_pre_approved_program_needs_no_approval(capsys):
    told = json.loads(explained(capsys, "--json", "--escalated", "--preapproved", "ls", "--", "ls"))
    assert (told["route"], told["approval_needed"]) == ("host", False)


def test_text_is_one_line_and_a_line_for_each_reason(capsys):
    assert explained(capsys, "--escalated", "--", "rm x").splitlines() == [
        "host, an approval is needed",
        "  - command requests host execution, which requires approval",
        "  - command 'rm' is not in the safe list",
    ]


@pytest.mark.parametrize("words", [[], ["--mode", "none", "--", "ls"], ["--bad", "--", "ls"]])
def test_wrong_usage_says_so_and_ends_with_2(words, refuses):
    assert refuses("route", *words).startswith("ERR_USAGE: ")


def test_a_run_is_stopped_and_its_end_is_told(running, prints):
    handle = running()
    assert prints("kill", handle.run_id) == f"{handle.run_id}: killed\n"
    assert handle.result(timeout=60).status == "killed"


def test_one_run_is_stopped_and_the_others_go_on(running, journal):
    first, second = running(), running()
    assert main(["kill", first.run_id]) == 0
    assert [row.run_id for row in views.unfinished(journal)] == [second.run_id]


def test_all_runs_are_stopped_at_once(running, journal, prints):
    handles = {running().run_id, running().run_id}
    ends = json.loads(prints("kill", "--all", "--json"))
    assert {end["run_id"] for end in ends} == handles
    assert {(end["over"], end["status"]) for end in ends} == {(True, "killed")}
    assert views.unfinished(journal) == []


def test_a_run_whose_process_is_gone_is_marked_as_lost(journal, gone, prints):
    journal.append(SampleRun().started(owner=gone))
    assert prints("kill", "run-1") == "run-1: lost (its process was gone already)\n"
    assert views.runs(journal)[0].status == "lost"


def test_a_run_that_is_over_needs_nothing(journal, prints):
    journal.append(SampleRun().started())
    journal.append(SampleRun().finished())
    assert prints("kill", "run-1") == "run-1: it was over already, done\n"


def test_a_run_that_does_not_hear_is_told_and_fails(journal, prints):
    journal.append(SampleRun().started(owner=process_owner()))
    assert "run-1: still going on after 0 s" in prints("kill", "run-1", "--wait", "0", code=1)
    (word,) = Mailbox(journal).take(["run-1"])
    assert word.word == "kill"


def test_of_several_runs_none_is_stopped_when_one_is_unknown(journal):
    journal.append(SampleRun().started(owner=process_owner()))
    with pytest.raises(RunUnknown):
        contain(journal, ["run-1", "run-9"], by="ada", seconds=0)
    assert Mailbox(journal).take(["run-1"]) == []


@pytest.mark.usefixtures("journal")
def test_with_nothing_going_on_there_is_nothing_to_kill(prints):
    assert prints("kill", "--all") == "No run is going on.\n"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("words", [["kill"], ["kill", "run-1", "--all"]])
def test_it_must_be_said_which_runs(words, refuses):
    assert refuses(*words).startswith("ERR_USAGE: Say which runs")


@pytest.mark.usefixtures("journal")
def test_an_unknown_run_is_an_error(refuses):
    assert "ERR_RUN_UNKNOWN" in refuses("kill", "run-9")


def test_the_end_of_an_id_names_a_run(journal, prints):
    for run_id in ("run-1", "run-2"):
        journal.append(SampleRun(run_id).started())
        journal.append(SampleRun(run_id).finished())
    assert prints("kill", "n-2") == "run-2: it was over already, done\n"


def test_an_end_that_fits_several_runs_is_wrong_usage_and_none_is_stopped(journal, refuses):
    for run_id in ("run-a111", "run-b111"):
        journal.append(SampleRun(run_id).started(owner=process_owner()))
    assert refuses("kill", "111").startswith("ERR_USAGE: '111' fits 2 runs (run-b111, run-a111); give the whole id")
    # A number was rarely meant for the end of an id.
    assert "'11' names no run" in refuses("kill", "11")
    assert Mailbox(journal).take(["run-a111", "run-b111"]) == []


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("word", ["", "%", "_"])
def test_an_empty_end_and_the_signs_of_a_search_name_no_run(word, journal, refuses):
    journal.append(SampleRun().started(owner=process_owner()))
    assert refuses("kill", word).startswith("ERR_RUN_UNKNOWN: ")


def test_the_end_of_an_id_is_compared_letter_by_letter(journal, refuses):
    journal.append(SampleRun("run-abc").started(owner=process_owner()))
    assert refuses("kill", "ABC").startswith("ERR_RUN_UNKNOWN: ")


def test_last_is_the_newest_run_of_the_folder_that_goes_on(
    running, journal, gone, prints, refuses, tmp_path, monkeypatch
):
    older, newer = running(), running()
    said = refuses("kill", "last")
    assert f"the newest elsewhere is {newer.run_id} in {tmp_path / 'project'}" in said
    assert {row.run_id for row in views.unfinished(journal)} == {older.run_id, newer.run_id}
    assert prints("kill", "last", "everywhere") == f"{newer.run_id}: killed\n"
    newer = running()
    monkeypatch.chdir(tmp_path / "project")
    journal.append(SampleRun("run-over").started())
    journal.append(SampleRun("run-over").finished())
    journal.append(SampleRun("run-lost").started(owner=gone))
    assert prints("kill", "last") == f"{newer.run_id}: killed\n"
    assert [row.run_id for row in views.unfinished(journal)] == [older.run_id]


@pytest.mark.usefixtures("journal")
def test_with_nothing_going_on_there_is_no_last(refuses):
    assert refuses("kill", "last").startswith("ERR_USAGE: There is nothing to stop")


def test_of_very_many_the_newest_are_told_and_how_many_more_there_are(journal, gone, prints):
    for number in range(23):
        journal.append(SampleRun(f"run-{number:02}").started(owner=gone))
        journal.append(SampleRun(f"run-here-{number:02}").started())
        Mailbox(journal).post(SampleRun(f"run-here-{number:02}").request(f"app-{number:02}"))
    lines = prints("status").splitlines()
    assert [sum(word in line for line in lines) for word in ("its process is gone", "(of run-here-")] == [20, 20]
    assert lines[61].startswith("6 more running and lost and 3 more waiting: `kagura-kernel runs`")


def test_before_anything_has_run_all_is_calm_and_the_journal_to_be_is_named(books, capsys):
    assert main(["status"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Nothing runs, nothing waits.\n")
    assert f"Journal: {books / 'journal.db'}\n" in said.out
    assert not books.exists()


def test_an_empty_journal_is_calm(journal, books, prints):
    assert prints("status").splitlines() == [
        "Nothing runs, nothing waits.",
        "$0.00 today (UTC).",
        f"Journal: {journal.where}",
        f"Memory: none yet at {books / FILE}",
    ]
    assert not (books / FILE).exists()


def test_a_memory_that_is_down_is_told_since_no_run_can_start(journal, books, monkeypatch, prints):
    del journal
    monkeypatch.setenv("KAGURA_MEMORY", str(books / "mistyped" / "memory.sqlite3"))
    said = prints("status")
    assert "NO AGENT CAN START: the memory cannot be used." in said.splitlines()
    assert f"the folder {books / 'mistyped'} does not exist" in said
    assert json.loads(prints("status", "--json"))["memory_ok"] is False
    assert not (books / "mistyped").exists()


def test_what_runs_waits_is_lost_and_was_paid_today_is_told(journal, running, gone, prints):
    today = SampleRun("run-today", at=datetime.now(UTC))
    live = running()
    for event in (
        today.started(),
        today.finished(computed_usd=0.25, source="list 1"),
        SampleRun("run-lost").started(owner=gone),
    ):
        journal.append(event)
    journal.append(SampleRun("run-long").started(owner=process_owner(), task="Sum up\nthe sheet"))
    Mailbox(journal).post(SampleRun(live.run_id).request("app-7", title="Push\x1b[2K it"))
    said = prints("status")
    lines = said.splitlines()
    assert any(line.split()[:2] == ["running", live.run_id] for line in lines)
    assert any(line.endswith("running: Sum up the sheet") for line in lines)
    assert any(line.split()[:2] == ["lost", "run-lost"] and "kagura-kernel kill run-lost" in line for line in lines)
    [waiting] = [line for line in lines if line.split()[:2] == ["waiting", "app-7"]]
    assert waiting.endswith(f"Push⟨U+001B⟩[2K it: git push (of {live.run_id})")
    assert "Answer with `kagura-kernel approve ID` or `kagura-kernel deny ID`." in lines
    assert "$0.2500 today (UTC)." in lines
    assert "\x1b" not in said
    told = json.loads(prints("status", "--json"))
    assert [row["run_id"] for row in told["running"]] == ["run-long", live.run_id]
    assert [row["id"] for row in told["pending"]] == ["app-7"]
    assert (told["gone"], told["cost_today_usd"], told["unpriced_today"], told["leases"]) == (["run-lost"], 0.25, 0, 0)


def test_who_speaks_to_a_run_that_is_over_or_to_none_is_told_so(journal, gone, refuses):
    journal.append(SampleRun("run-1").started())
    journal.append(SampleRun("run-1").finished())
    journal.append(SampleRun("run-2").started(owner=gone))
    assert "already ended: done. Say it as a task of its own" in refuses("say", "run-1", "one", "more", "thing")
    assert "already ended: lost" in refuses("say", "run-2", "hello?")
    assert "ERR_RUN_UNKNOWN" in refuses("say", "run-9", "hello?")
    assert "ERR_USAGE" in refuses("say", "run-1")


def test_what_is_said_reaches_the_runs_own_process(journal, prints, monkeypatch):
    journal.append(SampleRun().started(owner=process_owner()))

    def heard(_seconds: float) -> None:
        for run_id, said in take_sentences(journal, ["run-1"]):
            told = {"sentence_id": said.id, "text": said.text, "by": said.by, "via": said.via}
            journal.append(PersonSaid(run_id=run_id, session_id="ses-1", at=datetime.now(UTC), **told))

    monkeypatch.setattr(sentences, "time", SimpleNamespace(sleep=heard, monotonic=time.monotonic))
    said = json.loads(prints("say", "run-1", "the", "second", "--json"))
    (row,) = journal.events(kinds=("person.said",))
    assert isinstance(row.event, PersonSaid)
    assert (row.event.text, row.event.via, row.event.sentence_id) == ("the second", "terminal", said["sentence_id"])
