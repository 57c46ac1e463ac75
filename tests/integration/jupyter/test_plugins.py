"""Plugins in real kernels, consoles and terminals, with real jails: asked, answered, called, called off."""

import json
import sys

import pexpect
import pytest

from kagura_kernel.views.audit_card import AUDIT_MIME
from tests.support.kernel import kernel_environ
from tests.support.plugin_rig import write_plugin

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

AUDITOR = """\
from tests.support.auditor import report, take_over
from kagura_kernel.testing.brain import Hang
_ = take_over({answers})
"""
SOURCE = """\
SCHEMA = {"greeting": {"type": "string", "description": "What it says first", "promptKey": True}}


def create_host_functions(config):
    def greet(name):
        return config["greeting"] + " " + name

    return {MODULE: {"greet": greet}}
"""
ENABLE = "%kagura plugin enable greeter"
CALL = "%%sandbox python\nfrom kagura_host import greeter\nprint(greeter.greet('Ada'))"


@pytest.fixture
def guest(kernel):
    """A kernel whose project has the plugin `greeter`, and whose auditor is honest."""
    write_plugin(kernel.project / "plugins", source=SOURCE)
    kernel.run(AUDITOR.format(answers="report()"))
    return kernel


def plain(messages):
    """The plain text of everything shown."""
    return "\n".join(
        m["content"]["data"]["text/plain"] for m in messages if "text/plain" in m["content"].get("data", {})
    )


def errors(messages):
    return [m["content"] for m in messages if m["msg_type"] == "error"]


def records(messages):
    """What cards of audits leave in the notebook, in order."""
    return [m["content"]["data"][AUDIT_MIME] for m in messages if AUDIT_MIME in m["content"].get("data", {})]


def opened(message):
    """Whether a live card comes into being."""
    return message["msg_type"] == "comm_open" and "parts" in str(message)


def asks(message):
    """Whether the question of an enabling is sent."""
    return message["msg_type"] == "comm_msg" and "data-approval" in json.dumps(message["content"])


def ident(message):
    """Under which it is answered."""
    return message["content"]["data"]["content"]["parts"]["form"].partition('data-approval="')[2].partition('"')[0]


def test_a_press_on_enable_brings_the_jail_up_and_a_box_calls_it(guest):
    request = guest.send(ENABLE, person=True)
    card = guest.follow(request, opened)[-1]["content"]["comm_id"]
    about = ident(guest.follow(request, asks)[-1])
    guest.press(card, act="allow", answer="Enable", id=about, fields={"greeting": "hello"})
    messages = guest.follow(request)
    assert errors(messages) == []
    assert records(messages)[-1]["status"] == "enabled"
    assert "hello Ada" in plain(guest.run(CALL))


def test_an_interrupt_calls_it_off_in_one_line_and_the_card_is_finished(guest):
    request = guest.send(ENABLE, person=True)
    guest.follow(request, asks)
    guest.interrupt()
    [error] = errors(guest.follow(request))
    assert error["ename"] == "RunKilled"
    assert len(error["traceback"]) == 1
    guest.any(lambda message: [one["status"] for one in records([message])] == ["stopped"])
    assert "app-" not in plain(guest.run("%kagura approvals --pending"))


@pytest.fixture
def terminal(tmp_path, private_home):
    """IPython in a terminal with the extension loaded, an honest auditor, and the plugin in its project."""
    project = tmp_path / "project"
    project.mkdir()
    write_plugin(project / "plugins", source=SOURCE)
    arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor", "--ext=kagura_kernel"]
    child = pexpect.spawn(
        sys.executable,
        arguments,
        cwd=str(project),
        env=kernel_environ(private_home, TERM="dumb"),
        encoding="utf-8",
        timeout=60,
        echo=False,
    )
    child.expect_exact("In [1]: ")
    child.sendline("from tests.support.auditor import report, take_over; _ = take_over(report())")
    child.expect_exact("In [2]: ")
    yield child
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()


def test_in_a_terminal_the_report_is_read_and_the_form_is_filled_in_by_lines(terminal):
    terminal.sendline(ENABLE)
    terminal.expect_exact("Low risk. The audit has nothing against it")
    terminal.expect_exact("(e)nable for this session, (a)pprove for later sessions too, (r)eject [r]: ")
    terminal.sendline("e")
    terminal.expect_exact("What it says first")
    terminal.sendline("")
    terminal.expect_exact("it needs a value")
    terminal.sendline("hello")
    terminal.expect_exact("is enabled in this session")
    terminal.sendline("print(6 * 7)")
    terminal.expect_exact("42")


def test_in_a_console_a_line_answers_and_fills_in(kagura):
    write_plugin(kagura.project / "plugins", source=SOURCE)
    kagura.run("%%py\n" + AUDITOR.format(answers="report()"))
    request = kagura.execute("/plugin enable greeter", allow_stdin=True)
    assert "(e)nable" in kagura.input_asked()
    kagura.type("a")
    assert "greeting" in kagura.input_asked()
    kagura.type("good day")
    text = str(kagura.follow(request))
    assert "is enabled in this session" in text
    assert "approved for later sessions" in text
    assert "good day Ada" in plain(kagura.run(CALL))
