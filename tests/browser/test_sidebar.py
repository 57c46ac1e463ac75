"""The sidebar in a real JupyterLab and a real Notebook: rows of the journal, answers that decide, all ways to it."""

import json
import os
import re
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as OutOfTime, expect

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.journal import views
from kagura_kernel.testing.patience import wait_until
from tests.browser.interrupts import LOAD, host
from tests.browser.notebook import PICTURES, SCREENSHOTS, THEMES, Notebook
from tests.browser.sidebar import COMMAND, HOST, Sidebar, Story, load, visit
from tests.browser.stage import NOTEBOOK
from tests.browser.test_accessibility import NO_FAULTS, faults_by_theme

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

EVIL = "<img src=x onerror='window.owned = true'>\u202e"
CONTRAST = ("JupyterLab Dark High Contrast", "contrast")
MANY = 1_000
"""Many times what can be seen, and several pages of the server's; the tests of the panel itself go to ten thousand."""
NOTEBOOK_FILE = Path(NOTEBOOK)
_folders = count(1)


@pytest.fixture(scope="session")
def story(told):
    """Its journal, with runs of the last days in it."""
    with told.journal() as journal:
        yield Story(journal, str(told.root / NOTEBOOK)).past()


# ------------------------------------------------------------- with a real run


@pytest.fixture
def asking(open_notebook):
    """A notebook whose run waits for an answer, and the sidebar beside it."""
    ask = "%%kagura --replay ask.jsonl --write none\nLeave a mark."
    # Short, because it can be read on the picture.
    folder = f"sales-{next(_folders)}"
    notebook = open_notebook(LOAD, ask, files={"ask.jsonl": host("echo once >> mark")}, folder_name=folder)
    sidebar = Sidebar(notebook.page).open()
    notebook.done(0)
    notebook.run(1)
    expect(notebook.output(1).get_by_role("button", name="Allow once")).to_be_visible()
    return notebook, sidebar


def test_an_answer_in_the_sidebar_decides_the_cells_question_and_the_run_goes_on(asking, lab):
    notebook, sidebar = asking
    approval = sidebar.panel.locator("[data-approval]")
    expect(approval).to_contain_text("echo once >> mark")
    expect(sidebar.run("Leave a mark.").first).to_contain_text("Waiting for you")
    notebook.window("sidebar-run")
    approval.get_by_role("button", name=re.compile("^Allow once")).click()
    expect(notebook.output(1).locator(".kg-verdict")).to_contain_text("in the sidebar")
    expect(approval).to_have_count(0)
    notebook.wait_done(1)
    assert (notebook.folder / "mark").read_text() == "once\n"
    expect(sidebar.run("Leave a mark.").first).to_contain_text("Done")
    with lab.journal() as journal:
        assert views.approvals(journal)[0].via == "sidebar"


def test_an_answer_in_the_cell_leaves_the_sidebar_by_itself_and_says_by_whom(asking):
    notebook, sidebar = asking
    expect(sidebar.panel.locator("[data-approval]")).to_have_count(1)
    notebook.output(1).get_by_role("button", name="Deny").click()
    expect(sidebar.panel.locator("[data-approval]")).to_have_count(0)
    sidebar.section("Approvals").get_by_text("Decided lately").click()
    expect(sidebar.section("Approvals").locator(".kgs-decided").first).to_contain_text(
        re.compile("Denied by .*, in the cell")
    )


def test_a_run_that_is_stopped_in_the_sidebar_ends_in_its_cell(asking):
    notebook, sidebar = asking
    row = sidebar.run("Leave a mark.").first
    row.get_by_role("button", name="Stop").click()
    notebook.wait_done(1)
    expect(notebook.output(1).locator(".kg-pill")).to_have_text("Stopped")
    expect(row).to_contain_text("Stopped")
    expect(sidebar.panel.locator("[data-approval]")).to_have_count(0)


# ------------------------------------------------------- with a journal told to


def test_every_section_shows_the_rows_of_the_journal(told_page, story):
    with story.live() as run:
        story.ask(run, **COMMAND)
        host_id = story.ask(run, **HOST)
        story.lend(run)
        sidebar = visit(told_page).open()
        approval = sidebar.approval(host_id)
        expect(approval).to_contain_text("files.example.org:443")
        expect(approval.get_by_role("button", name=re.compile("^Allow for this session"))).to_be_visible()
        expect(sidebar.section("Runs").locator(".kgs-run").first).to_contain_text("Build the report and push it")
        expect(sidebar.section("Leases")).to_contain_text("github")
        expect(sidebar.section("Leases")).to_contain_text(re.compile(r"1[34]:\d\d"))
        expect(sidebar.section("Costs")).to_contain_text("$0.8400 of $2.00 spent")
        expect(sidebar.section("Costs")).to_contain_text(re.compile(r"analysis\.ipynb\s*\$\d\.\d\d\s*3\d runs"))
        expect(sidebar.section("Costs").get_by_role("img")).to_have_attribute("aria-label", re.compile(r"\$0\.\d\d"))
        expect(told_page.locator(".kgs-status-button")).to_contain_text("2 wait")
        expect(told_page.locator("[data-kgs-count='2']")).to_be_visible()
        told_page.set_viewport_size({"width": 1280, "height": 1250})
        Notebook(told_page, NOTEBOOK_FILE).window("sidebar", (CONTRAST, *THEMES))


SCROLLED = """panel => [...panel.querySelectorAll('*')].filter(one => {
  const { overflowY } = getComputedStyle(one);
  return ['auto', 'scroll'].includes(overflowY) && one.scrollHeight > one.clientHeight && !one.matches('pre');
}).map(one => one.className)"""
RESIZE = """width => {
  const split = window.jupyterapp.shell._hsplitPanel;
  const [left, main, right] = split.relativeSizes();
  const share = width / split.node.clientWidth;
  split.setRelativeSizes([left, main + right - share, share]);
}"""


@pytest.mark.parametrize("width", [240, 320])
def test_the_panel_scrolls_as_one_and_keeps_its_costs_in_sight(fresh_told_page, story, width):
    with story.live() as run:
        ident = story.ask(run, **COMMAND)
        story.lend(run)
        sidebar = visit(fresh_told_page).open()
        expect(sidebar.approval(ident)).to_be_visible()
        expect(sidebar.section("Costs")).to_contain_text("$0.8400 of $2.00 spent")
        fresh_told_page.evaluate(RESIZE, width)
        # JupyterLab itself gives a side no less than 250 pixels.
        narrow = f"#kagura-sidebar {{ width: {width}px !important; min-width: 0 !important; }}"
        fresh_told_page.add_style_tag(content=narrow)
        for at in ("0", "node.scrollHeight"):
            sidebar.panel.locator(".kgs-scroll").evaluate(f"node => {{ node.scrollTop = {at}; }}")
            assert sidebar.panel.evaluate(SCROLLED) == ["kgs-scroll"]
            expect(sidebar.section("Costs").get_by_role("heading")).to_be_in_viewport(ratio=0.95)
            Notebook(fresh_told_page, NOTEBOOK_FILE).window(f"sidebar-{width}-{at[0]}")
        assert sidebar.panel.evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.usefixtures("story")
def test_a_low_window_has_its_room_for_the_questions(told_page):
    sidebar = visit(told_page).open()
    # As on a small screen whose page is zoomed to 150 %.
    told_page.set_viewport_size({"width": 933, "height": 633})
    costs, panel = sidebar.section("Costs").bounding_box(), sidebar.panel.bounding_box()
    assert costs["height"] <= 0.26 * panel["height"]


def test_axe_finds_no_serious_fault_in_any_theme(told_page, story):
    with story.live() as run:
        ident = story.ask(run, **COMMAND)
        question = {"kind": "question", "title": "Which one?", "detail": "Which of the two tables?", "arguments": {}}
        story.ask(run, **question)
        story.ask(run, **HOST)
        story.lend(run)
        sidebar = visit(told_page).open()
        notebook = Notebook(told_page, NOTEBOOK_FILE)
        expect(sidebar.approval(ident)).to_be_visible()
        sidebar.panel.evaluate("node => node.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert faults_by_theme(notebook, "#kagura-sidebar") == NO_FAULTS
        assert faults_by_theme(notebook, ".kgs-status") == NO_FAULTS
        sidebar.panel.get_by_role("button", name=re.compile("^Runs")).click()
        assert faults_by_theme(notebook, "#kagura-sidebar") == NO_FAULTS


def test_the_keyboard_reaches_and_answers_everything(told_page, story):
    with story.live() as run:
        first, second = story.ask(run, **COMMAND), story.ask(run, **HOST)
        sidebar = visit(told_page)
        expect(told_page.locator("[data-kgs-count='2']")).to_be_visible()
        told_page.keyboard.press("Control+Alt+j")
        expect(sidebar.approval(first)).to_be_focused()
        told_page.keyboard.press("ArrowDown")
        expect(sidebar.approval(second)).to_be_focused()
        told_page.keyboard.press("Control+Alt+j")
        expect(sidebar.approval(first)).to_be_focused()
        allow = sidebar.approval(first).get_by_role("button", name=re.compile("^Allow once"))
        told_page.keyboard.down("Enter")
        expect(allow).to_be_focused()
        expect(allow).to_be_enabled()
        # A key that is still held presses nothing.
        told_page.keyboard.down("Enter")
        told_page.keyboard.up("Enter")
        expect(allow).to_be_focused()
        assert story.mailbox.decision(first) is None
        told_page.keyboard.press("Tab")
        told_page.keyboard.press("Enter")
        expect(sidebar.approval(first)).to_have_count(0)
        # The focus is not lost with what had it.
        expect(sidebar.approval(second)).to_be_focused()
        assert story.mailbox.decision(first).verdict == "deny"
        told_page.keyboard.press("Control+Alt+k")
        expect(sidebar.panel).to_be_hidden()


def test_the_keyboard_reads_a_long_text_to_its_end_and_a_held_key_begins_no_plan(told_page, story):
    command = "\n".join([f"echo {number}" for number in range(60)])
    with story.live() as run:
        long = story.ask(run, **{**COMMAND, "detail": command, "arguments": {"command": command}})
        plan = story.ask(run, kind="plan", title="Plan: about $0.42", detail="One step.", arguments={"budget_usd": 0.5})
        sidebar = visit(told_page).open()
        allow = sidebar.approval(long).get_by_role("button", name=re.compile("^Allow once"))
        expect(allow).to_be_disabled()
        sidebar.approval(long).focus()
        told_page.keyboard.press("Tab")
        expect(sidebar.approval(long).locator(".kgs-exactly").first).to_be_focused()
        told_page.keyboard.press("End")
        expect(allow).to_be_enabled()
        begin = sidebar.approval(plan).get_by_role("button", name=re.compile("^Begin"))
        begin.scroll_into_view_if_needed()
        expect(begin).to_be_enabled()
        sidebar.approval(plan).focus()
        told_page.keyboard.down("Enter")
        expect(sidebar.approval(plan).get_by_label("Budget, USD")).to_be_focused()
        told_page.keyboard.down("Enter")
        told_page.keyboard.up("Enter")
        expect(begin).to_be_enabled()
        assert story.mailbox.decision(plan) is None


def test_whoever_was_faster_is_named(told_page, story):
    asking = set()

    def over(request):
        asking.discard(request)

    told_page.on("request", lambda request: asking.add(request) if "/v1/approvals?" in request.url else None)
    told_page.on("requestfinished", over)
    told_page.on("requestfailed", over)
    with story.live() as run:
        ident = story.ask(run, **COMMAND)
        sidebar = visit(told_page).open()
        button = sidebar.approval(ident).get_by_role("button", name=re.compile("^Allow once"))
        expect(button).to_be_visible()
        # A page whose lists do not come through still shows the question.
        lists = "**/kagura/api/v1/approvals?*"
        told_page.route(lists, lambda route: route.abort())
        # One that was asked for before that would be answered with what is decided now.
        while asking:
            told_page.wait_for_timeout(10)
        story.mailbox.decide(ident, Verdict.DENY, by="grace", via="command")
        button.click()
        expect(sidebar.panel.locator(".kgs-told")).to_have_text("Somebody was faster. Denied by grace, by command.")
        told_page.unroute(lists)
        expect(sidebar.approval(ident)).to_have_count(0)


def test_a_question_takes_a_text(told_page, story):
    with story.live() as run:
        ident = story.ask(run, kind="question", title="Which one?", detail="Which table?", arguments={}, reason="")
        sidebar = visit(told_page).open()
        approval = sidebar.approval(ident)
        expect(approval).to_contain_text("Which table?")
        expect(approval).to_contain_text("left, then it goes on without an answer")
        approval.get_by_label("Your answer").fill("The second one")
        told_page.keyboard.press("Enter")
        expect(approval).to_have_count(0)
        assert story.mailbox.decision(ident).answer == "The second one"


def test_a_new_question_is_announced_where_its_run_is_not_in_view(told_page, story):
    with story.live(notebook="elsewhere.ipynb") as run:
        sidebar = visit(told_page)
        expect(told_page.locator(".kgs-status-button")).to_contain_text("today")
        expect(told_page.locator(".Toastify__toast")).to_have_count(0)
        ident = story.ask(run, **COMMAND)
        toast = told_page.locator(".Toastify__toast").filter(has_text="A run waits for your answer")
        expect(toast).to_contain_text("Host command")
        toast.get_by_role("button", name="Show").click()
        expect(sidebar.approval(ident)).to_be_visible()
        expect(told_page.locator(".kgs [aria-live='polite']").first).to_be_attached()
        expect(toast).to_have_count(0)


def test_a_question_that_is_in_view_is_not_announced_and_one_that_is_answered_is_taken_back(told_page, story):
    with story.live(notebook="elsewhere.ipynb") as run, story.live() as here:
        visit(told_page)
        expect(told_page.locator(".kgs-status-button")).to_contain_text("today")
        told_page.locator(".jp-Notebook .jp-Cell").first.click()
        story.ask(here, **COMMAND)
        expect(told_page.locator("[data-kgs-count='1']")).to_be_visible()
        ident = story.ask(run, **COMMAND)
        toasts = told_page.locator(".Toastify__toast").filter(has_text="A run waits for your answer")
        expect(told_page.locator("[data-kgs-count='2']")).to_be_visible()
        expect(toasts).to_have_count(1)
        story.mailbox.decide(ident, Verdict.DENY, by="grace", via="command")
        expect(toasts).to_have_count(0)


def test_a_run_leads_to_its_cell_and_says_when_it_is_not_there(told_page, story):
    with story.live("Lead me to my cell", cell_id="cell-22") as run, story.live("Lead me nowhere", cell_id="gone"):
        sidebar = visit(told_page).open()
        sidebar.run("Lead me to my cell").get_by_role("button", name="Go to the cell").click()
        cell = told_page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
        expect(cell).to_contain_text("This is cell 22.")
        expect(cell).to_be_in_viewport()
        sidebar.run("Lead me nowhere").get_by_role("button", name="Go to the cell").click()
        expect(sidebar.panel.locator(".kgs-told")).to_contain_text("The cell is not in sales/analysis.ipynb any more")
        assert run


def test_a_lease_is_taken_back(told_page, story):
    with story.live() as run:
        lease = story.lend(run)
        sidebar = visit(told_page).open()
        with told_page.expect_response(re.compile(f"leases/{lease}/revoke")) as answer:
            sidebar.section("Leases").get_by_role("button", name="Revoke").first.click()
        assert answer.value.status == 202
        # The run of this test holds nothing that could be given back; that it was asked to is all there is to see.
        wait_until(lambda: bool(story.mailbox.take([run.run_id], ("leases",))))


def test_many_runs_scroll_with_few_rows_drawn(told_page, story):
    story.many(MANY)
    sidebar = visit(told_page).open()
    rows = sidebar.panel.locator(".kgs-run")
    expect(rows.first).to_be_visible()
    assert rows.count() < 10
    sidebar.section("Runs").get_by_role("button", name="Show all").click()
    frame = sidebar.panel.locator(".kgs-scroll")
    drawn = 0
    for _ in range(80):
        frame.evaluate("node => { node.scrollTop = node.scrollHeight; }")
        told_page.wait_for_timeout(60)
        drawn = max(drawn, rows.count())
        if sidebar.run("task number 0").count():
            break
    expect(rows.filter(has_text=re.compile(r"task number 0$|task number 0\D"))).to_be_visible()
    assert drawn < 80
    total = MANY + 30
    assert int(sidebar.section("Runs").get_by_role("listitem").first.get_attribute("aria-setsize")) >= total
    # To the other end and back by the keyboard: the row with the focus is always there.
    frame.evaluate("node => { node.scrollTop = 0; }")
    expect(sidebar.section("Runs").get_by_role("listitem").first).to_have_attribute("aria-posinset", "1")
    rows.first.focus()
    told_page.keyboard.press("End")
    expect(rows.filter(has_text=re.compile(r"task number 0$|task number 0\D"))).to_be_focused()
    told_page.keyboard.press("Home")
    expect(rows.first).to_be_focused()


def test_a_search_looks_through_all_of_the_journal(told_page, story):
    with story.live("An unmistakable undertaking"):
        sidebar = visit(told_page).open()
        field = sidebar.panel.get_by_label("Search the runs")
        field.fill("unmistakable")
        expect(sidebar.panel.locator(".kgs-run")).to_have_count(1)
        field.fill("nothing of the kind")
        expect(sidebar.section("Runs")).to_contain_text("No run has these words")
        field.press("Escape")
        expect(sidebar.panel.locator(".kgs-run").nth(3)).to_be_visible()


def test_hostile_text_is_text(told_page, story):
    with story.live(EVIL) as run:
        ident = story.ask(run, title=EVIL, reason=EVIL, detail=EVIL, arguments={"command": EVIL})
        sidebar = visit(told_page).open()
        expect(sidebar.approval(ident)).to_contain_text("⟨U+202E⟩")
        assert sidebar.panel.locator("img").count() == 0
        assert told_page.evaluate("() => window.owned") is None


def test_the_layout_comes_back_after_a_reload(told_page, story):
    assert story
    sidebar = visit(told_page).open()
    heading = sidebar.panel.get_by_role("button", name=re.compile("^Leases"))
    heading.click()
    expect(heading).to_have_attribute("aria-expanded", "false")

    def kept(answer) -> bool:
        # One that was on its way already may be older than the click.
        if "/lab/api/workspaces/" not in answer.url or answer.request.method != "PUT":
            return False
        data = answer.request.post_data_json["data"]
        right = data["layout-restorer:data"]["right"]
        return data.get("kagura-kernel:closed-sections") == ["leases"] and right.get("current") == "kagura-sidebar"

    with told_page.expect_response(kept):
        told_page.locator(".jp-Notebook .jp-Cell").nth(2).click()
    # What the address asks for would say nothing of what was kept.
    told_page.goto(re.sub(r"(/workspaces/[^/?]+).*", r"\1", told_page.url))
    told_page.wait_for_selector(".jp-Notebook .jp-Cell")
    expect(sidebar.panel).to_be_visible()
    expect(heading).to_have_attribute("aria-expanded", "false")


def test_the_settings_move_it_to_the_other_side(told_page, own_page, told, story):
    assert story
    sidebar = visit(told_page).open()
    expect(told_page.locator("#jp-right-stack #kagura-sidebar")).to_be_visible()
    script = """async value => {
      const app = window.jupyterapp;
      await app.serviceManager.settings.save('kagura-kernel:plugin', JSON.stringify(value));
    }"""
    told_page.evaluate(script, {"position": "left"})
    try:
        sidebar = load(own_page, told).open()
        expect(own_page.locator("#jp-left-stack #kagura-sidebar")).to_be_visible()
        own_page.keyboard.press("Control+Alt+k")
        expect(sidebar.panel).to_be_hidden()
    finally:
        told_page.evaluate(script, {})


def test_it_is_found_in_the_palette_the_menu_and_the_launcher(told_page, story):
    assert story
    visit(told_page)
    palette = told_page.locator(".lm-CommandPalette-input")
    found = told_page.locator(".lm-CommandPalette-itemLabel", has_text="Show agent runs")

    def offered() -> bool:
        # A page that still arranges itself takes the focus back, and a palette without it hides and forgets.
        told_page.evaluate("() => window.jupyterapp.commands.execute('apputils:activate-command-palette')")
        try:
            palette.fill("agent runs", timeout=2_000)
            found.wait_for(timeout=2_000)
        except OutOfTime:
            return False
        return True

    wait_until(offered)
    told_page.keyboard.press("Escape")
    told_page.get_by_role("menuitem", name="View").click()
    expect(told_page.locator(".lm-Menu-itemLabel", has_text="Show agent runs")).to_be_visible()
    told_page.keyboard.press("Escape")
    told_page.evaluate("() => void window.jupyterapp.commands.execute('launcher:create')")
    told_page.locator(".jp-LauncherCard", has_text="Agent runs").click()
    expect(told_page.locator("#kagura-sidebar")).to_be_visible()


def test_it_works_in_notebook_7_as_well(own_page, told, story):
    with story.live() as run:
        ident = story.ask(run, **HOST)
        sidebar = load(own_page, told, f"notebooks/{NOTEBOOK}", reset=False)
        own_page.wait_for_selector(".jp-NotebookPanel-toolbar")
        toast = own_page.locator(".Toastify__toast")
        own_page.locator(".jp-Notebook .jp-Cell").first.click()
        sidebar.open()
        if os.environ.get(PICTURES):
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            own_page.screenshot(path=SCREENSHOTS / "sidebar-notebook-7.png")
        sidebar.approval(ident).get_by_role("button", name=re.compile("^Allow for this session")).click()
        expect(sidebar.approval(ident)).to_have_count(0)
        assert story.mailbox.decision(ident).answer == "this session"
        expect(toast).to_have_count(0)
        sidebar.run("Build the report").first.get_by_role("button", name="Go to the cell").click()
        expect(own_page.locator(".jp-Notebook .jp-Cell.jp-mod-active")).to_contain_text("This is cell 4.")
        sidebar.panel.get_by_role("button", name="Settings").click()
        expect(own_page.locator("#kagura-settings #root_recall")).to_be_visible()


def test_without_its_server_side_it_says_so_calmly(own_page, told, story):
    assert story
    own_page.route("**/kagura/api/v1/**", lambda route: route.fulfill(status=404, body=json.dumps({})))
    sidebar = load(own_page, told).open()
    expect(sidebar.panel.locator(".kgs > .kgs-problem")).to_contain_text("server side of kagura-kernel is not running")
