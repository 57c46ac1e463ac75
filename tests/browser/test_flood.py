"""A box that talks as fast as it can: the tab goes on, and nothing is lost on the way to the journal."""

import pytest
from playwright.sync_api import expect

from kagura_kernel.domain.events import ToolFinished
from kagura_kernel.journal import views
from tests.browser.flood import FLOOD, LINES, watched
from tests.browser.interrupts import LOAD

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]


def kept(lab):
    """All that the journal keeps of what the latest run's program printed."""
    with lab.journal() as journal:
        [run] = views.runs(journal, limit=1)
        [end] = [row.event for row in journal.events(run_id=run.run_id) if isinstance(row.event, ToolFinished)]
    if end.spill is None:
        return end.text.splitlines()
    return (lab.home / "outputs" / run.run_id / end.spill).read_text().splitlines()


def test_five_thousand_lines_a_second_lose_nothing_and_leave_the_page_to_the_person(open_notebook, lab):
    notebook = open_notebook(LOAD, f"%%sandbox python\n{FLOOD}")
    notebook.done(0)
    with watched(notebook.page) as stalls:
        output = notebook.run(1)
        expect(output.locator(".kg-out")).to_contain_text("event")
        # A person goes on with something else meanwhile, and is heard.
        notebook.write(0, "typed = 'while it rains'")
        expect(notebook.cell(0).locator(".cm-content")).to_contain_text("while it rains")
        assert notebook.prompt(1).inner_text() == "[*]:"
        notebook.wait_done(1)
    assert stalls.longest > 0
    assert kept(lab) == [*LINES, "the last word"]
    expect(output.locator(".kg-pill")).to_have_text("Done")
    expect(output.locator(".kg-out")).to_contain_text("the last word")
    expect(output.locator(".kg-live")).to_have_count(0)
