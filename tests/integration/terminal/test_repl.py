"""`kagura-kernel repl` and `setup` behind a pseudo-terminal, and by a pipe."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.terminal.conftest import PROGRAM, bash, ended, runs

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

PROMPT = "kagura> "
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def test_lines_are_tasks_of_one_session_slashes_are_commands_and_control_d_ends(shell):
    child = shell.terminal("repl", "--replay", shell.cassette(bash("echo x")))
    child.expect_exact("/help lists commands, Ctrl-D ends.")
    child.expect_exact(PROMPT)
    for task in ("First task", "\\/second task"):
        child.sendline(task)
        child.expect_exact("Over.")
        child.expect_exact(PROMPT)
    child.sendline("/runs")
    child.expect_exact("First task")
    child.expect_exact(PROMPT)
    child.sendline("/rnus")
    child.expect_exact("Did you mean 'runs'?")
    child.expect_exact(PROMPT)
    child.sendline("/new")
    child.expect_exact("`/run --new TASK`")
    child.expect_exact(PROMPT)
    child.sendeof()
    assert ended(child) == 0
    rows = json.loads(shell.run("runs", "--json").stdout)
    assert [row["task"] for row in rows] == ["/second task", "First task"]
    assert len({row["session_id"] for row in rows}) == 1


def test_control_c_stops_the_run_and_the_conversation_goes_on(shell):
    child = shell.terminal("repl", "--replay", shell.cassette(bash("sleep 62")), "--idle", "0")
    child.expect_exact(PROMPT)
    child.sendline("Sleep.")
    runs(child, b"sleep\x0062")
    child.sendintr()
    child.expect_exact("was stopped by")
    child.expect_exact(PROMPT)
    child.send("half a line")
    # A person's next key is no sooner. Without an echo nothing tells that the text was read, and what was not, a
    # terminal throws away at this key, while readline waits for it.
    time.sleep(0.8)
    child.sendintr()
    child.expect_exact(PROMPT)
    child.sendline("/exit")
    assert ended(child) == 0
    assert len(json.loads(shell.run("runs", "--json").stdout)) == 1


def test_the_history_holds_no_secrets_and_nobody_else_reads_it(shell):
    for lines in (["/runs", f"/route -- curl -H 'Authorization: {TOKEN}' x"], ["/help kill"]):
        child = shell.terminal("repl")
        for line in lines:
            child.expect_exact(PROMPT)
            child.sendline(line)
        child.expect_exact(PROMPT)
        child.sendeof()
        assert ended(child) == 0
    file = Path(shell.environ["KAGURA_HOME"]) / "repl-history"
    told = file.read_text()
    assert (told.splitlines()[0], told.splitlines()[-1]) == ("/runs", "/help kill")
    assert TOKEN not in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_by_a_pipe_there_is_no_prompt_and_the_last_line_says_how_it_ended(shell):
    cassette = shell.cassette()
    ran = shell.run("repl", "--replay", cassette, given="Go.\n/runs --json\n")
    assert (ran.returncode, ran.stderr) == (0, "")
    answer, rows = ran.stdout.splitlines()
    assert (answer, json.loads(rows)[0]["task"]) == ("Over.", "Go.")
    ran = shell.run("repl", "--replay", cassette, given="Go.\n!ls\n")
    assert (ran.returncode, "IPython's" in ran.stderr) == (2, True)


def test_commands_of_the_conversation_are_about_its_session_and_leave_what_it_has_in_place(shell):
    enable = "/plugin enable fs-read base_dir=. --static --accept-risk medium\n"
    given = f"{enable}/plugin list\nGo.\n/run --json Once more.\n/repl\n"
    cassette = shell.cassette(bash("kagura-host --list > there"))
    ran = shell.run("repl", "--replay", cassette, "--session", "mine", "--write", "through", given=given)
    assert "You are in one already" in ran.stderr
    assert "is enabled in the session mine." in ran.stdout
    assert "fs_read" in (shell.project / "there").read_text()
    rows = json.loads(shell.run("runs", "--json").stdout)
    assert {row["session_id"] for row in rows if row["flavour"] == "agent"} == {"mine"}


def test_setup_asks_at_a_terminal_and_writes_down_what_was_chosen(shell):
    child = shell.terminal("setup", "sandbox")
    child.expect_exact("Which box should runs have?")
    child.expect_exact("1 to 7 [1]: ")
    child.sendline("4")
    child.expect_exact("box = 'bubblewrap' was written to")
    # The environment of this test names one too, and it would win.
    child.expect_exact("The variable KAGURA_BOX overrides it")
    assert ended(child) == 0
    assert Path(shell.environ["KAGURA_CONFIG"]).read_text() == 'box = "bubblewrap"\n'
    child = shell.terminal("setup")
    child.expect_exact("Which brain should think?")
    # A key that comes before it reads may be thrown away as it begins to.
    child.expect_exact("[1]: ")
    child.sendintr()
    child.expect_exact("Nothing more was changed.")
    assert ended(child) == 3


def test_a_line_that_is_no_text_is_refused_and_the_conversation_goes_on(shell):
    ran = subprocess.run(
        [sys.executable, *PROGRAM, "repl", "--replay", shell.cassette()],
        cwd=shell.project,
        env=shell.environ | {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8:strict"},
        input=b"bad \xff\n/runs \xff\nGo.\n",
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, b"Over.\n")
    assert [line.partition(b":")[0] for line in ran.stderr.splitlines()] == [b"ERR_USAGE", b"ERR_USAGE"]
    assert len(json.loads(shell.run("runs", "--json").stdout)) == 1


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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_answer_is_told_in_whatever_encoding_the_terminal_has(shell, encoding):
    shell.environ["PYTHONIOENCODING"] = encoding
    ran = by_a_shell(shell, f"run --replay {shell.cassette(answer='5 € …')} Go.")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "5 \\u20ac \\u2026\n", "")
    for words in ("runs", "run --help"):
        ran = by_a_shell(shell, words)
        assert (ran.returncode, ran.stderr) == (0, "")


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
    [check, error] = said.splitlines()
    assert check == "! verification did not pass in a fresh box: false, exit 1"
    assert error.startswith("ERR_NOT_VERIFIED")


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
