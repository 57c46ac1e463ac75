"""Plugins in the sidebar of a real JupyterLab: audited, enabled, called, approved and disabled there."""

import re
from itertools import count

import pytest
from playwright.sync_api import expect

from kagura_kernel.domain.events import PluginChanged
from tests.browser.interrupts import LOAD
from tests.browser.lab import TOKEN
from tests.browser.notebook import THEMES
from tests.browser.sidebar import Sidebar
from tests.browser.test_accessibility import faults
from tests.support.plugin_rig import write_plugin

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

_folders = count(1)

# What is planted for the auditor lies at another place each time, so it looks for the line that it means.
AUDITOR = """\
from tests.support.auditor import report, take_over

def answer(prompt):
    lines = [one for one in prompt.splitlines() if one.endswith("def greet(name):")]
    finding = {"severity": "warning", "message": "Takes any name, however long", "file": "plugin.py"}
    findings = [finding | {"line": int(one.partition("|")[0])} for one in lines]
    return report(summary="It greets whoever is named.", findings=findings)(prompt)

_ = take_over(answer)
"""
LOOK = "%kagura plugin list"
SANDBOX = "%%sandbox python\nprint('here I am')"
CALL = """\
%%sandbox python
try:
    from kagura_host import polite_greeter
    print(polite_greeter.greet("Ada"))
except ImportError:
    print("it cannot be called")
"""
SOURCE = """\
SCHEMA = {"greeting": {"type": "string", "description": "What it says first", "default": "hello"}}


def create_host_functions(config):
    def greet(name):
        return config["greeting"] + " " + name

    return {MODULE: {"greet": greet}}
"""
NAME = "polite-greeter"
ENABLE = f"%kagura plugin enable {NAME}"


@pytest.fixture
def beside(open_notebook):
    """A notebook whose project has a plugin, and the sidebar beside it."""
    folder = f"sales-{next(_folders)}"
    # A kernel that has had other sessions would be known by them.
    notebook = open_notebook(LOAD, AUDITOR, LOOK, SANDBOX, CALL, ENABLE, folder_name=folder, own_kernel=True)
    # Other files for each test: an audit counts for the same files wherever they lie.
    description = f"Greets whoever is named, for {folder}"
    write_plugin(notebook.folder / "plugins", NAME, source=SOURCE, description=description)
    notebook.done(0)
    notebook.done(1)
    sidebar = Sidebar(notebook.page).open()
    # So that the plugins have room on the pictures.
    for section in ("Runs", "Leases", "Costs"):
        sidebar.panel.get_by_role("button", name=re.compile(f"^{section}")).click()
    return notebook, sidebar


def row_of(sidebar, name=NAME):
    """A plugin's row."""
    return sidebar.section("Plugins").locator(f"[data-plugin='{name}']")


def act(row, word):
    """One of its buttons."""
    return row.get_by_role("button", name=re.compile(f"^{word}: "))


def test_a_plugin_is_audited_enabled_called_approved_and_disabled_from_the_sidebar(beside, lab):
    notebook, sidebar = beside
    section, row = sidebar.section("Plugins"), row_of(sidebar)
    expect(notebook.done(2)).to_contain_text(NAME)
    expect(row).to_contain_text("Not audited")
    expect(section).to_contain_text("has begun no run since it started")
    notebook.done(3)
    expect(section).to_contain_text(f"In the session of {notebook.path.name}")
    expect(notebook.done(4)).to_contain_text("it cannot be called")

    row.get_by_role("button", name=NAME).click()
    expect(row).to_contain_text("Nobody has audited these files yet")
    expect(act(row, "Enable")).to_have_count(0)
    act(row, "Audit").click()
    expect(row.locator(".kgs-report")).to_contain_text("It greets whoever is named.")
    expect(row).to_contain_text("Takes any name, however long")
    expect(row.locator(".kgs-findings .kgs-exactly")).to_have_text("def greet(name):")
    notebook.window("sidebar-plugins-audited")

    row.get_by_label("Settings of").fill("greeting='good day,'")
    act(row, "Enable").click()
    expect(row).to_contain_text("Enabled")
    expect(section.locator("[aria-live]")).to_have_text(f"{NAME} is enabled in this session.")
    expect(notebook.done(4)).to_contain_text("good day, Ada")
    expect(row).to_contain_text("greeting=good day,")

    act(row, "Approve").click()
    expect(row.locator(".kgs-facts")).to_contain_text("Approved")
    notebook.window("sidebar-plugins")

    act(row, "Disable").click()
    expect(row.locator(".kgs-facts")).to_contain_text("Off")
    expect(notebook.done(4)).to_contain_text("it cannot be called")
    act(row, "Unapprove").click()
    expect(row.locator(".kgs-facts")).not_to_contain_text("Approved")

    with lab.journal() as journal:
        told = [one.event for one in journal.events(kinds=["plugin.changed"])]
    ours = [event for event in told if isinstance(event, PluginChanged) and event.plugin == NAME]
    assert [(event.change, event.via) for event in ours] == [
        ("configured", "sidebar"),
        ("enabled", "sidebar"),
        ("approved", "sidebar"),
        ("disabled", "sidebar"),
        ("unapproved", "sidebar"),
    ]


def test_the_question_of_a_cell_is_answered_in_the_sidebar(beside):
    notebook, sidebar = beside
    notebook.run(5)
    approval = sidebar.panel.locator("[data-approval]")
    expect(approval).to_contain_text(f"Enable the plugin {NAME}")
    expect(approval).to_contain_text("It greets whoever is named.")
    # It takes a click once the end of what is asked has been on screen.
    for end in approval.locator("[data-end]").all():
        end.scroll_into_view_if_needed()
    approval.get_by_role("button", name=re.compile("^Approve: ")).click()
    notebook.wait_done(5)
    facts = row_of(sidebar).locator(".kgs-facts")
    expect(facts).to_contain_text("Enabled")
    expect(facts).to_contain_text("Approved")
    # The session is known by what its process did with the plugin: it has run nothing itself.
    expect(sidebar.section("Plugins")).to_contain_text(f"In the session of {notebook.path.name}")
    act(row_of(sidebar), "Disable").click()
    expect(facts).to_contain_text("Off")


def test_changed_source_is_off_by_itself_and_enabled_anew_by_its_question(beside):
    notebook, sidebar = beside
    notebook.done(2)
    notebook.done(3)
    row = row_of(sidebar)
    row.get_by_role("button", name=NAME).click()
    act(row, "Audit").click()
    expect(row.locator(".kgs-report")).to_be_visible()
    act(row, "Enable").click()
    expect(row.locator(".kgs-facts")).to_contain_text("Enabled")
    expect(notebook.done(4)).to_contain_text("hello Ada")
    source = notebook.folder / "plugins" / NAME / "plugin.py"
    source.write_text(source.read_text().replace('+ " " +', '+ ", good morning " +'))
    expect(row.locator(".kgs-facts")).to_contain_text("Off: its files have changed")
    approval = sidebar.panel.locator("[data-approval]")
    expect(approval).to_contain_text(f"Enable the plugin {NAME} 1.0.0 anew")
    expect(approval).to_contain_text("files: plugin.py changed")
    expect(row).to_contain_text("It is audited anew, and you are asked")
    for end in approval.locator("[data-end]").all():
        end.scroll_into_view_if_needed()
    approval.get_by_role("button", name=re.compile("^Enable: ")).click()
    expect(row.locator(".kgs-facts")).to_contain_text("Enabled")
    expect(row).not_to_contain_text("you are asked")
    expect(notebook.done(4)).to_contain_text("hello, good morning Ada")


def test_what_comes_of_nothing_says_why_and_can_be_tried_again(beside):
    notebook, sidebar = beside
    notebook.done(2)
    notebook.done(3)
    (notebook.folder / "data").mkdir()
    row = row_of(sidebar, "fs-read")
    row.get_by_role("button", name="fs-read").click()
    act(row, "Audit").click()
    expect(row.locator(".kgs-report")).to_be_visible()
    field = row.get_by_label("Settings of")
    expect(field).to_have_attribute("placeholder", "base_dir=…")
    act(row, "Enable").click()
    expect(row.locator(".kgs-problem")).to_contain_text("base_dir")
    field.fill("bas_dir=./data")
    act(row, "Enable").click()
    expect(row.locator(".kgs-problem")).to_contain_text("bas_dir")
    field.fill("base_dir=./data")
    field.press("Enter")
    expect(row.locator(".kgs-facts")).to_contain_text("Enabled")
    expect(row).to_contain_text(str(notebook.folder / "data"))
    act(row, "Disable").click()
    expect(row.locator(".kgs-facts")).to_contain_text("Off")


def test_the_keyboard_reaches_everything_and_axe_finds_no_serious_fault(beside):
    notebook, sidebar = beside
    page, row = notebook.page, row_of(sidebar)
    notebook.done(2)
    notebook.done(3)
    first = row_of(sidebar, "fetch")
    first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(row).to_be_focused()
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name=NAME, exact=False).first).to_have_attribute("aria-expanded", "true")
    act(row, "Audit").focus()
    page.keyboard.press("Enter")
    expect(row.locator(".kgs-report")).to_be_visible()
    sidebar.panel.evaluate("node => node.querySelectorAll('details').forEach(one => { one.open = true; })")
    for theme, _ in THEMES:
        notebook.theme(theme)
        assert faults(page, "#kagura-sidebar") == []
    row.focus()
    page.keyboard.press("End")
    expect(row_of(sidebar, "sql-read")).to_be_focused()


def test_it_is_the_same_in_notebook_7(beside, own_page, lab):
    notebook, _ = beside
    notebook.done(3)
    notebook.done(2)
    own_page.goto(f"{lab.url}notebooks/{notebook.path.relative_to(lab.root)}?token={TOKEN}")
    own_page.wait_for_selector(".jp-NotebookPanel-toolbar")
    own_page.locator(".jp-Notebook .jp-Cell").first.click()
    sidebar = Sidebar(own_page).open()
    expect(sidebar.section("Plugins")).to_contain_text(f"In the session of {notebook.path.name}")
    row_of(sidebar).get_by_role("button", name=NAME).click()
    act(row_of(sidebar), "Audit").click()
    expect(row_of(sidebar).locator(".kgs-report")).to_contain_text("It greets whoever is named.")
