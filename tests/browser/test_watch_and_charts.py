"""The board of runs, attached cards and charts in a real JupyterLab, light and dark, and what is saved of them."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from kagura_kernel.jupyter.charts.picture import VEGA_LITE_MIME

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

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
