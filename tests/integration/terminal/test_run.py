"""`kagura-kernel run` from a shell: real boxes, cassettes for brains, a pseudo-terminal for a person."""

import json
import os
import signal
from pathlib import Path

import pexpect
import pytest

from kagura_kernel.domain.memory import Author, Source
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.patterns.lessons import Failure, lesson_draft
from kagura_kernel.runtime.host_box import NO_WALLS
from kagura_kernel.testing.patience import wait_until
from tests.integration.terminal.conftest import PROGRAM, bash, ended, runs

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]


def test_the_answer_alone_goes_to_standard_output_and_a_pipe_sees_no_progress(shell):
    cassette = shell.cassette(bash("echo worked"), answer="It **worked**.")
    ran = shell.run("run", "--replay", cassette, "Try it.", piped=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "It **worked**.\n", "")


def test_a_pipe_is_told_first_that_there_is_no_box(shell):
    cassette = shell.cassette(bash("echo worked"), answer="It worked.")
    ran = shell.run("run", "--replay", cassette, "Try it.", piped=True, KAGURA_POLICY="external_sandbox")
    assert (ran.returncode, ran.stdout) == (0, "It worked.\n")
    assert ran.stderr.splitlines()[0] == f"! {NO_WALLS}"


def test_the_task_comes_as_words_from_a_file_or_by_standard_input(shell):
    cassette = shell.cassette()
    (shell.project / "task.md").write_text("From a file\nof two lines.\n")
    assert shell.run("run", "Three", "words", "here", "--replay", cassette).returncode == 0
    assert shell.run("run", "--prompt-file", "task.md", "--replay", cassette).returncode == 0
    assert shell.run("run", "-", "--replay", cassette, given="By a pipe.\n").returncode == 0
    assert shell.run("run", "bad \udcff", "--replay", cassette).stderr.startswith("ERR_USAGE: ")
    rows = json.loads(shell.run("runs", "--json").stdout)
    assert [row["task"] for row in rows] == ["By a pipe.", "From a file\nof two lines.", "Three words here"]


def test_json_is_one_document_with_the_outcome_and_its_exit_code_agrees(shell):
    cassette = shell.cassette(bash("echo x > new.txt"))
    ran = shell.run("run", "--replay", cassette, "--json", "Go.", piped=True)
    told = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert (told["ok"], told["status"], told["text"]) == (True, "done", "Over.")
    [change] = told["changes"]
    assert (change["path"], change["status"], change["state"]) == ("new.txt", "added", "proposed")
    assert f"kagura-kernel apply {told['run_id']}" in ran.stderr
    assert shell.run("apply", told["run_id"]).returncode == 0
    assert (shell.project / "new.txt").read_text() == "x\n"


def test_a_named_session_goes_on_and_another_is_fresh(shell):
    cassette = shell.cassette()
    runs = [shell.run("run", "--replay", cassette, "--json", *words, "Go.") for words in (["--session", "mine"], [])]
    sessions = [json.loads(ran.stdout)["session_id"] for ran in (*runs, shell.run(*runs[0].args[len(PROGRAM) + 1 :]))]
    assert (sessions[0], sessions[2]) == ("mine", "mine")
    assert sessions[1].startswith("ses-")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "ERR_USAGE: run: Nothing was asked for."),
        (["--no-such-option", "x"], 2, "ERR_USAGE: kagura-kernel run: There is no option"),
        (["Go.", "--prompt-file", "c.jsonl"], 2, "do not go together"),
        (["--prompt-file", "missing.md"], 2, "cannot be read from missing.md: no such file"),
        (["--replay", "missing.jsonl", "Go."], 2, "ERR_CASSETTE_MISSING"),
        (["Go."], 3, "ERR_BRAIN_NOT_CONFIGURED"),
        (["--replay", "c.jsonl", "--box", "docker", "Go."], 3, "ERR_SANDBOX_UNAVAILABLE"),
    ],
)
def test_what_cannot_begin_says_why_and_its_exit_code_says_whose_turn_it_is(shell, words, code, said):
    shell.cassette()
    ran = shell.run("run", *words)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_document_is_printed_for_a_run_that_cannot_begin(shell):
    ran = shell.run("run", "--json", "--brain", "nobody", "Go.")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["ok"], told["status"], told["run_id"]) == (2, False, "failed", "")
    assert ran.stderr == f"{told['error_code']}: {told['error']}\n"
    assert told["error_code"] == "ERR_UNKNOWN_NAME"


def test_work_that_does_not_pass_its_verification_is_no_success(shell):
    cassette = shell.cassette()
    ran = shell.run("run", "--replay", cassette, "--verify", "false", "--json", "Go.")
    assert (ran.returncode, json.loads(ran.stdout)["ok"]) == (2, False)
    assert "ERR_NOT_VERIFIED" in ran.stderr


def test_without_a_terminal_what_asks_is_denied_at_once_and_that_is_said(shell, host_call):
    cassette = shell.cassette(host_call())
    ran = shell.run("run", "--replay", cassette, "Go.")
    assert ran.returncode == 0
    assert "Denied by policy: nobody is here who could be asked" in ran.stderr
    assert not (shell.project / "on-the-host").exists()


@pytest.mark.parametrize(("answer", "words", "ran"), [("y", "Allowed by", True), ("", "Denied by", False)])
def test_an_approval_shows_the_whole_command_and_is_answered_at_the_keyboard(shell, host_call, answer, words, ran):
    child = shell.terminal("run", "--replay", shell.cassette(host_call()), "Go.")
    child.expect_exact("touch on-the-host")
    child.expect_exact("Allow it once? [y/N]")
    assert child.before.count("\x07") == 1
    child.sendline(answer)
    child.expect_exact(words)
    child.expect_exact("[replay run: done]")
    assert ended(child) == 0
    assert (shell.project / "on-the-host").exists() is ran


@pytest.mark.parametrize(
    ("answer", "agreed", "trusted"),
    [("0.50 with lessons", 0.5, True), ("with lessons", None, True), ("y 0.25", 0.25, False), ("y", None, False)],
)
def test_a_plan_shows_what_its_lessons_say_and_is_edited_at_the_keyboard(shell, answer, agreed, trusted):
    task = "Build the report for the board"
    failure = Failure("command", "`bash report.sh board` ended with 3", "no rule for it")
    draft = lesson_draft(failure, task=task, scope="", source=Source(Author.ENGINE, run_id="run-1"))
    with SqliteMemory(Path(shell.environ["KAGURA_HOME"]) / "memory.sqlite3") as memory:
        memory.remember(draft)
    child = shell.terminal("run", "--plan", "--replay", shell.cassette(), task)
    child.expect_exact("NOT trusted, seen once, from engine, run-1")
    child.expect_exact("what went wrong: “`bash report.sh board` ended with 3”")
    child.expect_exact("what was said then: “no rule for it”")
    child.expect_exact("Begin? [y / an amount / no budget / with lessons / N]")
    child.sendline("gladly")
    child.expect_exact("The answers are y, an amount such as `0.50`, `no budget`, `with lessons`")
    child.expect_exact("/ with lessons / N]")
    child.sendline(answer)
    child.expect_exact("Allowed by")
    assert ended(child) == 0
    [lesson] = json.loads(shell.run("lessons", "--json").stdout)
    assert (lesson["memory"]["tier"] == "trusted") is trusted
    rows = [json.loads(line) for line in shell.run("journal", "export", "-").stdout.splitlines()]
    planned = [json.loads(row["body"])["agreed_usd"] for row in rows if row.get("kind") == "run.planned"]
    assert planned[-1] == agreed


def test_the_end_of_the_input_denies(shell, host_call):
    child = shell.terminal("run", "--replay", shell.cassette(host_call()), "Go.")
    child.expect_exact("Allow it once? [y/N]")
    child.sendeof()
    child.expect_exact("Denied by")
    assert ended(child) == 0


def test_control_c_at_a_question_denies_it_and_the_run_goes_on(shell, host_call):
    child = shell.terminal("run", "--replay", shell.cassette(host_call(), bash("echo went on > after.txt")), "Go.")
    child.expect_exact("Allow it once? [y/N]")
    child.sendintr()
    child.expect_exact("Denied by")
    child.expect_exact("after.txt")
    assert ended(child) == 0


def test_no_answer_in_time_denies(shell, host_call):
    cassette = shell.cassette(host_call())
    child = shell.terminal("run", "--replay", cassette, "Go.", KAGURA_APPROVAL_DEADLINE="1")
    child.expect_exact("Allow it once? [y/N] (1 s, no answer is a denial)")
    child.expect_exact("Denied, because nobody answered in time")
    assert ended(child) == 0


def test_control_c_stops_the_run_calmly_and_nothing_stays_behind(shell):
    child = shell.terminal("run", "--replay", shell.cassette(bash("echo begun; sleep 60")), "--idle", "0", "Go.")
    below = runs(child, b"sleep\x0060")
    child.sendintr()
    child.expect_exact("Ctrl-C again leaves at once")
    child.expect_exact("was stopped by")
    assert ended(child) == 130
    wait_until(lambda: not any(Path(f"/proc/{one.pid}").exists() for one in below))
    [row] = json.loads(shell.run("runs", "--json").stdout)
    assert row["status"] == "killed"


def test_sigterm_stops_it_as_well(shell):
    child = shell.terminal("run", "--replay", shell.cassette(bash("sleep 60")), "--idle", "0", "Go.")
    runs(child, b"sleep\x0060")
    child.kill(signal.SIGTERM)
    child.expect_exact("asked by SIGTERM")
    assert ended(child) == 143


def test_a_second_control_c_leaves_at_once_and_nothing_stays_behind_either(shell):
    call = bash("trap '' TERM; sleep 61", host=True)
    child = shell.terminal("run", "--replay", shell.cassette(call), "--idle", "0", "Go.")
    child.expect_exact("Allow it once? [y/N]")
    child.sendline("y")
    below = runs(child, b"sleep\x0061")
    os.kill(child.pid, signal.SIGSTOP)
    # Both arrive before the run can act on the first.
    os.kill(child.pid, signal.SIGINT)
    os.kill(child.pid, signal.SIGTERM)
    os.kill(child.pid, signal.SIGCONT)
    assert ended(child) in (130, 143)
    wait_until(lambda: not any(Path(f"/proc/{one.pid}").exists() for one in below))


def test_what_an_agent_writes_cannot_steer_the_terminal(shell):
    evil = "\x1b]0;owned\x07\x1b[2J\u202etxt"
    cassette = shell.cassette(bash(f"echo {evil}"), answer=f"Done {evil}")
    child = shell.terminal("run", "--replay", cassette, "Go.")
    child.expect_exact("Done ⟨U+001B⟩]0;owned⟨U+0007⟩⟨U+001B⟩[2J⟨U+202E⟩txt")
    assert ended(child) == 0
    ran = shell.run("run", "--replay", cassette, "--json", "Go.")
    assert "\x1b" not in ran.stdout
    assert json.loads(ran.stdout)["text"] == f"Done {evil}"


@pytest.mark.parametrize("plain", [True, False])
def test_there_are_no_colours_where_nobody_wants_them(shell, plain):
    more = {"NO_COLOR": "1"} if plain else {}
    child = shell.terminal("run", "--replay", shell.cassette(bash("echo x")), "Go.", TERM="xterm-256color", **more)
    child.expect(pexpect.EOF)
    assert ("\x1b[36m" in child.before) is not plain
    assert "> bash: echo x" in child.before
    # The line that was written over is gone, and the cursor is back.
    assert child.before.rindex("\x1b[?25h") > child.before.rindex("\x1b[?25l")
