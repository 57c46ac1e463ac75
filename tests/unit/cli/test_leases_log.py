from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from tests.support.sample_run import SampleRun

NOW = datetime.now(UTC)


def logged(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["leases", "log", "--json", *words]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_request_is_one_line_with_its_answer(journal, capsys):
    journal.append(SampleRun(at=NOW).used("/repos/acme", bytes_out=1536))
    assert main(["leases", "log"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["at", "run", "lease", "for", "request", "answer", "out", "in", "took", "why"]
    for part in ("run-1", "lea-1", "github:read", "GET api.github.com:443/repos/acme", "200", "1.5 KiB", "0.1 s"):
        assert part in line


def test_a_request_without_an_answer_says_why(journal, capsys):
    journal.append(SampleRun(at=NOW).used(status=0, why="its lease is over"))
    assert main(["leases", "log"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert "  none  " in line
    assert line.endswith("its lease is over")


def test_the_newest_request_stands_first_and_no_more_are_listed_than_asked_for(journal, capsys):
    for number in range(4):
        journal.append(SampleRun(at=NOW).used(f"/{number}"))
    assert [row["path"] for row in logged(capsys, "--limit", "2")] == ["/3", "/2"]


def test_only_the_requests_of_one_run_can_be_listed(journal, capsys):
    for run_id in ("run-1", "run-2"):
        run = SampleRun(run_id, at=NOW)
        journal.append(run.started(project=str(Path.cwd())))
        journal.append(run.used())
    assert [row["run_id"] for row in logged(capsys, "--run", "run-1")] == ["run-1"]
    assert [row["run_id"] for row in logged(capsys, "--run", "n-1")] == ["run-1"]
    assert [row["run_id"] for row in logged(capsys, "--run", "last")] == ["run-2"]


def test_older_requests_are_left_out(journal, capsys):
    journal.append(SampleRun(at=NOW - timedelta(hours=2)).used("/old"))
    journal.append(SampleRun(at=NOW).used("/new"))
    assert [row["path"] for row in logged(capsys, "--since", "1h")] == ["/new"]


def test_what_else_happened_is_not_listed(journal, capsys):
    run = SampleRun(at=NOW)
    for event in (run.started(), run.lease(), run.refused()):
        journal.append(event)
    assert main(["leases", "log"]) == 0
    assert capsys.readouterr().out == "No request was made with a leased credential.\n"


def test_a_path_cannot_pose_as_another_line(journal, capsys):
    journal.append(SampleRun(at=NOW).used("/a\nrun-9\x1b[2K"))
    assert main(["leases", "log"]) == 0
    said = capsys.readouterr().out
    assert (len(said.splitlines()), "\x1b" in said) == (2, False)


@pytest.mark.usefixtures("journal")
def test_an_unknown_run_is_an_error(capsys):
    assert main(["leases", "log", "--run", "nope"]) == 2
    assert capsys.readouterr().err == "ERR_RUN_UNKNOWN: There is no run 'nope'. `kagura-kernel runs` lists them.\n"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("words", [["--limit", "0"], ["--since", "yesterday"]])
def test_what_makes_no_sense_is_wrong_usage(words, capsys):
    assert main(["leases", "log", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ERR_USAGE: ")
    assert words[0] in said
