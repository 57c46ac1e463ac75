"""The kagura kernel in a console: text, and approvals answered by lines."""

from __future__ import annotations

import sys

import pexpect
import pytest

from tests.support.kernel import SPEC, kernel_environ
from tests.support.obedient import start_with_it

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

# Long enough for a card to open while it goes on.
AWHILE = "bash: sleep 1"


@pytest.fixture
def console(tmp_path, private_home):
    """`jupyter console --kernel kagura` in a project of its own."""
    project = tmp_path / "project"
    project.mkdir()
    kernels = tmp_path / "data" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "kagura").symlink_to(SPEC)
    environ = kernel_environ(
        private_home, TERM="dumb", JUPYTER_PATH=str(kernels.parent), JUPYTER_CONFIG_DIR=str(tmp_path / "config")
    )
    start_with_it(environ)
    arguments = ["-m", "jupyter_console", "--kernel=kagura", "--simple-prompt"]
    child = pexpect.spawn(
        sys.executable, arguments, cwd=str(project), env=environ, encoding="utf-8", timeout=60, echo=False
    )
    child.project = project
    child.expect_exact("In [1]: ")
    try:
        yield child
    finally:
        child.sendline("%exit")
        child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10)
        child.close(force=True)


@pytest.mark.parametrize(("answer", "words", "ran"), [("y", "Allowed by", True), ("n", "Denied by", False)])
def test_an_approval_is_answered_at_the_console(console, answer, words, ran):
    console.sendline("host: touch on-the-host")
    console.expect_exact("touch on-the-host")
    console.expect_exact("Allow it once? [y/N]")
    console.sendline(answer)
    console.expect_exact(words)
    console.expect_exact("RunOutcome(done")
    assert (console.project / "on-the-host").exists() is ran


def test_every_kind_of_cell_works_at_a_console(console):
    console.sendline("What is this?")
    console.expect_exact("You said: What is this?")
    console.expect_exact("In [2]: ")
    console.sendline("/status")
    console.expect_exact("Nothing runs")
    console.expect_exact("In [3]: ")
    console.sendline("!echo from $((40 + 2))")
    console.expect_exact("from 42")


def test_an_approval_decided_elsewhere_does_not_wait_for_the_console(kagura):
    request = kagura.execute("host: touch decided", allow_stdin=True)
    assert "[y/N]" in kagura.input_asked()
    subshell = kagura.ask("create_subshell_request", {})["subshell_id"]
    cell = (
        "%%py\n[waiting] = __import__('kagura_kernel').assembly.get_cockpit().pending()\n%kagura approve {waiting.id}"
    )
    given = {"silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    assert kagura.ask("execute_request", {"code": cell} | given, subshell=subshell)["status"] == "ok"
    text = str(kagura.follow(request))
    assert "Answered elsewhere" in text
    assert "RunOutcome(done" in text
    assert (kagura.project / "decided").exists()
    kagura.ask("delete_subshell_request", {"subshell_id": subshell})


def test_what_is_no_answer_is_asked_again_and_the_next_one_counts(kagura):
    request = kagura.execute("host: touch decided", allow_stdin=True)
    kagura.input_asked()
    kagura.type("perhaps")
    assert "[y/N]" in kagura.input_asked()
    kagura.type("yes")
    text = str(kagura.follow(request))
    assert "That is none of the answers." in text
    assert (kagura.project / "decided").exists()


def test_a_front_end_with_cells_or_with_comms_gets_widgets(kagura):
    request = kagura.execute(AWHILE, allow_stdin=True, metadata={"cellId": "a1"})
    assert "comm_open" in {message["msg_type"] for message in kagura.follow(request)}
    request = kagura.execute(AWHILE, allow_stdin=True)
    assert "comm_open" not in {message["msg_type"] for message in kagura.follow(request)}
    kagura.ask("comm_info_request", {"target_name": "jupyter.widget"})
    request = kagura.execute(AWHILE, allow_stdin=True)
    assert "comm_open" in {message["msg_type"] for message in kagura.follow(request)}
