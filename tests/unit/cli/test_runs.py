from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.identity import new_run_id
from tests.support.sample_run import SampleRun


def test_the_newest_run_stands_first_and_a_live_one_is_marked(journal, running, capsys):
    old = SampleRun("run-old")
    journal.append(old.started())
    journal.append(old.finished())
    live = running()
    assert main(["runs"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["run", "status", "started"]
    assert first.split()[:3] == ["*", live.run_id, "running"]
    assert second.split()[:3] == ["run-old", "done", "2026-01-01"]


def test_a_run_whose_process_is_gone_is_not_live(journal, gone, capsys):
    journal.append(SampleRun().started(owner=gone))
    assert main(["runs"]) == 0
    assert "running, its process is gone" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["run_id"], row["status"], row["live"]) == ("run-1", "running", False)
    assert row["started_at"] == "2026-01-01T12:00:00+00:00"


def test_what_a_run_comes_from_and_how_good_it_was_is_told_where_there_is_something_to_tell(journal, capsys):
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
            assert main(["runs"]) == 0
            assert capsys.readouterr().out.split("\n")[0].split()[-2:] == ["user", "task"]
    assert main(["runs"]) == 0
    head, child, resumed, own = capsys.readouterr().out.splitlines()
    assert head.split()[-5:] == ["verified", "untrusted", "resumes", "parent", "task"]
    assert child.split()[-7:-3] == ["-", "yes", "-", "run-1"]
    assert resumed.split()[-7:-3] == ["NO", "-", "run-0", "-"]
    assert own.split()[-7:-3] == ["-"] * 4
    assert main(["runs", "run-2", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["parent"], row["lineage"], row["untrusted"], row["resumes"]) == ("run-1", ["run-0", "run-1"], True, "")


def test_no_more_are_listed_than_asked_for(journal, capsys):
    for number in range(3):
        journal.append(SampleRun(f"run-{number}").started())
    assert main(["runs", "--limit", "2", "--json"]) == 0
    assert [row["run_id"] for row in json.loads(capsys.readouterr().out)] == ["run-2", "run-1"]


def test_a_task_cannot_pose_as_another_line(journal, capsys):
    journal.append(SampleRun().started(task="count \x1b[2K\rrun-9  done\nsecond line"))
    assert main(["runs"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 2
    assert "\x1b" not in said


def test_only_the_runs_that_are_named_are_listed_and_one_that_is_not_there_is_an_error(journal, capsys):
    for run_id in ("run-a", "run-b", "run-c"):
        journal.append(SampleRun(run_id).started(project=str(Path.cwd())))
    assert main(["runs", "run-a", "n-b", "--json"]) == 0
    assert [row["run_id"] for row in json.loads(capsys.readouterr().out)] == ["run-b", "run-a"]
    assert main(["runs", "last", "--json"]) == 0
    assert [row["run_id"] for row in json.loads(capsys.readouterr().out)] == ["run-c"]
    assert main(["runs", "run-a", "nope"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.partition(":")[0]) == ("", "ERR_RUN_UNKNOWN")


@pytest.mark.usefixtures("journal")
def test_a_journal_without_runs_says_so(capsys):
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == "No run yet.\n"


@pytest.mark.usefixtures("journal")
def test_a_limit_that_makes_no_sense_is_wrong_usage(capsys):
    assert main(["runs", "--limit", "0"]) == 2
    assert "--limit: '0' is too small; it has to be 1 or more." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs"], "No run yet.\n"),
        (["runs", "--json"], "[]\n"),
        (["sessions"], "No session yet.\n"),
        (["cost"], "No run yet.\n"),
        (["approvals", "--json"], "[]\n"),
        (["leases"], "No credential is out.\n"),
        (["egress", "log", "--json"], "[]\n"),
        (["leases", "log", "--json"], "[]\n"),
        (["graduation", "chart"], "No category has shown anything yet. `kagura-kernel graduation` lists"),
    ],
)
def test_before_anything_has_run_there_is_nothing_to_tell_and_nothing_is_made(words, said, books, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(said)
    assert not books.exists()


def test_a_place_that_was_named_and_has_no_journal_is_an_error(books, tmp_path, capsys):
    assert main(["runs", "--dir", str(tmp_path / "elsewhere")]) == 2
    assert "There is no journal" in capsys.readouterr().err
    assert main(["kill", "last"]) == 2
    assert "There is no journal" in capsys.readouterr().err
    assert not books.exists()


def test_on_a_terminal_no_line_is_wider_than_it_and_every_id_is_whole(journal, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    run_id = new_run_id()
    journal.append(SampleRun(run_id).started(task="count the lines of every file and say which is the longest"))
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [sys.executable, "-m", "kagura_kernel.cli.main", "runs"]
    # Named, for readline writes COLUMNS into this process's variables behind Python's back.
    environ = dict(os.environ)
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123 - a descriptor, no path
        subprocess.run(command, stdin=theirs, stdout=theirs, env=environ, check=True, timeout=60)
        os.close(theirs)
        lines = everything(screen).decode().splitlines()
    assert len(lines) == 2
    assert run_id in lines[1]
    assert max(map(len, lines)) <= 100
    assert lines[1].endswith("…")


def everything(screen: io.FileIO) -> bytes:
    """All that was written; a terminal whose other end is closed has no end, but an error."""
    said = b""
    with contextlib.suppress(OSError):
        while part := screen.read(4096):
            said += part
    return said
