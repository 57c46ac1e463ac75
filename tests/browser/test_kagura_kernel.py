"""A notebook of the kagura kernel: prompts, Python, IPython's lines and commands in one notebook."""

from __future__ import annotations

import pytest
from playwright.sync_api import TimeoutError as OutOfTime
from playwright.sync_api import expect

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
