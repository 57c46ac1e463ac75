"""Charts: what they say, and that what they draw is Vega-Lite that front ends know."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import altair as alt
import jsonschema
import pytest

from kagura_kernel.cockpit.records import CostReport
from kagura_kernel.domain.errors import RunUnknown, UnknownName
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.rows import EgressRow
from kagura_kernel.journal.spending import BudgetUse, DaySpending, Spending
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.boards import sums_of
from kagura_kernel.jupyter.charts import chart, picture
from kagura_kernel.jupyter.charts.figures import MAX_HOSTS, cost_chart, egress_chart, places
from kagura_kernel.jupyter.charts.picture import MARKDOWN_ROWS, VEGA_LITE_MIME
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.views.boards import costs_blocks
from tests.support.card_page import Page
from tests.support.sample_run import SampleRun

HOSTILE = "<script>alert(1)</script>|`*\u202e"


@cache
def grammar():
    folder = Path(alt.__file__).parent / "vegalite" / "v6" / "schema"
    return jsonschema.Draft7Validator(json.loads((folder / "vega-lite-schema.json").read_text()))


def check(shown):
    """Whether a chart is drawn, described and legible everywhere; its specification."""
    data, metadata = shown.bundle()
    spec = data[VEGA_LITE_MIME]
    grammar().validate(spec)
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert spec["background"] == "transparent"
    assert len(spec["description"]) > 20
    assert "://" not in json.dumps(spec).replace(spec["$schema"], "")
    assert set(data) == {VEGA_LITE_MIME, "text/markdown", "text/plain"}
    assert metadata[VEGA_LITE_MIME]["embed_options"]["renderer"] == "svg"
    return spec


def values(spec):
    """The rows of all its data."""
    return [row for rows in spec["datasets"].values() for row in rows]


def spent(*days, session=None, budget=None):
    given = tuple(DaySpending(date(2026, 1, day), brain, model, Spending(*sums)) for day, brain, model, sums in days)
    return CostReport(Spending(0.25, 3, 1), session or Spending(0.0, 0, 0), budget, given, date(2025, 12, 5))


def connection(host, **fields):
    given = {"port": 443, "allowed": True, "rule": "", "reason": "", "times": 1}
    ids = {"run_id": "run-1", "session_id": "ses-1", "connection_id": "con-1", "at": datetime(2026, 1, 1, tzinfo=UTC)}
    return EgressRow(**ids, host=host, **given | fields)


@pytest.fixture
def cockpit(tmp_path):
    found = fake_cockpit(tmp_path / "home", backend=FakeBackend())
    yield found
    found.close()


@pytest.fixture
def journal(tmp_path, cockpit):
    assert cockpit.records
    found = Journal.open(tmp_path / "home")
    yield found
    found.close()


def test_costs_are_drawn_by_day_brain_and_model_and_days_without_a_run_have_their_place():
    shown = cost_chart(spent((1, "claude", "m-1", (1.5, 2, 0)), (3, "claude", "m-2", (0.5, 1, 0))))
    spec = check(shown)
    assert {(row["day"], row["who"], row["usd"]) for row in values(spec)} == {
        ("2026-01-01", "claude · m-1", 1.5),
        ("2026-01-03", "claude · m-2", 0.5),
    }
    assert '["2026-01-01", "2026-01-02", "2026-01-03"]' in json.dumps(spec)
    assert "unknown" not in repr(shown)
    assert repr(shown).startswith("Cost by day, brain and model: $2.00\n")


def test_an_unknown_price_is_marked_and_is_never_nothing():
    days = (1, "claude", "m-1", (1.5, 3, 2)), (2, "ollama", "", (None, 4, 4))
    shown = cost_chart(spent(*days))
    rows = values(check(shown))
    assert [row["usd"] for row in rows if "usd" in row] == [1.5]
    assert [(row["day"], row["mark"]) for row in rows if "mark" in row] == [
        ("2026-01-01", "? 2"),
        ("2026-01-02", "? 4"),
    ]
    assert "$1.50, 6 runs of unknown price not in it" in repr(shown)
    assert shown.frame.usd.isna().tolist() == [False, True]
    assert shown.frame.unpriced_runs.tolist() == [2, 4]
    assert "$0" not in repr(shown)


def test_where_every_price_is_unknown_the_sum_is_too():
    shown = cost_chart(spent((2, "ollama", "x", (None, 4, 4))))
    check(shown)
    assert repr(shown).startswith("Cost by day, brain and model: unknown\n")


def test_what_costs_nobody_anything_is_a_calm_sentence_and_no_empty_picture():
    shown = cost_chart(spent((1, "", "", (0.0, 5, 0)), (1, "replay", "", (0.0, 2, 0))))
    assert shown.bundle() == ({"text/plain": "No run has cost anything since 2025-12-05."}, {})
    assert list(shown.frame.columns) == ["day", "brain", "model", "usd", "runs", "unpriced_runs"]


def test_connections_are_summed_up_by_host_and_the_refused_ones_marked():
    rows = [
        connection("pypi.org", bytes_in=900, bytes_out=100),
        connection("pypi.org", bytes_in=100, times=3),
        connection("evil.example", port=80, allowed=False, reason="not granted", times=4),
        connection("evil.example", port=80, allowed=False, reason="not granted", times=2),
    ]
    shown = egress_chart(rows, "run-1")
    spec = check(shown)
    assert shown.frame.connections.tolist() == [4, 0]
    assert shown.frame.refused.tolist() == [0, 4]
    assert [row["mark"] for row in values(spec) if "mark" in row] == ["refused ×4"]
    assert "refused ×4" in repr(shown)
    assert "Connections of run-1: 4 made, 4 refused" in spec["description"]


def test_a_refusal_counts_for_each_run_by_itself():
    rows = [connection("a.example", allowed=False, times=4), connection("a.example", allowed=False, times=2)]
    other = [replace(row, run_id="run-2") for row in rows]
    (place,) = places(rows + other)
    assert place.refused == 8


def test_of_very_many_hosts_those_with_few_bytes_are_one_line():
    rows = [connection(f"h{number}.example", bytes_in=number * 1000) for number in range(MAX_HOSTS * 3)]
    shown = egress_chart(rows)
    check(shown)
    assert repr(shown).count("\n") == MAX_HOSTS
    assert f"{2 * MAX_HOSTS + 1} other hosts" in repr(shown)
    assert shown.frame.bytes_in.sum() == sum(row.bytes_in for row in rows)


def test_a_box_that_asked_for_nothing_is_a_calm_sentence():
    assert repr(egress_chart([], "run-1")) == "No box of run-1 has asked for a connection."


def test_what_a_box_chose_can_neither_be_markup_nor_reverse_the_line():
    shown = egress_chart([connection(HOSTILE, allowed=False, reason=HOSTILE)])
    data, _ = shown.bundle()
    assert "\u202e" not in json.dumps(data, ensure_ascii=False)
    line = data["text/markdown"].splitlines()[-1]
    assert "\\<script\\>" in line
    assert line.replace("\\|", "").count("|") == 7


def test_long_tables_say_how_much_they_leave_out():
    rows = [connection(f"h{number}.example", port=number + 1, bytes_in=1) for number in range(MAX_HOSTS)]
    days = [(1 + number % 28, "claude", f"m-{number}", (1.0, 1, 0)) for number in range(MARKDOWN_ROWS + 7)]
    assert "more rows" not in egress_chart(rows).bundle()[0]["text/markdown"]
    assert "… and 7 more rows in `.frame`." in cost_chart(spent(*days)).bundle()[0]["text/markdown"]


def test_a_timeline_tells_who_waited_for_whom(cockpit, journal):
    run = SampleRun()

    def at(second, event):
        return event.model_copy(update={"at": run.at + timedelta(seconds=second)})

    call, done = run.tool()
    told = [run.started(owner=process_owner()), at(1, run.boxed()), at(2, call), at(3, run.asked())]
    for event in [*told, at(6, run.decided()), at(8, done), at(10, run.finished(duration=10.0))]:
        journal.append(event)
    shown = chart(cockpit, "timeline", "run-1")
    spec = check(shown)
    waits = {(row["lane"], row["waits_for"]) for row in values(spec) if row["state"] == "waits"}
    assert waits == {("brain", "bash: wc -l data.csv"), ("commands", "you"), ("you", "you")}
    assert spec["encoding"]["y"]["scale"]["domain"] == ["brain", "commands", "you", "box"]
    assert repr(shown).startswith("run-1: 10 s\nbrain")
    assert repr(chart(cockpit, "timeline", None)) == repr(shown)


def test_an_empty_journal_is_told_calmly_by_every_chart(cockpit):
    assert repr(chart(cockpit, "cost")).startswith("No run has cost anything since ")
    assert repr(chart(cockpit, "timeline")) == "No run yet, so there is no timeline to show."
    assert repr(chart(cockpit, "egress")) == "No box of the latest runs has asked for a connection."


def test_a_chart_or_a_run_that_is_not_there_is_refused(cockpit):
    with pytest.raises(UnknownName):
        chart(cockpit, "costs")
    for name in ("timeline", "egress"):
        with pytest.raises(RunUnknown):
            chart(cockpit, name, "run-nothing")


@pytest.mark.parametrize("paper", ["#ffffff", "#111111"])
def test_every_hue_stands_out_on_light_and_on_dark(paper):
    for hue in {*picture.HUES, picture.BLUE, picture.AMBER, picture.RED, picture.GREEN, picture.GREY}:
        assert contrast(hue, paper) >= 3


def contrast(one, other):
    """The ratio of WCAG."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_cost_panel_tells_today_this_notebook_and_the_budget_in_use():
    report = spent(session=Spending(None, 2, 2), budget=BudgetUse("run-1", 2.0, 0.5))
    sums, budget = sums_of(report)
    assert lines_of(costs_blocks(sums, budget)) == [
        "[costs]",
        "Today (UTC): $0.2500 (3 runs, 1 of unknown price, not in the sum)",
        "This notebook: unknown (2 runs, 2 of unknown price, not in the sum)",
        "Budget in use: $0.5000 of $2.00 by run-1",
    ]
    page = Page(html_of(costs_blocks(sums, budget)))
    assert page.open == []
    assert "25 %, run-1" in page.text
    assert ("aria-label", "25 % of the budget spent") in page.attributes


def test_a_budget_of_which_nothing_is_known_shows_an_empty_bar_and_says_so():
    sums, budget = sums_of(spent(budget=BudgetUse("run-1", 2.0, None)))
    assert "unknown of $2.00" in Page(html_of(costs_blocks(sums, budget))).text
