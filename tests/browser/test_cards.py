"""The cards in a real JupyterLab, with the real Claude program behind them, clicked by a real browser."""

import json
import re

import pytest
from playwright.sync_api import expect

from kagura_kernel.jupyter.charts.picture import VEGA_LITE_MIME
from tests.support.model_script import Refusal, calls, says, tool_results

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
    lines = [{"kagura_cassette": 1, "task": "t"}, *entries, {"done": {"text": "", "turns": 1}}]
    return "\n".join(json.dumps(line) for line in lines)


def call(tool: str, **arguments: object) -> dict:
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


def test_a_card_whose_output_is_cleared_comes_back_with_its_question_and_stays_once(open_notebook, lab):
    lab.model.turns[:] = [calls("bash", {"command": "touch on-the-host", **HOST}), says("Then I leave the host alone.")]
    notebook = open_notebook(LOAD, "%%kagura\nLeave a mark on the host.")
    notebook.run(0)
    output = notebook.run(1)
    deny = output.get_by_role("button", name="Deny")
    expect(deny).to_be_visible()
    notebook.clear()
    expect(deny).to_have_count(0)
    deny.click()
    notebook.wait_done(1)
    expect(output.get_by_text("Denied by")).to_be_visible()
    expect(output.locator(".kg-card")).to_have_count(1)


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


def test_a_card_says_what_is_waited_for(open_notebook, lab):
    lab.model.turns[:] = [Refusal(529), Refusal(529), says("There are two.")]
    notebook = open_notebook(LOAD, "%%kagura\nCount the sheets.")
    notebook.done(0)
    output = notebook.run(1)
    expect(output).to_contain_text("Waiting for the model")
    expect(output).to_contain_text(re.compile(r"overloaded; attempt 2 of \d, next in"))
    notebook.picture("sign")
    expect(output).to_contain_text("There are two.")
    expect(output).not_to_contain_text("overloaded")


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
    report.get_by_role("button", name="Undo report.md").click()
    expect(report.locator(".kg-chip")).to_have_count(0)
    assert not (notebook.folder / "report.md").exists()
    report.get_by_role("button", name="Apply report.md").click()
    expect(report.locator(".kg-chip")).to_have_text("applied")
    output.get_by_role("button", name="Discard all changes").click()
    expect(output.locator(".kg-file:visible", has_text="sales.csv").locator(".kg-chip")).to_have_text("discarded")
    expect(output.get_by_role("button", name="Apply all changes")).to_have_count(0)
    assert (notebook.folder / "sales.csv").read_text() == SALES
    # What was saved since is nobody's to take back.
    (notebook.folder / "report.md").write_text("mine\n")
    output.get_by_role("button", name="Undo all changes").click()
    expect(output.locator(".kg-told:visible")).to_contain_text("report.md cannot be taken back: it has changed since")
    assert (notebook.folder / "report.md").read_text() == "mine\n"


def test_a_restarted_kernel_leaves_the_command_that_applies_what_was_proposed(open_notebook):
    notebook = open_notebook(LOAD, "%%sandbox bash\necho made > made.txt", "%kagura status", own_kernel=True)
    notebook.done(0)
    output = notebook.done(1)
    command = output.get_by_text("To apply: ")
    expect(output.get_by_role("button", name="Apply")).to_be_enabled()
    expect(command).to_be_hidden()
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(command).to_be_visible()
    expect(output.get_by_role("button", name="Apply")).to_be_disabled()
    notebook.done(0)
    notebook.tell(2, command.locator("code").first.inner_text())
    assert (notebook.folder / "made.txt").read_text() == "made\n"


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


# Runs of a week, as the journal of this kernel has them.
STORY = """\
%load_ext kagura_kernel
import random
import uuid
from datetime import UTC, datetime, timedelta
from kagura_kernel.assembly import get_cockpit
from kagura_kernel.journal.owner import process_owner
from tests.support.sample_run import SampleRun
journal = get_cockpit().journal
now = datetime.now(UTC)
# The journal is that of all notebooks of this server.
mark = uuid.uuid4().hex[:6]
chance = random.Random(7)
for day in range(9):
    for number, (brain, model, usd) in enumerate(
        (("claude", "opus", 0.9), ("claude", "haiku", 0.2), ("ollama", "qwen", None), ("claude", "opus", 0.7))
    ):
        run = SampleRun(f"run-{mark}-{day}-{number}", "ses-old", now - timedelta(days=day, hours=1))
        cost = None if usd is None else usd * chance.uniform(0.4, 2)
        if (day + number) % 3:
            journal.append(run.started(brain=brain, model=model, owner=process_owner()))
            journal.append(run.finished(brain=brain, model=model, reported_usd=cost))
run = SampleRun(f"run-told-{mark}", "ses-told", now - timedelta(seconds=40))
def at(second, event):
    return event.model_copy(update={"at": run.at + timedelta(seconds=second)})
(one, one_done), (two, two_done), (three, three_done) = run.tool(1), run.tool(2), run.tool(3)
hosts = [event for number, host in enumerate(("pypi.org", "files.example.org", "api.example.net"))
         for event in run.reached(host, number, bytes_in=40_000 * 7 ** number, bytes_out=9_000 * (3 - number))]
for second, event in ((0, run.started(owner=process_owner(), notebook="sales.ipynb")), (0.9, run.boxed()), (4, one),
                      (5, hosts[0]), (9, hosts[1]), (10, one_done), (12, two), (12.5, run.asked(call_id="call-2")),
                      (22, run.decided()), (24, two_done), (25, three), (25.5, run.lease()), (26, hosts[2]),
                      (28, hosts[3]), (27, hosts[4]), (31, hosts[5]), (29, run.refused("evil.example", times=4)),
                      (30, run.refused("tracker.example", 80)), (33, three_done.model_copy(update={"exit_code": 1})),
                      (34, run.lease("released")), (38, run.finished(duration=38.0))):
    journal.append(at(second, event))
"""
LIVE = """\
live = SampleRun(f"run-live-{mark}", "ses-live", now - timedelta(seconds=75))
journal.append(live.started(owner=process_owner(), task="Build the wheel and read the issues", notebook="build.ipynb"))
journal.append(live.asked(f"app-live-{mark}"))
waiting = SampleRun(f"run-ask-{mark}", "ses-ask", now - timedelta(seconds=12))
journal.append(waiting.started(owner=process_owner(), task="Say which table is meant", brain="replay"))
"""


CHARTS = ("cost", "timeline {run.run_id}", "egress {run.run_id}")


def test_charts_are_drawn_in_light_and_dark_follow_the_theme_and_are_saved_whole(open_notebook):
    notebook = open_notebook(STORY, *(f"%kagura chart {name}" for name in CHARTS), "%kagura cost")
    notebook.done(0)
    cells = dict(enumerate(CHARTS, 1))
    pictures = {index: notebook.done(index).locator("svg.marks, .vega-embed svg") for index in cells}
    titles = {index: picture.locator(".mark-text.role-title-text text") for index, picture in pictures.items()}
    for index in cells:
        expect(pictures[index]).to_be_visible()
        expect(titles[index]).to_be_visible()
    colours = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        colours.append({i: title.evaluate("text => getComputedStyle(text).fill") for i, title in titles.items()})
        for picture in pictures.values():
            assert picture.evaluate("svg => getComputedStyle(svg).backgroundColor") == "rgba(0, 0, 0, 0)"
    for index, name in cells.items():
        # Drawn once, its text is legible in either theme.
        assert colours[0][index] != colours[1][index]
        assert pictures[index].evaluate(
            "svg => svg.getAttribute('aria-label') || svg.closest('[aria-label]').getAttribute('aria-label')"
        )
        notebook.picture(f"chart-{name.split()[0]}", cell=index)
    # The panel of costs has a chart of its own.
    output = notebook.done(len(CHARTS) + 1)
    expect(output.get_by_role("region", name="Costs")).to_contain_text("Today (UTC)")
    expect(output.locator(".vega-embed svg")).to_be_visible()
    notebook.picture("costs", cell=len(CHARTS) + 1)
    saved = notebook.save()
    for index in cells:
        (kept,) = saved.cells[index].outputs
        # JupyterLab keeps a picture beside it.
        assert set(kept.data) >= {VEGA_LITE_MIME, "text/markdown", "text/plain"}
        assert "| --- |" in kept.data["text/markdown"] or "|---|" in kept.data["text/markdown"]


def test_the_board_of_runs_is_answered_and_ends_as_static_text(open_notebook):
    verdict = "[row.verdict for row in get_cockpit().approvals(100) if row.run_id == live.run_id]"
    end = "for one in (live, waiting): journal.append(one.finished())"
    notebook = open_notebook(STORY + LIVE, "%kagura watch", verdict, end)
    notebook.run(0)
    notebook.wait_done(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    board = output.get_by_role("region", name="Runs")
    expect(board).to_contain_text("2 runs going on, 1 waiting for you")
    expect(board.get_by_role("button", name="Allow once")).to_be_visible()
    notebook.picture("watch", cell=1)
    board.get_by_role("button", name="Deny").click()
    expect(board).to_contain_text("2 runs going on")
    expect(board.get_by_role("button", name="Deny")).to_have_count(0)
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("['deny']")
    notebook.run(3)
    # Nothing goes on any more: what is left is no widget.
    expect(output).to_contain_text("none goes on")
    expect(output.locator(".kg-live")).to_have_count(0)


def test_an_attached_run_goes_on_below_its_cell_and_again_after_a_reload(open_notebook):
    begin = "%load_ext kagura_kernel"
    job = "%%sandbox bash --bg\nfor i in 1 2 3; do echo line $i; done; until [ -e stop ]; do sleep 0.1; done; echo over"
    notebook = open_notebook(begin, job, "%kagura attach last", "%kagura kill last")
    for index in (0, 1):
        notebook.run(index)
        notebook.wait_done(index)
    output = notebook.run(2)
    notebook.wait_done(2)
    card = output.get_by_role("region", name="Sandbox run")
    expect(card).to_contain_text("line 3")
    expect(card.get_by_role("button", name="Stop")).to_be_visible()
    notebook.save()
    notebook.reload()
    again = notebook.run(2)
    expect(again.get_by_role("region", name="Sandbox run")).to_contain_text("line 3")
    again.get_by_role("button", name="Stop").click()
    expect(again).to_contain_text("Stopped")
    expect(again.get_by_role("button", name="Stop")).to_have_count(0)
    saved = json.dumps(notebook.save().cells[2].outputs)
    assert "line 3" in saved
    assert "application/vnd.kagura.run+json" in saved
