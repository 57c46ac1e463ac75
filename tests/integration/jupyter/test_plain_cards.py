"""Cards in front ends that have ipywidgets alone: asked, answered, filled in and seen to run out, by their protocol."""

import json

import pytest

from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.patience import wait_until
from tests.support.plain_page import WIDGET_MIME, PlainPage
from tests.support.plugin_rig import ASKING, write_plugin

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

RUN_MIME = "application/vnd.kagura.run+json"
KEY = "sk-ant-a-key-that-nobody-is-told"
KEYCHAIN = """
import keyring
from tests.support.keychain import Keychain
keychain = Keychain()
keyring.set_keyring(keychain)
"""


@pytest.fixture
def page(kernel):
    return PlainPage(kernel._client)


@pytest.fixture
def journal(kernel, private_home):  # noqa: ARG001 - whose it is
    journal = Journal.open(private_home / "kagura")
    yield journal
    journal.close()


def commands(project, *commands):
    """A recorded run that wants these commands to run on the host, one after the other."""
    calls = (
        {"name": "bash", "arguments": {"command": one, "host": True, "reason": "the box cannot"}} for one in commands
    )
    lines = [{"kagura_cassette": 1}, *({"call": call} for call in calls), {"done": {"text": "Over."}}]
    (project / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))


def over(page):
    """Whether the card is a finished one."""
    return any(RUN_MIME in data and WIDGET_MIME not in data for data in page.shown.values())


def test_a_click_allows_what_is_asked_and_a_second_one_comes_too_late(kernel, page, journal):
    commands(kernel.project, "touch allowed", "sleep 2")
    kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    page.wait(lambda: "touch allowed" in page.text)
    assert "no answer is a denial" in page.text
    assert page.found("IntProgress")
    [(comm, state)] = page.found("Button", "Allow once")
    # What has just appeared cannot be what a click was meant for.
    assert state["disabled"]
    click = {"method": "custom", "content": {"event": "click"}}
    page.send(comm, click)
    page.press("Allow once")
    page.send(comm, click)
    wait_until((kernel.project / "allowed").exists)
    page.wait(lambda: "sleep 2" in page.text)
    page.press("Deny")
    page.wait(lambda: over(page))
    first, second = sorted(views.approvals(journal), key=lambda row: row.requested_at)
    assert (first.verdict, first.via, second.verdict, second.via) == ("allow", "cell", "deny", "cell")


def test_the_next_card_of_such_a_page_is_one_at_once(kernel, page):
    commands(kernel.project, "touch no")
    for _ in range(2):
        page.shown.clear()
        kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
        page.press("Deny")
        page.wait(lambda: over(page))
    assert not (kernel.project / "no").exists()
    # Nothing stays behind.
    page.wait(lambda: not page.models)


def test_a_plugins_form_is_filled_in(kernel, page):
    write_plugin(kernel.project / "plugins", source=ASKING)
    kernel.run("from tests.support.auditor import report, take_over\n_ = take_over(report())")
    kernel.send("%kagura plugin enable greeter", person=True)
    page.wait(lambda: bool(page.found("Button", "Enable")))
    page.set("Text", "greeting", value="hello")
    page.press("Enable")
    page.wait(lambda: "Not sent: 1 field above needs another value." in page.text)
    # What was typed stays.
    assert page.found("Text", "greeting")[0][1]["value"] == "hello"
    page.set("Dropdown", "loud", index=1)
    page.press("Enable")
    page.wait(lambda: not page.models)
    called = kernel.run("%%sandbox python\nfrom kagura_host import greeter\nprint(greeter.greet('Ada'))")
    assert "HELLO ADA" in str(called)


def test_a_key_that_is_typed_is_told_to_nobody_and_stays_on_no_page(kernel, page):
    """The kernel's keychain is one of this test; the front end tells what it would save."""
    kernel.run(KEYCHAIN)
    kernel.send("%kagura setup", person=True)
    page.wait(lambda: bool(page.found("Password", "Anthropic API key")))
    page.set("Password", "Anthropic API key", value=KEY)
    # The page forgets it before anybody can save it.
    page.wait(lambda: page.found("Password", "Anthropic API key")[0][1]["value"] == "")
    page.press("Use this key")
    page.wait(lambda: not page.models)
    assert KEY in str(kernel.run("print(keychain.kept)"))
    assert KEY not in json.dumps(page.sent_from_kernel, default=str)
