"""The notebook that people open first: as they see it, and as they run it."""

from __future__ import annotations

import platform
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"
CELLS = nbformat.read(QUICKSTART, as_version=4).cells
CODE = [index for index, cell in enumerate(CELLS) if cell.cell_type == "code"]
RUN = next(index for index in CODE if CELLS[index].source.startswith("%%kagura"))


def test_the_quickstart_reads_before_anything_is_trusted_or_run(open_file):
    notebook = open_file(QUICKSTART)
    output = notebook.output(RUN)
    # What is not trusted loses its style sheet; the words and their order have to do.
    expect(output.locator("style")).to_have_count(0)
    expect(output.get_by_text("The south did better")).to_be_visible()
    expect(output.get_by_text("Denied by policy: nobody is here who could be asked")).to_be_visible()
    expect(output.locator("details").first).to_be_visible()
    notebook.picture("quickstart-untrusted", cell=RUN)


def test_the_quickstart_runs_with_a_person_at_it(open_file):
    notebook = open_file(QUICKSTART)
    for index in CODE:
        output = notebook.run(index)
        if index == RUN:
            allow = output.get_by_role("button", name="Allow once")
            # It takes a click once the end of what is asked has been on screen.
            allow.scroll_into_view_if_needed()
            allow.click()
        notebook.wait_done(index)
        expect(output.locator("[data-mime-type='application/vnd.jupyter.stderr']")).to_have_count(0)
    output = notebook.output(RUN)
    expect(output.get_by_text("Allowed by")).to_be_visible()
    # The copy that was opened is no repository and lies anywhere: what is asked of the host has an answer there, too.
    told = output.locator(".kg-call", has=notebook.page.locator(".kg-host")).locator(".kg-out")
    expect(told).to_be_visible()
    expect(told).to_have_text(platform.node())
    expect(output.get_by_role("button", name="Apply all changes")).to_be_visible()
    notebook.picture("quickstart-run", cell=RUN)
    output.get_by_role("button", name="Apply all changes").click()
    expect(output.get_by_text("1 applied")).to_be_visible()
    assert (notebook.folder / "quickstart" / "report.md").read_text().startswith("# Sales, first quarter of 2026")
