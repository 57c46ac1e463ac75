"""Another process's changes are noticed, told once each, and nothing is told twice; on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.journal import pages
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.pages import TOPICS, Change, Watch
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN, OTHER = SampleRun(), SampleRun("run-2", "ses-2")


@pytest.fixture
def watch(open_journal: Callable[[], Journal], journal: Journal) -> Watch:
    """Looks from a second process at what the first one writes; has had its first look."""
    journal.append(RUN.started())
    looking = Watch(open_journal())
    assert [change.topic for change in looking.look()] == list(TOPICS)
    return looking


def test_the_first_look_tells_everything_and_the_next_one_nothing(watch):
    assert watch.look() == []
    assert watch.look() == []


@pytest.mark.parametrize(
    ("event", "topics"),
    [
        (RUN.noted(), []),
        (RUN.said("something"), []),
        (RUN.used(), []),
        (RUN.tool()[0], ["runs"]),
        (RUN.boxed(), ["runs"]),
        (RUN.counted(), ["runs", "costs"]),
        (RUN.lease(), ["leases"]),
        (RUN.asked(), ["runs", "approvals"]),
        (RUN.finished(), ["runs", "leases", "costs"]),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_an_event_is_told_to_the_lists_that_it_changes(watch, journal, event, topics):
    journal.append(event)  # type: ignore[arg-type]
    changes = watch.look()
    assert [change.topic for change in changes] == topics
    assert {(change.seq, change.run_id) for change in changes} <= {(2, "run-1")}
    assert watch.look() == []


def test_many_changes_are_told_once_and_of_several_runs_none_is_named(watch, journal):
    for run in (RUN, OTHER):
        for _ in range(20):
            journal.append(run.counted())
    assert watch.look() == [Change("runs", 41), Change("costs", 41)]


def test_a_question_and_its_answer_are_seen_before_their_events(watch, journal):
    mailbox = Mailbox(journal)
    mailbox.post(RUN.request())
    both = [Change("runs", 1, "run-1"), Change("approvals", 1, "run-1", "app-1")]
    assert watch.look() == both
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="cell")
    assert watch.look() == both


def test_the_ledger_of_leases_is_watched(watch, journal):
    ledger = LeaseLedger(journal)
    hour = timedelta(hours=1)
    row = LeaseRow("lea-1", "lea-1", "run-1", "ses-1", "o", "github", "read", RUN.at, RUN.at + hour, RUN.at, 1, 0, 0)
    ledger.begin(row)
    leases = [Change("leases", 1, "run-1")]
    assert watch.look() == leases
    ledger.complete("lea-1", handle="h", expires_at=RUN.at + hour, dies_at=RUN.at + hour)
    assert watch.look() == leases
    ledger.owe("lea-1", "revoked")
    assert watch.look() == leases
    ledger.close("lea-1", "revoked")
    assert watch.look() == leases
    assert watch.look() == []


def test_a_word_that_is_left_for_a_run_changes_no_list(watch, journal):
    Mailbox(journal).send("run-1", "kill", by="ada")
    assert watch.look() == []


def test_behind_very_many_rows_everything_is_told(watch, journal, monkeypatch):
    monkeypatch.setattr(pages, "_TOO_MANY", 10)
    for _ in range(12):
        journal.append(RUN.noted())
    assert watch.look() == [Change(topic, 13) for topic in TOPICS]


def test_its_own_process_is_watched_too(journal):
    watch = Watch(journal)
    watch.look()
    journal.append(RUN.started())
    assert [change.topic for change in watch.look()] == ["runs", "costs", "plugins"]


def test_a_closed_journal_is_an_error(watch):
    watch.journal.close()
    with pytest.raises(JournalUnreadable):
        watch.look()
