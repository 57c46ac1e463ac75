"""A JupyterLab that has ipywidgets alone, neither our extension nor anywidget: what a person sees and presses there."""

import tempfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.interrupts import LOAD
from tests.browser.lab import running_lab
from tests.browser.notebook import THEMES, show, write
from tests.browser.test_accessibility import faults
from tests.browser.test_choosing import FRESH, KEY
from tests.support.model_script import calls, says
from tests.support.plugin_rig import ASKING, write_plugin

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]


AUDITOR = """\
from tests.support.auditor import report, take_over
_ = take_over(report())
"""
CALL = """\
%%sandbox python
from kagura_host import greeter
print(greeter.greet("Ada"))
open("out.txt", "w").write("hello")
"""


@pytest.fixture(scope="module")
def bare_lab(model):
    with (
        tempfile.TemporaryDirectory(prefix="bare-", ignore_cleanup_errors=True) as base,
        running_lab(Path(base), model, without=("kagura-kernel", "anywidget")) as found,
    ):
        # What a page knows of widgets is in the file, as other front ends have it.
        settings = Path(base, "config", "lab", "user-settings", "@jupyter-widgets", "jupyterlab-manager")
        settings.mkdir(parents=True)
        (settings / "plugin.jupyterlab-settings").write_text('{"saveState": true}')
        yield found


@pytest.fixture
def open_bare(bare_lab, own_page, request):
    """Make a notebook with these cells there, and open it."""
    opened = []

    def make(*cells):
        path = write(bare_lab, request.node.name, LOAD, *cells)
        opened.append(show(own_page, bare_lab, path))
        opened[-1].done(0)
        return opened[-1]

    yield make
    for notebook in opened:
        notebook.shut()


def test_a_command_is_allowed_by_a_button_and_the_card_is_one(open_bare, bare_lab):
    command = "\n".join(["touch allowed", *(f"# line {number}" for number in range(40))])
    asks = calls("bash", {"command": command, "host": True, "reason": "The box cannot touch the project."})
    bare_lab.model.turns[:] = [asks, says("It is there.")]
    notebook = open_bare("%%kagura\nTouch it.")
    output = notebook.run(1)
    allow = output.get_by_role("button", name="Allow once")
    expect(allow).to_be_enabled()
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("touch allowed")
    # All of it lies above the buttons, and nothing of it is to be scrolled to.
    assert output.locator(".kg-full").evaluate("text => text.scrollHeight <= text.clientHeight + 1")
    expect(output.locator(".progress-bar").first).to_be_visible()
    for theme, _ in THEMES:
        notebook.theme(theme)
        assert faults(notebook.page, ".kg-plain") == []
    notebook.picture("plain-approval", cell=1)
    allow.click()
    notebook.wait_done(1)
    expect(output.locator(".kg-card")).to_have_count(1)
    expect(output.locator(".kg-plain")).to_have_count(0)
    expect(output).to_contain_text("It is there.")
    assert (notebook.folder / "allowed").exists()


def test_a_plugins_form_is_filled_in_and_changes_are_applied(open_bare):
    notebook = open_bare(AUDITOR, "%kagura plugin enable greeter", CALL)
    write_plugin(notebook.folder / "plugins", source=ASKING)
    notebook.done(1)
    output = notebook.run(2)
    output.get_by_label("greeting").fill("hello")
    output.get_by_label("loud").select_option("Yes")
    for theme, _ in THEMES:
        notebook.theme(theme)
        assert faults(notebook.page, ".kg-plain") == []
    notebook.picture("plain-plugin", cell=2)
    output.get_by_role("button", name="Enable", exact=True).click()
    notebook.wait_done(2)
    changes = notebook.done(3)
    expect(changes).to_contain_text("HELLO ADA")
    notebook.picture("plain-changes", cell=3)
    changes.get_by_role("button", name="Apply").click()
    expect(changes).to_contain_text("1 applied")
    assert (notebook.folder / "out.txt").exists()


def test_a_key_that_is_typed_is_in_no_file(open_bare):
    notebook = open_bare(FRESH.format(name="bare"), "%kagura setup")
    notebook.done(1)
    output = notebook.run(2)
    field = output.get_by_label("Anthropic API key")
    expect(field).to_have_attribute("type", "password")
    field.fill(KEY)
    field.press("Tab")
    expect(field).to_have_value("")
    expect(field).to_have_attribute("placeholder", "taken; type again to change it")
    saved = notebook.save()
    # What the page knows of widgets is in the file, and the key is not.
    assert "PasswordModel" in str(saved.metadata["widgets"])
    assert KEY not in notebook.path.read_text()
    notebook.picture("plain-key", cell=2)
    output.get_by_role("button", name="Use this key").click()
    notebook.wait_done(2)
    expect(output).to_contain_text("Thinks with Claude, with a key in the keychain.")
    notebook.save()
    assert KEY not in notebook.path.read_text()


SHORT = """\
from kagura_kernel.jupyter import slots
from kagura_kernel.views.record import LIVE_MIME
slots.DRAWN_SECONDS = 0.0
shown = []
update = slots.Slot._publish
slots.Slot._publish = lambda slot, bundle: (shown.append(LIVE_MIME in bundle[0]), update(slot, bundle))
"""


def test_in_a_jupyterlab_with_all_of_it_a_card_that_is_drawn_late_has_its_place_back(open_notebook, lab):
    asks = calls("bash", {"command": "touch allowed", "host": True, "reason": "The box cannot."})
    lab.model.turns[:] = [asks, says("It is there.")]
    notebook = open_notebook(LOAD, SHORT, "%%kagura\nTouch it.", "print(shown[:3])", own_kernel=True)
    notebook.done(0)
    notebook.done(1)
    output = notebook.run(2)
    allow = output.locator(".kg-live").get_by_role("button", name="Allow once")
    expect(allow).to_be_visible()
    expect(output.locator(".kg-plain")).to_have_count(0)
    expect(output.locator(".kg-card")).to_have_count(1)
    allow.click()
    notebook.wait_done(2)
    expect(output.locator(".kg-card")).to_have_count(1)
    assert (notebook.folder / "allowed").exists()
    # Ours, then the plain one, and ours again.
    expect(notebook.done(3)).to_contain_text("[True, False, True]")
