"""A notebook of the kagura kernel: prompts, Python, IPython's lines and commands in one notebook."""

import platform
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import TimeoutError as OutOfTime, expect

from kagura_kernel.testing.patience import wait_until
from tests.support.model_script import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

SALES = "region,amount\nnorth,120.5\nsouth,88\nnorth,61.25\neast,40\n"
SUM = """\
awk -F, 'NR > 1 { sum[$1] += $2 } END { for (region in sum) print region, sum[region] }' sales.csv | sort\
"""
ANSWER = "**North leads** with 181.75, more than twice the south."

CELLS = (
    "!head -2 sales.csv",
    "Which region leads?",
    "%%py\nimport pandas as pd\npd.read_csv('sales.csv').groupby('region').sum()",
    "/cost",
)


def test_prompts_python_and_commands_stand_in_one_notebook(open_notebook, lab):
    lab.model.turns[:] = [calls("bash", {"command": SUM}, first="I add the amounts up by region."), says(ANSWER)]
    notebook = open_notebook(*CELLS, files={"sales.csv": SALES}, kernel="kagura", folder_name="regions")
    outputs = [notebook.done(index) for index in range(len(CELLS))]
    expect(outputs[0]).to_contain_text("north,120.5")
    expect(outputs[1].locator(".kg-prose").last).to_contain_text("North leads with 181.75")
    expect(outputs[1].locator(".kg-pill")).to_have_text("Done")
    expect(outputs[2].locator("table.dataframe")).to_contain_text("181.75")
    expect(outputs[3]).to_contain_text("Today (UTC)")
    notebook.picture("kernel")


OFFERED = (
    ("/app", "approve"),
    ("What is in @sal", "sales.csv"),
    ("%%kagura --bud", "--budget"),
    ("/attach ru", "run-"),
)
"""What is typed, and what the key then puts there or lists."""


def test_the_tab_key_offers_what_can_stand_there(open_notebook, lab):
    lab.model.turns[:] = [says("Nothing.")]
    notebook = open_notebook("Say nothing.", *[""] * len(OFFERED), files={"sales.csv": SALES}, kernel="kagura")
    notebook.done(0)
    for index, (typed, offered) in enumerate(OFFERED, 1):
        notebook.cell(index).locator(".cm-content").click()
        notebook.page.keyboard.type(typed)
        wait_until(lambda offered=offered: _shown(notebook, offered))
        notebook.page.keyboard.press("Escape")


def _shown(notebook, offered):
    """Whether it is put in, as the only one that fits is, or listed with others, after the key was pressed (again).

    What a kernel says late is not shown any more.
    """
    notebook.page.keyboard.press("Tab")
    places = notebook.page.locator(".jp-Completer-item, .jp-mod-active .cm-content")
    try:
        places.filter(has_text=offered).first.wait_for(timeout=1_000)
    except OutOfTime:
        return False
    return True


def test_an_interrupt_stops_a_prompt_with_one_calm_line_and_the_next_cell_runs(open_notebook):
    notebook = open_notebook("%%sandbox bash\necho begun; sleep 600", "1 + 1", "%%py\n6 * 7", kernel="kagura")
    notebook.run(0, on=True)
    expect(notebook.output(0).locator(".kg-out")).to_contain_text("begun")
    notebook.interrupt()
    expect(notebook.error(0)).to_contain_text("was stopped by")
    expect(notebook.prompt(1)).to_have_text("[ ]:")
    expect(notebook.done(2)).to_contain_text("42")


QUICKSTART = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"
CELLS_OF_QUICKSTART = nbformat.read(QUICKSTART, as_version=4).cells
CODE = [index for index, cell in enumerate(CELLS_OF_QUICKSTART) if cell.cell_type == "code"]
RUN = next(index for index in CODE if CELLS_OF_QUICKSTART[index].source.startswith("%%kagura"))


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
