"""Charts: what they say, and that what they draw is Vega-Lite that front ends know."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import altair as alt
import jsonschema
import pytest

from kagura_kernel.cockpit.records import CostReport, Records
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import RunUnknown, UnknownName
from kagura_kernel.domain.events import PluginAudited, TextStreamed
from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, PluginAudit, PluginFinding, Risk, Severity
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.rows import EgressRow
from kagura_kernel.journal.spending import BudgetUse, DaySpending, Spending
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter import boards
from kagura_kernel.jupyter.boards import _run_line, sums_of
from kagura_kernel.jupyter.charts import chart, picture, timeline
from kagura_kernel.jupyter.charts.figures import MAX_HOSTS, cost_chart, egress_chart, places
from kagura_kernel.jupyter.charts.picture import MARKDOWN_ROWS, VEGA_LITE_MIME
from kagura_kernel.jupyter.charts.timeline import BRAIN, YOU, Bar, bars
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.boards import costs_blocks
from kagura_kernel.views.card import run_text
from kagura_kernel.views.head import head_blocks
from kagura_kernel.views.parts import Note, Passage, audit_notes
from kagura_kernel.views.record import run_record
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label, status_of
from tests.support.card_page import Page
from tests.support.sample_run import SampleRun

HOSTILE = "<script>alert(1)</script>|`*\u202e"


@cache
def grammar():
    (schema,) = Path(alt.__file__).parent.glob("vegalite/v*/schema/vega-lite-schema.json")
    return jsonschema.Draft7Validator(json.loads(schema.read_text()))


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


def test_the_costs_of_a_notebook_are_those_of_all_its_sessions(tmp_path, monkeypatch):
    journal = Journal.open(tmp_path, clock=SystemClock())
    for number in (1, 2):
        run = SampleRun(f"run-{number}", f"ses-{number}")
        journal.append(run.started(notebook="n.ipynb"))
        journal.append(run.finished(computed_usd=1.0))
    shown = []
    monkeypatch.setattr(boards, "place_of", lambda _: CellPlace("n.ipynb"))
    monkeypatch.setattr(boards, "write_once", lambda bundle: shown.append(bundle[0]))
    boards.show_costs(SimpleNamespace(records=Records(journal, SystemClock()), session_id="ses-2"))
    journal.close()
    assert "This notebook: $2.00 (2 runs)" in shown[0]["text/plain"]


def test_a_budget_of_which_nothing_is_known_shows_an_empty_bar_and_says_so():
    sums, budget = sums_of(spent(budget=BudgetUse("run-1", 2.0, None)))
    assert "unknown of $2.00" in Page(html_of(costs_blocks(sums, budget))).text


RUN = SampleRun(at=datetime(2026, 1, 1, tzinfo=UTC))


def at(second, event):
    return event.model_copy(update={"at": RUN.at + timedelta(seconds=second)})


def drawn(*events, now=10.0):
    return bars(events, RUN.at + timedelta(seconds=now))


def of(lane, found):
    return [(bar.start, bar.end, bar.state, bar.waits_for) for bar in found if bar.lane == lane]


def test_the_brain_thinks_while_no_call_is_open_and_waits_for_those_that_are():
    (one, one_done), (two, two_done) = RUN.tool(1), RUN.tool(2)
    found = drawn(
        at(0, RUN.started()),
        at(1, RUN.boxed()),
        at(2, one),
        at(3, two),
        at(4, one_done),
        at(6, two_done),
        at(9, RUN.finished()),
    )
    call = "bash: wc -l data.csv"
    assert of("brain", found) == [
        (1.0, 2.0, "works", ""),
        (2.0, 3.0, "waits", call),
        (3.0, 4.0, "waits", f"{call}, {call}"),
        (4.0, 6.0, "waits", call),
        (6.0, 9.0, "works", ""),
    ]
    assert of("commands", found) == [(2.0, 4.0, "works", ""), (3.0, 6.0, "works", "")]
    assert of("box", found) == [(0.0, 1.0, "works", "")]


def test_a_call_that_waits_for_a_person_is_told_apart():
    call, done = RUN.tool()
    found = drawn(
        RUN.started(), at(1, call), at(2, RUN.asked()), at(5, RUN.decided()), at(6, done), at(7, RUN.finished())
    )
    assert of("commands", found) == [(1.0, 2.0, "works", ""), (2.0, 5.0, "waits", "you"), (5.0, 6.0, "works", "")]
    assert of("you", found) == [(2.0, 5.0, "waits", "you")]


def test_a_no_is_told_apart_and_a_failure_too():
    call, done = RUN.tool()
    failed = done.model_copy(update={"exit_code": 1})
    found = drawn(RUN.started(), at(1, RUN.asked(call_id="")), at(2, RUN.decided(verdict="deny")), call, at(3, failed))
    assert of("you", found) == [(1.0, 2.0, "refused", "you")]
    assert [state for _, _, state, _ in of("commands", found)] == ["failed"]


def test_what_goes_on_is_drawn_up_to_now():
    call, _ = RUN.tool()
    found = drawn(RUN.started(), at(1, call), at(3, RUN.asked()), now=8)
    assert of("tools", found) == [(1.0, 3.0, "works", ""), (3.0, 8.0, "waits", "you")]
    assert of("you", found) == [(3.0, 8.0, "waits", "you")]


def test_connections_refusals_and_what_a_host_waited_for():
    opened, closed = RUN.reached()
    found = drawn(
        RUN.started(),
        at(1, RUN.egress_asked("pypi.org")),
        at(3, RUN.decided("app-net-1")),
        at(3, opened),
        at(4, closed),
        at(5, RUN.refused()),
        at(6, RUN.finished()),
    )
    assert of("network", found) == [(1.0, 3.0, "waits", "you"), (3.0, 4.0, "works", ""), (5.0, 5.0, "refused", "")]


def test_a_lease_is_one_bar_but_for_the_time_in_which_it_was_held_up():
    found = drawn(
        RUN.started(),
        at(1, RUN.lease()),
        at(3, RUN.lease("held up")),
        at(4, RUN.lease("on hold")),
        at(6, RUN.lease("extended")),
        at(8, RUN.lease("released")),
    )
    assert of("credentials", found) == [(1.0, 3.0, "works", ""), (3.0, 6.0, "waits", "you"), (6.0, 8.0, "works", "")]


def test_a_cells_own_program_has_a_lane_and_no_brain():
    call, done = RUN.tool()
    found = drawn(RUN.started(flavour="sandbox", brain=""), at(1, call), at(4, done), at(5, RUN.finished()))
    assert of("program", found) == [(1.0, 4.0, "works", "")]
    assert of("brain", found) == []


def test_of_very_many_connections_those_close_together_are_one_bar(monkeypatch):
    monkeypatch.setattr(timeline, "MAX_BARS", 40)
    events = [RUN.started()]
    for number in range(500):
        opened, closed = RUN.reached(number=number)
        events += [at(number / 10, opened), at(number / 10 + 0.05, closed)]
    found = [bar for bar in drawn(*events, at(60, RUN.finished())) if bar.lane == "network"]
    assert 2 <= len(found) <= 40
    assert sum(int(bar.what.split()[0]) for bar in found) == 500
    assert found[-1].end == 49.95


def test_nothing_is_drawn_of_a_run_without_a_beginning():
    assert drawn(RUN.finished()) == []


def test_overlapping_bars_of_a_lane_have_rows_of_their_own():
    from kagura_kernel.jupyter.charts.timeline import MAX_ROWS, in_rows

    together = [Bar("tools", str(number), 0.0, 10.0 - number) for number in range(MAX_ROWS + 2)]
    after = Bar("tools", "after", 10.0, 11.0)
    rows = [name for name, _ in in_rows([*together, after])]
    assert rows[:3] == ["tools", "tools 2", "tools 3"]
    assert len(set(rows)) == MAX_ROWS
    assert rows[-1] == "tools"


SAMPLE = SampleRun()
AUDIT = PluginAudit(
    plugin="greeter",
    version="1.2.0",
    content_hash="ab" * 32,
    risk=Risk.MEDIUM,
    verdict=AuditVerdict.REVIEW,
    summary="It greets.",
    findings=(
        PluginFinding(Severity.WARNING, "environment", "Reads <b>the</b> environment", "plugin.py", 3, "import os"),
    ),
    canaries=CanaryStatus.OK,
    description_accurate=True,
    auditor="claude m",
)


def begun(**changes: object):
    return SAMPLE.started(task="Audit the plugin greeter 1.2.0", flavour="audit", write_mode="none", **changes)


def audited(audit: PluginAudit = AUDIT) -> PluginAudited:
    return PluginAudited(run_id="run-1", session_id="ses-1", at=SAMPLE.at, audit=audit)


def whole(**changes: object) -> RunView:
    answer = '{"riskLevel": "MEDIUM"}'
    streamed = TextStreamed(run_id="run-1", session_id="ses-1", at=SAMPLE.at, text=answer)
    return RunView().apply_all(
        [begun(**changes), streamed, SAMPLE.said(answer), audited(), SAMPLE.finished(text="It greets.")]
    )


def test_what_the_auditor_writes_is_not_shown_and_its_report_is():
    view = whole()
    assert view.audit == AUDIT
    assert [type(item) for item in view.items] == [Note, Note, Passage]
    text = run_text(view)
    assert text.startswith("[plugin audit by claude: done]")
    assert "riskLevel" not in text
    assert "greeter 1.2.0: Medium risk (claude m, planted instructions reported): 1 warning" in text
    assert "Warning: Reads <b>the</b> environment (plugin.py:3)" in text
    assert "It greets." in text


def test_an_audit_that_goes_on_waits_for_no_box():
    view = RunView().apply_all([begun()])
    assert status_of(view) == "running"
    assert run_label(view) == "Plugin audit"
    assert "claude" in html_of(head_blocks(view, live=True))
    assert "Box" not in html_of(head_blocks(view, live=True))


def test_without_a_brain_none_is_named():
    view = whole(brain="")
    assert "Plugin audit" in html_of(head_blocks(view, live=False))
    assert run_text(view).startswith("[plugin audit: done]")
    assert view.repeatable
    assert not whole().repeatable
    assert whole(brain="replay").repeatable


def test_the_record_holds_the_report_and_nothing_that_differs_from_time_to_time():
    record = run_record(whole())
    assert record["flavour"] == "audit"
    assert record["audit"]["risk"] == "MEDIUM"
    assert record["audit"]["findings"][0]["line"] == 3
    assert AUDIT.content_hash not in str(record)


def test_very_many_findings_are_counted_and_dangers_are_grave():
    many = tuple(PluginFinding(Severity.DANGER, "x", f"finding {number}") for number in range(50))
    lines = audit_notes(PluginAudit("p", "1.0.0", "", Risk.HIGH, AuditVerdict.REJECT, "s", many, remark="Odd."))
    assert lines[0][1]
    assert lines[1] == ("Odd.", False)
    assert lines[-1] == ("30 more findings", False)
    assert len(lines) == 23


def test_the_board_and_the_list_of_runs_know_it(tmp_path):
    journal = Journal.open(tmp_path, clock=SystemClock())
    journal.append(begun(model="m"))
    other = SampleRun("run-2", "ses-1")
    journal.append(other.started(flavour="audit", brain=""))
    board = Records(journal, SystemClock()).board(ended=5, here=["run-1", "run-2"])
    names = {row.run_id: _run_line(row, board).name for row in (*board.live, *board.ended)}
    assert names == {"run-1": "claude m", "run-2": "Plugin audit"}
    journal.close()


@pytest.mark.parametrize("kind", [ApprovalKind.QUESTION, ApprovalKind.PLUGIN])
def test_in_the_timeline_the_brain_thinks_except_while_a_person_is_asked(kind):
    def at(seconds: float) -> SampleRun:
        return SampleRun(at=SAMPLE.at + timedelta(seconds=seconds))

    asked = at(2).asked("app-1", kind=kind, title="What now?", detail="…", call_id="")
    events = [begun(), asked, at(5).decided("app-1"), at(9).finished()]
    found = bars(events, SAMPLE.at + timedelta(seconds=9))
    assert [(bar.lane, bar.start, bar.end, bar.state) for bar in found] == [
        (BRAIN, 0.0, 2.0, "works"),
        (BRAIN, 2.0, 5.0, "waits"),
        (BRAIN, 5.0, 9.0, "works"),
        (YOU, 2.0, 5.0, "waits"),
    ]
    assert bars([begun(brain=""), at(1).finished()], SAMPLE.at) == []
