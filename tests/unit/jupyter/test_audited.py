"""An audit in the cards, boards, tables and charts that show runs of every kind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kagura_kernel.cockpit.records import Records
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import PluginAudited, TextStreamed
from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, PluginAudit, PluginFinding, Risk, Severity
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.boards import _run_line
from kagura_kernel.jupyter.charts.timeline import BRAIN, YOU, bars
from kagura_kernel.render.html import html_of
from kagura_kernel.views.card import run_text
from kagura_kernel.views.head import head_blocks
from kagura_kernel.views.parts import Note, Passage, audit_notes
from kagura_kernel.views.record import run_record
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label, status_of
from tests.support.sample_run import SampleRun

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
