"""IPython in a terminal: plain text, approvals at the keyboard."""

import json
import subprocess
import sys

import pexpect
import pytest

from tests.support.kernel import kernel_environ

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]


@pytest.fixture
def terminal(tmp_path, private_home):
    """IPython with the extension loaded, in a project with a cassette that asks for a host command."""
    project = tmp_path / "project"
    project.mkdir()
    call = {"name": "bash", "arguments": {"command": "touch on-the-host", "host": True, "reason": "the box cannot"}}
    lines = [{"kagura_cassette": 1}, {"text": "I try."}, {"call": call}, {"done": {"text": "Over."}}]
    (project / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor", "--ext=kagura_kernel"]
    environ = kernel_environ(private_home, TERM="dumb")
    child = pexpect.spawn(
        sys.executable, arguments, cwd=str(project), env=environ, encoding="utf-8", timeout=60, echo=False
    )
    child.project = project
    child.expect_exact("In [1]: ")
    yield child
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()


def enter(terminal, cell):
    # The simple prompt takes one line at a time.
    terminal.sendline(f"_ = get_ipython().run_cell({cell!r})")


@pytest.mark.parametrize(("answer", "words", "ran"), [("y", "Allowed by", True), ("", "Denied by", False)])
def test_an_approval_is_answered_at_the_keyboard(terminal, answer, words, ran):
    enter(terminal, "%%kagura --replay c.jsonl\nGo.")
    terminal.expect_exact("touch on-the-host")
    terminal.expect_exact("Allow it once? [y/N]")
    terminal.sendline(answer)
    terminal.expect_exact(words)
    terminal.expect_exact("RunOutcome(done")
    assert (terminal.project / "on-the-host").exists() is ran


def test_a_question_about_a_host_offers_for_how_long_by_key(terminal):
    enter(terminal, "%%sandbox bash\ncurl -sS http://index.example.org/; echo over")
    terminal.expect_exact("index.example.org:80")
    terminal.expect_exact("Allow it for [y] this run, [s] this session, [n] no, [never]")
    terminal.sendline("never")
    terminal.expect_exact("Denied for the rest of this session by")
    terminal.expect_exact("! refused: index.example.org:80 (not approved; --net index.example.org:80 would grant it)")
    terminal.expect_exact("RunOutcome(done")


def test_control_c_stops_the_run_with_one_calm_line(terminal):
    enter(terminal, "%%sandbox bash\necho begun > begun; sleep 60")
    terminal.expect_exact("[sandbox run: running] bubblewrap")
    terminal.sendintr()
    terminal.expect_exact("was stopped by")
    terminal.sendline("print(6 * 7)")
    terminal.expect_exact("42")


def test_a_start_is_asked_about_once_and_an_answer_that_is_none_is_asked_again(terminal):
    enter(terminal, "%%sandbox bash --writable-root\necho started")
    terminal.expect_exact("Allow it for [y] this run")
    question = terminal.before.strip().splitlines()[-1].strip()
    terminal.sendline("maybe")
    terminal.expect_exact("That is none of the answers.")
    terminal.expect_exact("Allow it for [y] this run")
    terminal.sendline("n")
    terminal.expect_exact("Denied by")
    assert question not in terminal.before
    terminal.expect_exact("ERR_RUN_DENIED")
    assert "Allow it for" not in terminal.before


def test_a_question_that_is_answered_elsewhere_takes_its_prompt_with_it(terminal, private_home):
    enter(terminal, "%%kagura --replay c.jsonl\nGo.")
    terminal.expect_exact("Allow it once? [y/N]")
    code = (
        "approvals = get_ipython().run_line_magic('kagura', 'approvals')\n"
        "get_ipython().run_line_magic('kagura', f'deny {approvals.approval[0]}')"
    )
    other = ["-m", "IPython", "--no-banner", "--colors=nocolor", "--ext=kagura_kernel", "-c", code]
    environ = kernel_environ(private_home, TERM="dumb")
    subprocess.run([sys.executable, *other], cwd=terminal.project, env=environ, check=True, capture_output=True)
    terminal.expect_exact("Denied by")
    # What follows stands below the prompt that nobody answered, not behind it.
    assert terminal.before.split("denial): ")[-1].lstrip(" ").startswith(("\r", "\n"))
    terminal.expect_exact("RunOutcome(done")
    assert not (terminal.project / "on-the-host").exists()


def test_an_attached_run_is_printed_until_control_c_which_does_not_stop_it(terminal):
    enter(terminal, "%%sandbox bash --bg\necho begun; sleep 60")
    terminal.expect_exact("In [2]: ")
    terminal.sendline("run = _.result; print('have', run.run_id[:4])")
    terminal.expect_exact("have run-")
    enter(terminal, "%kagura attach last")
    terminal.expect_exact("[sandbox run: running] bubblewrap")
    terminal.sendintr()
    terminal.expect_exact(" goes on. `%kagura attach run-")
    terminal.sendline("print('over:', run.done); run.kill()")
    terminal.expect_exact("over: False")
    enter(terminal, "%kagura attach last")
    terminal.expect_exact("[sandbox run: stopped]")


def test_a_question_in_the_background_rings_once_is_told_once_and_answered_by_attaching(terminal):
    enter(terminal, "%%kagura --replay c.jsonl --bg\nGo.")
    terminal.expect_exact("\x07")
    terminal.sendline("print(6 * 7)")
    terminal.expect_exact("42")
    terminal.expect_exact(" waits for you: ")
    terminal.sendline("print(6 * 8)")
    terminal.expect_exact("48")
    enter(terminal, "%kagura attach last")
    terminal.expect_exact("Allow it once? [y/N]")
    assert "waits for you" not in terminal.before
    assert terminal.before.count("\x07") == 1
    terminal.sendline("y")
    terminal.expect_exact("Allowed by")
    terminal.expect_exact("[replay run: done]")
    assert (terminal.project / "on-the-host").exists()
