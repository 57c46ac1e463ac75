from datetime import UTC, datetime

import pandas as pd
import pytest

from kagura_kernel.cockpit.status import CredentialStatus, PartStatus, StatusReport
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.journal.rows import ApprovalRow, CostRow, RunRow
from kagura_kernel.jupyter.magics import outcome_html, outcome_text
from kagura_kernel.jupyter.status import StatusText, status_text
from kagura_kernel.jupyter.tables import approvals_table, calibration_table, costs_table, runs_table
from kagura_kernel.patterns.plans import calibrate
from tests.support.card_page import Page
from tests.support.sample_run import SampleRun

AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def run_row(**fields):
    given = {
        "run_id": "run-1",
        "session_id": "ses-1",
        "flavour": "agent",
        "status": "running",
        "task": "Look.",
        "brain": "claude",
        "model": "m",
        "box": "bubblewrap",
        "started_at": AT,
        "duration": None,
        "tool_calls": 2,
        "cost_usd": None,
        "changed_files": 0,
        "error_code": "",
        "user": "ada",
        "owner": "h:1:1",
        "project": "/p",
    }
    return RunRow(**given | fields)


def cost_row(**fields):
    given = {
        "run_id": "run-1",
        "session_id": "ses-1",
        "at": AT,
        "brain": "claude",
        "model": "m",
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "reported_usd": None,
        "computed_usd": None,
        "source": "",
        "status": "done",
    }
    return CostRow(**given | fields)


def test_unknown_money_and_time_are_missing_and_not_zero():
    table = runs_table([run_row(), run_row(cost_usd=0.0, duration=1.5)])
    assert table["usd"].isna().tolist() == [True, False]
    assert table["seconds"].isna().tolist() == [True, False]
    assert table["usd"].sum() == 0.0


def test_a_reported_cost_beats_a_computed_one():
    table = costs_table([cost_row(reported_usd=0.3, computed_usd=0.2), cost_row(computed_usd=0.2), cost_row()])
    assert table["usd"][:2].tolist() == [0.3, 0.2]
    assert pd.isna(table["usd"][2])


def test_empty_tables_have_the_same_columns_and_types():
    for make, rows in ((runs_table, [run_row()]), (costs_table, [cost_row()])):
        assert make([]).dtypes.to_dict() == make(rows).dtypes.to_dict()
    assert approvals_table([]).empty
    calibrated = calibrate([cost_row(estimated_usd=0.1, reported_usd=0.12)])
    assert calibration_table([]).dtypes.to_dict() == calibration_table(calibrated).dtypes.to_dict()


def test_what_was_expected_stands_beside_what_was_needed():
    expected = {"estimated_usd": 0.1, "estimated_seconds": 60.0}
    table = calibration_table(
        calibrate([cost_row(**expected, reported_usd=0.12, seconds=90.0), cost_row(**expected, status="killed")])
    )
    assert table["usd_error"].round(2).tolist()[0] == 0.2
    assert (table["usd_within"][0], table["seconds_within"][0]) == (True, False)
    assert table[["usd", "usd_error", "usd_within", "seconds_error"]].iloc[1].isna().all()


def test_an_approval_that_waits_has_no_verdict():
    row = ApprovalRow("app-1", "run-1", "ses-1", "host_command", "t", "d", "r", "h", AT, AT, None, "", "", None, "")
    table = approvals_table([row])
    assert pd.isna(table["verdict"][0])
    assert pd.isna(table["decided"][0])
    assert table["requested"][0] == AT


def test_what_was_asked_is_the_command_and_the_question_and_else_the_title():
    given = ("h", AT, AT, None, "", "", None, "")
    rows = [
        ApprovalRow("app-1", "run-1", "ses-1", "host_command", "Run a command", "d", "r", *given, {"command": "ls -l"}),
        ApprovalRow("app-2", "run-1", "ses-1", "question", "A question", "Which year?", "r", *given),
        ApprovalRow("app-3", "run-1", "ses-1", "credential", "Let this run hold x", "d", "r", *given),
    ]
    assert approvals_table(rows)["what"].tolist() == ["ls -l", "Which year?", "Let this run hold x"]


def test_an_approval_of_a_child_says_whom_it_works_for_and_a_plan_what_its_lessons_say():
    given = ("ses-1", "plan", "t", "d", "r", "h", AT, AT, None, "", "", None, "")
    rows = [ApprovalRow("app-1", "run-3", *given, lineage=("run-1", "run-2")), ApprovalRow("app-2", "run-1", *given)]
    table = approvals_table(rows, {"app-2": "what went wrong: \x1b[2J"})
    assert table["lineage"][0] == "run-1 → run-2"
    assert table["lessons"][1] == "what went wrong: ⟨U+001B⟩[2J"
    assert table[["lineage", "lessons"]].isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_an_outcome_is_one_line():
    outcome = RunOutcome("run-1", "ses-1", "done", text="<b>", cost=Cost(reported_usd=0.0123))
    assert outcome_text(outcome) == "RunOutcome(done, $0.0123)"
    assert "<b>" not in outcome_html(outcome)


def test_an_outcome_counts_its_conflicts():
    changes = tuple(FileChange(path, "added", state=state) for path, state in (("a", "applied"), ("b", "conflict")))
    outcome = RunOutcome("run-1", "ses-1", "done", changes=changes)
    assert outcome_text(outcome) == "RunOutcome(done, 2 changed files, 1 conflict)"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"verified": False}, "done, verification did not pass"),
        ({"verified": True, "cost": Cost(0.25)}, "done, verified, $0.2500"),
        ({"cost": Cost(0.25), "children": 2, "children_usd": 1.5}, "done, $1.75, of which 2 children $1.50"),
        ({"cost": Cost(0.25), "children": 1, "children_usd": None}, "done, $0.2500, and 1 child of unknown cost"),
        ({"children": 1, "children_usd": 0.5}, "done, cost unknown, 1 child $0.5000"),
        ({"children": 1, "children_usd": None}, "done, cost unknown, and 1 child of unknown cost"),
    ],
)
def test_an_outcome_says_whether_it_was_verified_and_what_its_children_cost(facts, told):
    outcome = RunOutcome("run-1", "ses-1", "done", **facts)
    assert outcome_text(outcome) == f"RunOutcome({told})"
    assert told.replace("done, ", "done · ", 1).split(" · ")[1].partition(",")[0] in outcome_html(outcome)


def test_a_run_tells_where_it_comes_from_and_a_cost_what_its_children_took():
    table = runs_table(
        [run_row(), run_row(verified=False, untrusted=True, resumes="run-0", lineage=("run-7", "run-8"))]
    )
    assert table["verified"].isna().tolist() == [True, False]
    assert table.loc[1, ["untrusted", "resumes", "parent"]].tolist() == [True, "run-0", "run-8"]
    costs = costs_table([cost_row(reported_usd=0.5, children=1, children_usd=0.25), cost_row(children_usd=None)])
    assert costs["total_usd"].tolist()[0] == 0.75
    assert costs["total_usd"].isna().tolist() == [False, True]


def test_the_status_says_how_a_question_is_answered():
    asked = datetime(2026, 5, 4, tzinfo=UTC)
    question, command = (
        ApprovalRequest(f"app-{kind}", "run-1", "ses-1", kind, "Which?", "Which?", asked)
        for kind in (ApprovalKind.QUESTION, ApprovalKind.HOST_COMMAND)
    )
    assert "%kagura approve app-question TEXT" in status_text(StatusReport(pending=(question,)))
    assert "TEXT" not in status_text(StatusReport(pending=(command,)))


def test_the_status_says_what_waits_and_for_whom_a_run_does():
    command = {"command": "git push\n\x1b[2K origin"}
    asked = SampleRun("run-1").request("app-1", title="Run a command", arguments=command)
    lines = status_text(StatusReport(pending=(asked,), running=(run_row(status="awaiting_approval"),))).splitlines()
    assert lines[0].startswith("running   run-1  awaiting approval  ")
    assert lines[1] == "waiting   app-1  Run a command: git push ⟨U+001B⟩[2K origin"


def test_sentences_of_the_status_end_in_one_full_stop():
    boxes = (PartStatus("a", ok=True, reason="it is there"), PartStatus("b", ok=False, reason="It is not."))
    lines = status_text(StatusReport(boxes=boxes)).splitlines()
    assert [line[-6:] for line in lines[1:3]] == ["there.", "s not."]


def test_long_facts_of_the_status_go_on_in_their_column_and_break_no_word():
    box = PartStatus("docker", ok=False, reason=f"no daemon {'answers ' * 12}", advice="Start one. " * 9)
    told = status_text(StatusReport(boxes=(box,), brains=(PartStatus("claude", ok=False, reason="no key " * 20),)))
    lines = [line for line in told.splitlines() if line[:3] in ("box", "bra", "   ")]
    assert len(lines) > 5
    assert max(map(len, lines)) <= 100
    assert all(line[:30].isspace() and line[30] != " " for line in lines if line.startswith(" "))


def test_the_status_reads_from_the_top():
    report = StatusReport(
        running=(run_row(),),
        boxes=(PartStatus("docker", ok=False, reason="no daemon"),),
        brains=(PartStatus("claude", ok=True, reason="signed in"),),
        journal="/home/ada/journal.db",
        spent_today_usd=0.5,
        unpriced_today=1,
    )
    lines = status_text(report).splitlines()
    assert lines[0].startswith("running   run-1")
    assert "docker       no     no daemon" in lines[1]
    assert lines[-2] == "cost      $0.5000 today (UTC), 1 of unknown price."
    assert status_text(StatusReport()).startswith("Nothing runs, nothing waits.\n")


def test_a_shared_deployment_says_so_and_which_boxes_it_refuses():
    boxes = (
        PartStatus("bubblewrap", ok=True, reason="it works", isolation="namespace"),
        PartStatus("docker", ok=False, reason="no daemon", isolation="container", advice="start the daemon"),
        PartStatus("gvisor", ok=True, reason="runsc answers", isolation="gvisor"),
    )
    shown = status_text(StatusReport(boxes=boxes, shared=True))
    assert "shared    Others share this machine: a box needs gvisor isolation or stronger." in shown
    lines = [line for line in shown.splitlines() if line.startswith(("box", "   "))]
    assert lines == [
        "box       bubblewrap   no     Refused here: namespace isolation is too weak to be shared.",
        "box       docker       no     no daemon.",
        "                              start the daemon.",
        "box       gvisor       ready  runsc answers.",
    ]
    alone = status_text(StatusReport(boxes=boxes))
    assert "shared" not in alone
    assert "bubblewrap   ready  it works." in alone


def test_what_an_earlier_process_left_is_told_with_what_became_of_it():
    swept = tuple(CredentialStatus(f"lea-{number}", "cloud", "read", "revoked") for number in range(3))
    swept += (CredentialStatus("lea-8", "github", "write", "expired"),)
    owed = (CredentialStatus("lea-9", "github", "read", "owed", "HTTP 500"),)
    lines = status_text(StatusReport(swept=swept, owed=owed)).splitlines()
    assert lines[:3] == [
        "swept     cloud:read  revoked, 3 credentials",
        "swept     github:write  expired",
        "owed      lea-9  github:read  HTTP 500.",
    ]


def test_what_a_terminal_would_obey_is_written_out_in_a_table():
    table = runs_table([run_row(task="clear \x1b[2J\u202e it,\ntwice ä")])
    assert table["task"][0] == "clear ⟨U+001B⟩[2J⟨U+202E⟩ it,\ntwice ä"


def test_the_status_is_a_card_too():
    parts = (PartStatus("docker", ok=False, reason="no daemon<b>", advice="start `dockerd`"),)
    page = Page(StatusText(StatusReport(boxes=parts, journal="/data/journal.db"))._repr_html_())
    for words in ("Nothing runs, nothing waits.", "box dockerno no daemon<b>. Start dockerd.", "/data/journal.db"):
        assert words in " ".join(page.text.split())


def test_what_else_was_configured_stands_in_the_status():
    parts = (
        PartStatus("telemetry", ok=True, reason="to http://localhost:4318: 2 batches sent"),
        PartStatus("brain small", ok=False, reason="of house 1.0: the name is built in\x1b[2J"),
    )
    lines = status_text(StatusReport(others=parts)).splitlines()
    assert "also      telemetry    ready  to http://localhost:4318: 2 batches sent." in lines
    [broken] = [line for line in lines if "brain small" in line]
    assert " no " in broken
    assert "\x1b" not in broken
