"""What becomes of a command whose output, keyboard or terminal is not there, is full, or goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.integration.terminal.conftest import PROGRAM, bash

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]


def by_a_shell(shell, words: str) -> subprocess.CompletedProcess[str]:
    """The program with the words of a shell behind it, redirections among them."""
    line = f"exec {sys.executable} {' '.join(PROGRAM)} {words}"
    return subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=shell.project,
        env=shell.environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize(("where", "why"), [(">&-", "it is closed"), (">/dev/full", "no space left on device")])
def test_an_answer_that_cannot_be_written_is_an_error_that_says_where_it_is_kept(shell, where, why):
    long = "A long answer. " * 2000
    ran = by_a_shell(shell, f"run --replay {shell.cassette(answer=long)} Go. {where}")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"ERR_OUTPUT: Standard output cannot be written to: {why}. run-")
    assert ran.stderr.count("\n") == 1
    command = ran.stderr.split("`")[1].removeprefix("kagura-kernel ")
    rows = [json.loads(line) for line in shell.run(*command.split()).stdout.splitlines()]
    [end] = [json.loads(row["body"]) for row in rows if row.get("kind") == "run.finished"]
    assert end["text"] == long


@pytest.mark.parametrize("words", ["runs", "--help", "--version", "status --json"])
@pytest.mark.parametrize("where", [">&-", ">/dev/full", "<&- >&-"])
def test_every_command_says_so_where_its_output_takes_nothing(shell, words, where):
    ran = by_a_shell(shell, f"{words} {where}")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ERR_OUTPUT: ")
    assert ran.stderr.count("\n") == 1


def test_errors_that_nobody_can_read_never_stand_in_the_answer(shell):
    cassette = shell.cassette(bash("touch x", host=True, reason="why not"))
    for where in ("2>&-", "2>/dev/full"):
        ran = by_a_shell(shell, f"run --replay {cassette} Go. {where}")
        assert (ran.returncode, ran.stdout) == (0, "Over.\n")
    ran = by_a_shell(shell, "runs no-such-run 2>&-")
    assert (ran.returncode, ran.stdout) == (2, "")


def test_a_reader_that_has_gone_does_not_make_a_failed_run_good(shell):
    command = [sys.executable, *PROGRAM, "run", "--replay", shell.cassette(), "--verify", "false", "Go."]
    with subprocess.Popen(
        command, cwd=shell.project, env=shell.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 2
    assert said.startswith("ERR_NOT_VERIFIED")
    assert said.count("\n") == 1


def test_a_terminal_that_closes_at_a_question_ends_the_run_as_the_signal_that_it_is(shell, host_call):
    child = shell.terminal("run", "--replay", shell.cassette(host_call()), "Go.")
    child.expect_exact("Allow it once? [y/N]")
    child.ptyproc.fileobj.close()
    _, status = os.waitpid(child.pid, 0)
    child.closed = child.ptyproc.closed = child.terminated = child.ptyproc.terminated = True
    assert os.waitstatus_to_exitcode(status) == 129
    [row] = json.loads(shell.run("runs", "--json").stdout)
    assert row["status"] == "killed"
    assert not (shell.project / "on-the-host").exists()
