"""The memory in the sidebar of a real JupyterLab: searched, trusted, pinned, forgotten, erased, always up to date."""

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from playwright.sync_api import expect

from kagura_kernel.domain.events.memory import MemoryWritten
from kagura_kernel.domain.memory import (
    CAME_FROM,
    FIXES,
    LESSON,
    OUTCOME,
    PREVENTS,
    Author,
    Draft,
    Edge,
    Query,
    Source,
    Tier,
)
from kagura_kernel.journal import views
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.browser.notebook import THEMES, Notebook
from tests.browser.sidebar import NOTEBOOK, visit
from tests.browser.test_accessibility import faults
from tests.support.sample_run import SampleRun

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

EVIL = "<img src=x onerror='window.owned = true'>\u202e"
AGENT = Source(Author.AGENT, "claude", "run-2026-03-01")
ADA = Source(Author.HUMAN, "ada")
CONTRAST = "JupyterLab Dark High Contrast"
NOTES = (
    ("The staging database answers on port 5433 and not on 5432", AGENT, {"tags": ("database", "staging")}),
    ("Reports go to finance as PDF, never as a notebook", ADA, {"tier": Tier.TRUSTED, "pinned": True}),
    ("Sales of the first quarter were counted twice until somebody found the duplicates in orders.csv", AGENT, {}),
    ("The tests of the importer need the environment variable TZ=UTC", AGENT, {"tier": Tier.TRUSTED}),
    ("We keep the old column names until the dashboard is replaced", ADA, {"type": "decision", "tier": Tier.TRUSTED}),
)
FACTS = (
    {"trigger": "pytest tests/importer: 3 failed, times are off by one hour", "fix": "TZ=UTC pytest tests/importer"},
    {"trigger": "git push: rejected, the remote has commits that you do not have", "fix": ""},
)
_numbers = count(1)


@pytest.fixture
def memory(told):
    """The memory, as another process has it open, with what a team may know after a while."""
    with told.journal() as journal:
        if not views.runs(journal, limit=1):
            run = SampleRun(at=datetime.now(UTC))
            journal.append(run.started())
            journal.append(run.finished())
    with closing(SqliteMemory(told.home / FILE)) as opened:
        for one in [one for one in opened.export() if not isinstance(one, Edge)]:
            opened.erase(one.id)
        now = datetime.now(UTC)
        for number, (text, source, more) in enumerate(NOTES):
            opened.remember(a_draft(text, source=source, at=now - timedelta(hours=7 * number + 1), **more))
        for facts in FACTS:
            tool = {"tool": "bash", "task": "ship it"}
            opened.remember(a_draft(facts["trigger"], type=LESSON, data=facts | tool, at=now - timedelta(days=3)))
        yield opened


@pytest.fixture
def sidebar(told, memory, fresh_told_page):
    assert memory
    found = visit(fresh_told_page).open()
    picture(fresh_told_page, told, "sidebar-memory-beside")
    for heading in ("Runs", "Plugins", "Leases", "Costs"):
        found.panel.get_by_role("button", name=re.compile(f"^{heading}")).click()
    expect(rows(found)).to_have_count(len(NOTES) + len(FACTS))
    return found


def a_draft(text, source=AGENT, **more):
    return Draft(text, source, id=f"mem-{next(_numbers)}", **more)


def section(sidebar):
    return sidebar.section("Memory")


def rows(sidebar):
    return section(sidebar).locator("[data-memory]")


def row(sidebar, text):
    return rows(sidebar).filter(has_text=text)


def search(sidebar, words):
    section(sidebar).get_by_role("searchbox").fill(words)


def picture(page, told, name):
    Notebook(page, told.root / NOTEBOOK).window(name)


def about(memory, text):
    """The one memory that has these words."""
    return next(found.memory for found in memory.recall(Query(text)) if text in found.memory.text)


def test_words_type_and_tier_find_a_memory_and_say_why(sidebar, told, fresh_told_page):
    search(sidebar, "staging port")
    expect(rows(sidebar)).to_have_count(1)
    expect(rows(sidebar)).to_contain_text("The staging database")
    expect(rows(sidebar)).to_contain_text(re.compile("Found by: .*staging"))
    expect(rows(sidebar)).to_contain_text("Quarantine")
    picture(fresh_told_page, told, "sidebar-memory-search")
    search(sidebar, "")
    section(sidebar).get_by_label("Only as far trusted").select_option("trusted")
    expect(rows(sidebar)).to_have_count(3)
    section(sidebar).get_by_label("Only of this type").select_option("decision")
    expect(rows(sidebar)).to_have_count(1)
    expect(rows(sidebar)).to_contain_text("We keep the old column names")
    search(sidebar, "submarine")
    expect(section(sidebar)).to_contain_text("Nothing fits")


def test_a_memory_is_promoted_once_it_is_in_view_and_pinned_from_its_row(sidebar, told, memory):
    text = "The staging database"
    row(sidebar, text).get_by_role("button", name=re.compile("^Promote …: ")).click()
    # What is vouched for is in view first.
    expect(section(sidebar).locator(".kgs-memory-text")).to_contain_text(text)
    promote = section(sidebar).get_by_role("button", name=re.compile("^Promote: "))
    expect(promote).to_be_focused()
    promote.press("Enter")
    expect(row(sidebar, text).get_by_text("Trusted")).to_be_visible()
    row(sidebar, text).get_by_role("button", name=re.compile("^Pin: ")).click()
    expect(row(sidebar, text)).to_contain_text("Pinned")
    expect(section(sidebar).locator("[aria-live]")).to_contain_text("Every run starts with it")
    one = about(memory, text)
    assert (one.tier, one.pinned, bool(one.promoted_by)) == (Tier.TRUSTED, True, True)
    with told.journal() as journal:
        changes = [stored.event for stored in journal.events(kinds=["memory.changed"])]
    ours = [(event.change, event.via) for event in changes if event.memory_id == one.id]
    assert ours == [("promoted", "sidebar"), ("pinned", "sidebar")]


def test_what_another_process_remembers_is_there_without_a_reload(sidebar, told, memory):
    one = memory.remember(a_draft("The importer is faster since Tuesday"))
    expect(rows(sidebar)).to_have_count(len(NOTES) + len(FACTS))
    with told.journal() as journal:
        facts = {"type": one.type, "tier": one.tier, "author": "agent", "how": "asked"}
        run = {"run_id": "run-1", "session_id": "ses-1", "at": datetime.now(UTC)}
        journal.append(MemoryWritten(memory_id=one.id, **facts, **run))
    expect(row(sidebar, "The importer is faster")).to_be_visible()


def test_what_was_forgotten_can_be_brought_back(sidebar, memory):
    text = "Sales of the first quarter"
    one = about(memory, text)
    row(sidebar, text).get_by_role("button", name=re.compile("^Forget: ")).click()
    expect(row(sidebar, text)).to_have_count(0)
    assert memory.reference(one.id).forgotten_at is not None
    section(sidebar).get_by_role("button", name=re.compile("^Undo forgetting: ")).click()
    expect(row(sidebar, text)).to_be_visible()
    assert memory.reference(one.id).forgotten_at is None


def test_erasing_says_what_goes_and_takes_all_that_came_from_it(sidebar, told, memory, fresh_told_page):
    root = about(memory, "The staging database")
    child = memory.remember(
        a_draft("Moved the importer to port 5433, as was remembered", type=OUTCOME, source=Source(Author.ENGINE))
    )
    memory.create_edge(Edge(child.id, root.id, CAME_FROM))
    row(sidebar, "The staging database").click()
    details = section(sidebar).get_by_role("group", name=re.compile("^Memory: "))
    expect(details.get_by_role("list", name="Joined to")).to_contain_text("Moved the importer")
    details.get_by_role("button", name=re.compile("^Erase …")).click()
    question = section(sidebar).get_by_role("alertdialog")
    expect(question).to_contain_text("1 other memory that came from it")
    expect(question).to_contain_text("Moved the importer")
    expect(question).to_be_focused()
    picture(fresh_told_page, told, "sidebar-memory-erasing")
    for name, _ in THEMES:
        Notebook(fresh_told_page, told.root / NOTEBOOK).theme(name)
        assert (name, faults(fresh_told_page, "#kagura-sidebar")) == (name, [])
    fresh_told_page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(details.get_by_role("button", name=re.compile("^Erase …"))).to_be_focused()
    fresh_told_page.keyboard.press("Enter")
    question.get_by_role("button", name=re.compile("^Erase all of it")).click()
    expect(row(sidebar, "The staging database")).to_have_count(0)
    expect(details).to_have_count(0)
    kept = {one.id for one in memory.export() if not isinstance(one, Edge)}
    assert kept.isdisjoint({root.id, child.id})
    with told.journal() as journal:
        last = [stored.event for stored in journal.events(kinds=["memory.changed"])][-1]
    assert (last.change, last.memory_id, last.memories, last.via) == ("erased", root.id, 2, "sidebar")


def test_lessons_say_what_went_wrong_and_what_prevents_it(sidebar, told, memory, fresh_told_page):
    lesson = about(memory, "pytest tests/importer")
    fix = memory.remember(a_draft("TZ=UTC pytest tests/importer", type="fix"))
    memory.create_edge(Edge(fix.id, lesson.id, FIXES))
    memory.create_edge(Edge(lesson.id, about(memory, "The tests of the importer").id, PREVENTS))
    section(sidebar).get_by_role("tab", name="Lessons").click()
    expect(rows(sidebar)).to_have_count(2)
    first = row(sidebar, "times are off by one hour")
    expect(first).to_contain_text("TZ=UTC pytest tests/importer")
    expect(row(sidebar, "git push")).to_contain_text("not known yet")
    first.click()
    details = section(sidebar).get_by_role("group", name=re.compile("^Memory: "))
    expect(details.get_by_role("list", name="Joined to")).to_contain_text("Prevents")
    expect(details.get_by_role("list", name="Joined to")).to_contain_text("Fixed by")
    picture(fresh_told_page, told, "sidebar-memory-lessons")
    for name, _ in THEMES:
        Notebook(fresh_told_page, told.root / NOTEBOOK).theme(name)
        assert (name, faults(fresh_told_page, "#kagura-sidebar")) == (name, [])
    search(sidebar, "git")
    expect(rows(sidebar)).to_have_count(1)


def test_the_keyboard_reaches_everything_and_axe_finds_no_serious_fault(sidebar, told, fresh_told_page):
    notebook = Notebook(fresh_told_page, told.root / NOTEBOOK)
    rows(sidebar).first.focus()
    fresh_told_page.keyboard.press("ArrowDown")
    expect(row(sidebar, "Reports go to finance")).to_be_focused()
    fresh_told_page.keyboard.press("Enter")
    details = section(sidebar).get_by_role("group", name=re.compile("^Memory: "))
    expect(details.locator("pre")).to_have_text("Reports go to finance as PDF, never as a notebook")
    notebook.window("sidebar-memory")
    for name in (*(theme for theme, _ in THEMES), CONTRAST):
        notebook.theme(name)
        assert (name, faults(fresh_told_page, "#kagura-sidebar")) == (name, [])
    details.get_by_role("button", name="Close").focus()
    fresh_told_page.keyboard.press("Escape")
    expect(details).to_have_count(0)
    expect(row(sidebar, "Reports go to finance")).to_be_focused()
    fresh_told_page.keyboard.press("Delete")
    expect(row(sidebar, "Reports go to finance")).to_have_count(0)
    expect(row(sidebar, "Sales of the first quarter")).to_be_focused()
    tab = section(sidebar).get_by_role("tab", name="Memories")
    tab.focus()
    fresh_told_page.keyboard.press("ArrowRight")
    expect(section(sidebar).get_by_role("tab", name="Lessons")).to_be_focused()
    expect(rows(sidebar)).to_have_count(2)


def test_what_a_memory_says_is_shown_as_it_is_and_never_run(sidebar, memory, fresh_told_page):
    number = f"{EVIL} {next(_numbers)}"
    memory.remember(a_draft(number, tags=("evil",), source=Source(Author.AGENT, "<b>claude</b>", "run-1")))
    search(sidebar, "img onerror")
    expect(rows(sidebar)).to_have_count(1)
    expect(rows(sidebar)).to_contain_text("<img src=x onerror='window.owned = true'>⟨U+202E⟩")
    rows(sidebar).click()
    expect(section(sidebar).locator("pre")).to_contain_text("⟨U+202E⟩")
    expect(section(sidebar)).to_contain_text("the agent <b>claude</b>")
    assert fresh_told_page.evaluate("window.owned") is None


def test_a_memory_that_cannot_be_reached_says_why_and_comes_back(sidebar, told, memory, fresh_told_page, tmp_path):
    memory.close()
    names = [name for name in (FILE, f"{FILE}-wal", f"{FILE}-shm") if (told.home / name).exists()]
    for name in names:
        (told.home / name).rename(tmp_path / name)
    (told.home / FILE).write_bytes(b"this is a text and no database" * 100)
    try:
        search(sidebar, "anything")
        expect(section(sidebar).locator(".kgs-problem")).to_contain_text("cannot be reached")
        expect(sidebar.section("Approvals")).to_contain_text("Nothing waits for you")
        picture(fresh_told_page, told, "sidebar-memory-unavailable")
    finally:
        (told.home / FILE).unlink()
        for name in names:
            (tmp_path / name).rename(told.home / name)
    search(sidebar, "finance")
    expect(rows(sidebar)).to_have_count(1)
    expect(section(sidebar).locator(".kgs-problem")).to_have_count(0)


def test_a_long_list_is_drawn_only_where_it_is_seen_and_goes_on_below(sidebar, memory, fresh_told_page):
    now = datetime.now(UTC)
    memory.remember_many(
        a_draft(f"number {number:04}", at=now - timedelta(days=2, minutes=number)) for number in range(700)
    )
    search(sidebar, "")
    section(sidebar).get_by_label("Only of this type").select_option("note")
    expect(row(sidebar, "number 0001")).to_be_attached()
    section(sidebar).get_by_role("button", name="Show all").click()
    assert rows(sidebar).count() < 100
    for _ in range(40):
        if row(sidebar, "number 0699").count():
            break
        sidebar.panel.locator(".kgs-scroll").evaluate("node => { node.scrollTop = node.scrollHeight; }")
        fresh_told_page.wait_for_timeout(100)
    expect(row(sidebar, "number 0699")).to_be_visible()
