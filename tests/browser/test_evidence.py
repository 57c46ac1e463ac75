"""A notebook is evidence: without a kernel and without widgets it reads as with them, even when saved in the middle."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import passed
from tests.browser.interrupts import LOAD
from tests.browser.stage import show_without_kernel
from tests.support.model_script import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]


def on_the_host(command):
    """What the model asks for when it wants this."""
    return {"command": command, "host": True, "reason": f"Only this machine can do {command}."}


TALK = (
    calls("bash", {"command": "wc -l notes.txt"}, first="I count the lines **first**."),
    calls("bash", on_the_host("touch denied-mark")),
    calls("bash", on_the_host("touch allowed-mark"), first="Then I do without it."),
    calls("bash", on_the_host("touch open-mark"), first="And there is one thing more."),
)
END = says("It has **two** lines; the last thing was left alone.")
PERSON = getpass.getuser()
DECIDED = (
    "I count the lines first.",
    "Denied by " + PERSON,
    "touch denied-mark",
    "Allowed by " + PERSON,
    "allowed-mark",
)
OPEN = ("And there is one thing more.", "touch open-mark", "Only this machine can do touch open-mark.")
COST = "$0.0"


@pytest.fixture
def waiting(open_notebook, lab):
    """A run in the middle: it has counted, was denied one thing, was allowed another, and waits for a third."""
    lab.model.turns[:] = [*TALK, END]
    notebook = open_notebook(LOAD, "%%kagura --budget 2\nCount the lines.", files={"notes.txt": "one\ntwo\n"})
    notebook.done(0)
    output = notebook.run(1)
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("denied-mark")
    notebook.wait_kept(1, "touch denied-mark")
    output.locator(".kg-live").evaluate("card => { card.dataset.same = 'yes' }")
    output.get_by_role("button", name="Deny", exact=True).click()
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("allowed-mark")
    output.get_by_role("button", name="Allow once").click()
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("open-mark")
    return notebook


@pytest.fixture
def another(stage, request):
    """A page beside the notebook's."""
    found = stage.take()
    yield found
    stage.give_back(found, good=passed(request))


def read_by_others(notebook, lab, own_page, another):
    """Its text as a page without widgets, and in a JupyterLab without its kernel."""
    copy = lab.root / f"{notebook.folder.name}-given-on" / notebook.path.name
    copy.parent.mkdir()
    shutil.copy(notebook.path, copy)
    web = copy.with_suffix(".html")
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", "--output", str(web), str(copy)],
        check=True,
        capture_output=True,
        env=dict(lab.environment),
    )
    # As from a mail: nothing can be fetched, and no script of the page's own is needed to read it.
    own_page.route("http*://**", lambda route: route.abort())
    own_page.goto(web.as_uri(), wait_until="domcontentloaded")
    outputs = own_page.locator(".jp-Cell-outputArea")
    yield outputs.nth(0 if outputs.count() == 1 else 1)
    yield show_without_kernel(another, lab, copy).output(1)


def test_what_was_saved_in_the_middle_can_be_read(waiting, lab, own_page, another):
    waiting.wait_kept(1, "And there is one thing more.")
    # The card that a person works with was not drawn anew for it.
    expect(waiting.output(1).locator(".kg-live")).to_have_attribute("data-same", "yes")
    waiting.save()
    for reader in read_by_others(waiting, lab, own_page, another):
        for text in (*DECIDED, *OPEN, COST):
            expect(reader).to_contain_text(text)
        for fault in ("Error displaying widget", "Loading widget"):
            expect(reader.get_by_text(fault).locator("visible=true")).to_have_count(0)
        expect(reader.get_by_role("button", name="Allow once")).to_have_count(0)


def test_what_was_saved_at_the_end_can_be_read(waiting, lab, own_page, another):
    waiting.output(1).get_by_role("button", name="Deny", exact=True).click()
    waiting.wait_done(1)
    waiting.save()
    for reader in read_by_others(waiting, lab, own_page, another):
        for text in (*DECIDED, *OPEN, COST, "It has two lines"):
            expect(reader).to_contain_text(text)
