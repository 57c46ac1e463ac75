"""The tables of the views hold what the rows say, and `verify` finds it when they do not."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import JournalTampered, JournalUnreadable
from kagura_kernel.domain.events import BoxStarted, ChangesCollected, Event
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal import views
from kagura_kernel.journal.encoding import row_hash
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN, OTHER = SampleRun(), SampleRun("run-2", "ses-2")
BASE = {"run_id": "run-1", "session_id": "ses-1", "at": RUN.at}
BOX = BoxStarted(**BASE, box_id="box-1", backend="bubblewrap", isolation="namespace", reason="there is no daemon")
CHANGES = ChangesCollected(**BASE, changes=(FileChange(path="a", status="added"),))
WHOLE: tuple[Event, ...] = (
    RUN.started(owner="host:1:2"),
    BOX,
    *RUN.tool(1),
    RUN.counted(computed_usd=0.1),
    RUN.counted(computed_usd=0.2, model=""),
    RUN.asked("app-1"),
    RUN.decided("app-1", verdict="deny"),
    RUN.asked("app-2"),
    CHANGES,
    RUN.finished(model="", reported_usd=0.3),
)


def tell(journal: Journal, *events: Event) -> None:
    for event in events:
        journal.append(event)


def meddle(journal: Journal, *statements: str) -> None:
    with journal.writing() as writing:
        for statement in statements:
            writing.connection.execute(text(statement))


@pytest.mark.parametrize("length", range(len(WHOLE) + 1))
def test_the_tables_agree_with_the_rows_after_every_event(journal, length):
    tell(journal, *WHOLE[:length], OTHER.counted(), OTHER.finished(status="denied"), OTHER.started())
    assert journal.verify().rows == length + 3


def test_odd_values_agree_as_they_were_stored(journal):
    odd = "odd \udcff, \x00, \ud83d\ude00 and \U0001f98a"
    arguments = {
        "path": {1, 2},
        "when": RUN.at,
        "ratio": float("nan"),
        "bytes": b"\xff",
        "name": odd,
        "3": (1.0, 10**30),
    }
    tell(journal, RUN.started(task=odd * 100, project=odd, user=odd), RUN.counted(computed_usd=None))
    tell(journal, RUN.counted(), RUN.asked("app-1", detail=odd, title=odd, reason=odd, options=(odd,)))
    tell(
        journal,
        RUN.asked("app-2").model_copy(update={"arguments": arguments}),
        RUN.decided("app-1", by=odd, answer=odd),
    )
    assert journal.verify().rows == 6
    tell(journal, RUN.finished(error_code=odd, model=odd, computed_usd=1e-17))
    assert journal.verify().rows == 7


@pytest.mark.parametrize(
    ("statement", "table", "key", "seq", "why"),
    [
        ("UPDATE journal_approvals SET verdict = 'allow'", "approvals", "app-1", 7, "verdict is not what the events"),
        ("UPDATE journal_approvals SET verdict = NULL WHERE id = 'app-1'", "approvals", "app-1", 7, "verdict"),
        ("UPDATE journal_approvals SET decided_by = 'eve' WHERE id = 'app-1'", "approvals", "app-1", 7, "decided_by"),
        ("UPDATE journal_approvals SET verdict = 'allow' WHERE id = 'app-2'", "approvals", "app-2", 9, "verdict"),
        ("UPDATE journal_approvals SET detail = '\"ls\"' WHERE id = 'app-2'", "approvals", "app-2", 9, "detail"),
        ("UPDATE journal_approvals SET owner = 'x' WHERE id = 'app-2'", "approvals", "app-2", 9, "owner"),
        ("DELETE FROM journal_approvals WHERE id = 'app-1'", "approvals", "app-1", 7, "missing"),
        ("UPDATE journal_approvals SET id = 'app-9' WHERE id = 'app-2'", "approvals", "app-9", 11, "no event speaks"),
        ("DELETE FROM journal_runs", "runs", "run-1", 1, "missing"),
        ("UPDATE journal_runs SET run_id = 'run-9'", "runs", "run-9", 11, "no event speaks"),
        ("UPDATE journal_runs SET status = 'running', duration = NULL", "runs", "run-1", 1, "status, duration are"),
        ("UPDATE journal_runs SET reported_usd = 0", "runs", "run-1", 1, "reported_usd"),
        ("UPDATE journal_runs SET changed_files = 0", "runs", "run-1", 1, "changed_files"),
        ("UPDATE journal_runs SET task = 'something else'", "runs", "run-1", 1, "task"),
    ],
)
def test_whatever_is_done_to_a_table_is_found_and_made_good(journal, statement, table, key, seq, why):
    tell(journal, *WHOLE)
    meddle(journal, statement)
    with pytest.raises(JournalTampered, match=why) as caught:
        journal.verify()
    assert (caught.value.table, caught.value.key, caught.value.seq) == (f"journal_{table}", key, seq)
    assert f"journal_{table} at {key}" in caught.value.message
    assert "`kagura-kernel journal rebuild`" in caught.value.message
    assert journal.verify(tables=False).rows == len(WHOLE)
    views.rebuild(journal)
    assert journal.verify().rows == len(WHOLE)


def test_a_broken_chain_is_told_before_a_broken_table(journal):
    tell(journal, *WHOLE)
    meddle(journal, "DELETE FROM journal_runs", "UPDATE journal_events SET kind = 'noted' WHERE seq = 11")
    with pytest.raises(JournalTampered) as caught:
        journal.verify()
    assert (caught.value.seq, caught.value.table) == (11, "")


def test_a_decision_may_lie_in_the_mailbox_while_the_run_goes_on(journal, mailbox):
    tell(journal, RUN.started(), RUN.asked("app-1"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    mailbox.post(RUN.request("app-2"))
    assert journal.verify().rows == 2
    views.rebuild(journal)
    assert mailbox.decision("app-1") is not None
    meddle(journal, "UPDATE journal_approvals SET title = 'harmless' WHERE id = 'app-1'")
    with pytest.raises(JournalTampered, match="title"):
        journal.verify()


def test_a_question_that_nobody_asked_is_no_question(journal, mailbox):
    tell(journal, RUN.started(), RUN.finished())
    mailbox.post(RUN.request("app-1"))
    with pytest.raises(JournalTampered, match="no event speaks of it"):
        journal.verify()
    views.rebuild(journal)
    assert journal.verify().rows == 2
    assert mailbox.pending() == []


def test_a_decision_that_came_when_the_process_was_gone_is_no_forgery(journal, mailbox):
    tell(journal, RUN.started(), RUN.asked("app-1"), RUN.asked("app-2"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    tell(journal, RUN.decided("app-2", verdict="aborted", via="lost"), RUN.finished(status="lost"))
    assert journal.verify().rows == 5
    views.rebuild(journal)
    assert journal.verify().rows == 5
    meddle(journal, "UPDATE journal_approvals SET verdict = 'allow' WHERE id = 'app-2'")
    with pytest.raises(JournalTampered, match="verdict"):
        journal.verify()


def test_a_row_that_is_no_event_cannot_be_counted(journal):
    tell(journal, RUN.started())
    stored = journal.events()[0]
    columns = "seq, at, kind, run_id, session_id, body, prev_hash"
    with journal.writing() as writing:
        row = writing.connection.execute(text(f"SELECT {columns} FROM journal_events")).one()
        forged = row_hash(row.seq, row.at, row.kind, row.run_id, row.session_id, "{}", row.prev_hash)
        writing.connection.execute(text("UPDATE journal_events SET body = '{}', hash = :hash"), {"hash": forged})
        writing.connection.execute(text("UPDATE journal_head SET last_hash = :hash"), {"hash": forged})
    assert forged != stored.hash
    with pytest.raises(JournalUnreadable, match="row 1 is no event"):
        journal.verify()


def test_another_handle_sees_it_too(journal, open_journal):
    tell(journal, *WHOLE)
    meddle(journal, "DELETE FROM journal_approvals WHERE id = 'app-2'")
    with pytest.raises(JournalTampered, match="app-2"):
        open_journal().verify()
