"""The cards in a real JupyterLab, with the real Claude program behind them, clicked by a real browser."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.support.model_script import calls, says, tool_results

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

LOAD = "%load_ext kagura_kernel"

SALES = "date,region,amount\n" + "".join(
    f"2026-01-{day:02d},{region},{amount}\n"
    for day, region, amount in [(3, "north", 120.5), (4, "south", 88), (4, "north", 61.25), (7, "east", 40)]
)
TOTALS = """\
import csv
from collections import defaultdict

totals = defaultdict(float)
for row in csv.DictReader(open("sales.csv")):
    totals[row["region"]] += float(row["amount"])
for region, total in sorted(totals.items()):
    print(f"{region:<6} {total:9.2f}")
"""
REPORT = """\
# Sales by region

| region | total |
|---|---:|
| east | 40.00 |
| north | 181.75 |
| south | 88.00 |
"""
ANSWER = """\
**North leads** with 181.75, more than twice the south. The report is in `report.md`.

| region | total |
|---|---:|
| north | 181.75 |
| south | 88.00 |
| east | 40.00 |
"""

FINDINGS = """\
Three things about `sales.csv`, none of which I have touched:

1. **One amount is missing.** Row 4 has a region and no amount; a sum that takes it for zero would be too low.
2. The dates have *no day of the week and **no time zone***, so sales late in the evening may count for the day before.
3. `north` is written in two ways, `north` and `North `, with a blank at its end.

| region | rows | amount |
|---|---:|---:|
| north | 21 | 1,204.00 |
| south | 18 | 987.25 |
"""


def cassette(*entries: dict) -> str:
    """The text of a cassette."""
    lines = [{"kagura_cassette": 1, "task": "t"}, *entries, {"done": {"text": "", "turns": 1}}]
    return "\n".join(json.dumps(line) for line in lines)


def call(tool: str, **arguments: object) -> dict:
    """A line of a cassette: one tool call."""
    return {"call": {"name": tool, "arguments": arguments}}


HOST = {"host": True, "reason": "The report should name the Python of this computer, which the box does not show me."}


def test_a_click_on_allow_lets_a_host_command_run(open_notebook, lab):
    lab.model.turns[:] = [
        calls("python", {"code": TOTALS}, first="I’ll add the amounts up **by region** first."),
        calls("bash", {"command": "python3 --version > state.txt && cat state.txt", **HOST}),
        says(ANSWER),
    ]
    notebook = open_notebook(
        LOAD, "%%kagura --budget 0.50\nWhich region leads?", files={"sales.csv": SALES}, folder_name="sales"
    )
    notebook.run(0)
    output = notebook.run(1)
    allow = output.get_by_role("button", name="Allow once")
    expect(allow).to_be_visible()
    assert not (notebook.folder / "state.txt").exists()
    notebook.picture("approval")
    allow.click()
    expect(output.get_by_text("Allowed by")).to_be_visible()
    notebook.wait_done(1)
    assert (notebook.folder / "state.txt").exists()
    expect(output.locator(".kg-pill")).to_have_text("Done")
    expect(output.locator(".kg-host")).to_have_text("host")
    notebook.picture("done")


def test_a_click_on_deny_makes_the_brain_see_a_refusal(open_notebook, lab):
    seen: list[tuple[str, bool]] = []

    def answer(request):
        seen.extend(tool_results(request))
        return says("Then I leave the host alone.")

    lab.model.turns[:] = [calls("bash", {"command": "touch on-the-host", **HOST}), answer]
    notebook = open_notebook(LOAD, "%%kagura\nLeave a mark on the host.")
    notebook.run(0)
    output = notebook.run(1)
    output.get_by_role("button", name="Deny").click()
    notebook.wait_done(1)
    expect(output.get_by_text("Denied by")).to_be_visible()
    expect(output.get_by_text("Then I leave the host alone.")).to_be_visible()
    assert not (notebook.folder / "on-the-host").exists()
    [(text, is_error)] = seen
    assert is_error
    assert "not approved" in text


def test_the_answer_is_shown_while_it_is_being_written(open_notebook, lab):
    lab.model.turns[:] = [says(FINDINGS + "\n\n" + "Everything else looks sound. " * 60 + "The end.", delay=0.05)]
    notebook = open_notebook(
        LOAD, "%%kagura\nWhat is odd about sales.csv? Look, and tell me before you change anything."
    )
    notebook.run(0)
    output = notebook.run(1)
    growing = output.locator(".kg-growing")
    expect(growing).to_contain_text("Three things")
    expect(growing).not_to_contain_text("The end.")
    expect(output.locator(".kg-tick")).to_be_visible()
    notebook.picture("streaming")
    expect(output.locator(".kg-prose")).to_contain_text("The end.")
    notebook.wait_done(1)
    expect(output.locator(".kg-prose strong").first).to_have_text("One amount is missing.")
    expect(output.locator(".kg-growing")).to_have_count(0)


def test_the_interrupt_button_stops_the_run_with_one_calm_line(open_notebook):
    notebook = open_notebook(LOAD, "%%sandbox bash\necho begun; sleep 60; touch too-late", "print('not reached')")
    notebook.run(0)
    output = notebook.run(1)
    expect(output.locator(".kg-out")).to_contain_text("begun")
    notebook.page.evaluate("() => void window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    error = output.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']")
    expect(error).to_have_text(re.compile(r"^run-[0-9a-z]{14} was stopped by .*\.$"))
    expect(output.locator(".kg-end")).to_have_count(0)
    expect(output.locator(".kg-pill")).to_have_text("Stopped")


def test_the_stop_button_of_the_card_stops_the_run(open_notebook):
    notebook = open_notebook(LOAD, "%%sandbox bash\necho begun; sleep 60")
    notebook.run(0)
    output = notebook.run(1)
    expect(output.locator(".kg-out")).to_contain_text("begun")
    output.get_by_role("button", name="Stop").click()
    notebook.wait_done(1)
    expect(output.locator(".kg-pill")).to_have_text("Stopped")


def test_changes_are_applied_by_file_and_the_rest_is_discarded(open_notebook):
    entries = [
        call("write_file", path="report.md", content=REPORT),
        call("edit_file", path="sales.csv", old="2026-01-07,east,40\n", new="2026-01-07,east,41.5\n"),
    ]
    notebook = open_notebook(
        LOAD,
        "%%kagura --replay change.jsonl\nWrite the report and mend the amount.",
        files={"sales.csv": SALES, "change.jsonl": cassette(*entries)},
    )
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    report = output.locator(".kg-file:visible", has_text="report.md")
    expect(report).to_be_visible()
    notebook.picture("changes")
    assert not (notebook.folder / "report.md").exists()
    # The clock that frees the buttons of a kernel that says nothing stands still: what frees them is the answer.
    notebook.page.evaluate(
        "() => { const later = window.later = window.setTimeout;"
        "window.setTimeout = (act, ms, ...more) => ms === 10000 ? 0 : later(act, ms, ...more); }"
    )
    report.get_by_role("button", name="Apply report.md").click()
    expect(report.locator(".kg-chip")).to_have_text("applied")
    expect(output.get_by_role("button", name="Apply sales.csv")).to_be_enabled()
    notebook.page.evaluate("() => { window.setTimeout = window.later; }")
    assert (notebook.folder / "report.md").read_text() == REPORT
    assert (notebook.folder / "sales.csv").read_text() == SALES
    output.get_by_role("button", name="Discard all changes").click()
    expect(output.locator(".kg-file:visible", has_text="sales.csv").locator(".kg-chip")).to_have_text("discarded")
    expect(output.get_by_role("button", name="Apply all changes")).to_have_count(0)
    assert (notebook.folder / "sales.csv").read_text() == SALES


def test_a_file_that_changed_meanwhile_is_left_alone(open_notebook):
    entries = [call("edit_file", path="sales.csv", old="east,40\n", new="east,41.5\n")]
    notebook = open_notebook(
        LOAD,
        "%%kagura --replay change.jsonl\nMend the amount.",
        files={"sales.csv": SALES, "change.jsonl": cassette(*entries)},
    )
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    (notebook.folder / "sales.csv").write_text("mine\n")
    output.get_by_role("button", name="Apply all changes").click()
    expect(output.locator(".kg-file:visible .kg-chip")).to_contain_text("conflict")
    assert (notebook.folder / "sales.csv").read_text() == "mine\n"


def test_a_saved_notebook_reads_without_a_kernel_and_keeps_the_record(open_notebook):
    entries = [{"text": "I look."}, call("bash", command="head -2 sales.csv"), {"text": "The file begins in January."}]
    notebook = open_notebook(
        LOAD,
        "%%kagura --replay look.jsonl\nLook.",
        files={"sales.csv": SALES, "look.jsonl": cassette(*entries)},
        own_kernel=True,
    )
    notebook.run(0)
    notebook.run(1)
    notebook.wait_done(1)
    saved = notebook.save()
    data = saved.cells[1].outputs[0].data
    assert {"text/plain", "text/html", "application/vnd.kagura.run+json"} <= set(data)
    assert data["application/vnd.kagura.run+json"]["status"] == "done"
    assert "run_id" in saved.cells[1].outputs[0].metadata["kagura"]
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.load_anew()
    output = notebook.output(1)
    expect(output.locator(".kg-prose").last).to_have_text("The file begins in January.")
    expect(output.get_by_text("Error displaying widget")).to_have_count(0)


def test_an_approval_can_be_answered_with_the_keyboard_alone(open_notebook):
    notebook = open_notebook(
        LOAD,
        "%%kagura --replay ask.jsonl\nLeave a mark.",
        files={"ask.jsonl": cassette(call("bash", command="touch by-keyboard", **HOST))},
    )
    notebook.run(0)
    output = notebook.run(1)
    allow = output.get_by_role("button", name="Allow once")
    allow.focus()
    expect(allow).to_be_enabled()
    notebook.page.keyboard.press("Enter")
    expect(output.get_by_text("Allowed by")).to_be_visible()
    notebook.wait_done(1)
    assert (notebook.folder / "by-keyboard").exists()


def test_a_question_is_answered_in_its_field(open_notebook):
    notebook = open_notebook(
        LOAD,
        "%%kagura --replay ask.jsonl\nAsk me.",
        files={"ask.jsonl": cassette(call("ask_user", question="Which currency are the amounts in?"))},
    )
    notebook.run(0)
    output = notebook.run(1)
    field = output.get_by_label("Your answer")
    field.fill("Swiss francs")
    notebook.picture("question")
    field.press("Enter")
    notebook.wait_done(1)
    expect(output.locator(".kg-verdict")).to_contain_text("Swiss francs")


def test_a_run_in_the_background_leaves_the_notebook_free(open_notebook):
    notebook = open_notebook(
        LOAD,
        "%%sandbox bash --bg\necho begun; sleep 2; echo ended",
        "1 + 1",
        "%kagura status",
        "outcome = await _2",
    )
    notebook.run(0)
    first = notebook.run(1)
    notebook.wait_done(1)
    notebook.run(2)
    notebook.wait_done(2)
    expect(notebook.output(2)).to_contain_text("2")
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("running")
    notebook.run(4)
    notebook.wait_done(4)
    expect(first.locator(".kg-out")).to_contain_text("ended")
