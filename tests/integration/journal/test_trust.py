"""Earned trust as a journal keeps it: for other processes, and on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from kagura_kernel.cockpit.trust import TrustDesk
from kagura_kernel.domain.errors import JournalUnreadable, NotThisTime, UnknownName
from kagura_kernel.domain.events import LeaseChanged, TrustChanged
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.schema import LEARNED
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.trust import TrustHistory
from kagura_kernel.testing.clock import FakeClock

AT = datetime(2026, 1, 1, tzinfo=UTC)


def change(change: str, day: float = 0.0, **more: Any) -> TrustChanged:
    facts = {"run_id": f"run-{day:g}", "session_id": "ses-1", "category": "git", "task": f"task-{day}"} | more
    return TrustChanged(at=AT + timedelta(days=day), change=change, **facts)


def earn(journal: Journal) -> None:
    for day in (0, 2, 4, 6, 8):
        journal.append(change("succeeded", day, signal="exit-code"))


def desk(journal: Journal, day: float = 8.0) -> TrustDesk:
    return TrustDesk(journal, TrustTerms(), FakeClock(AT + timedelta(days=day)))


def test_what_one_process_wrote_another_one_knows(open_journal):
    first, second = open_journal(), open_journal()
    history = TrustHistory(second)
    assert history.look() == {}
    earn(first)
    assert len(history.look()["git"].successes) == 5
    first.append(change("failed", 9, signal="exit-code"))
    assert history.look()["git"].successes == ()
    assert len(history.changes()) == 6
    assert TrustHistory(open_journal()).look() == history.look()


def test_a_person_grants_what_was_earned_and_takes_it_back(open_journal):
    journal = open_journal()
    earn(journal)
    assert desk(journal).grant("git", by="ann", via="terminal").state == "graduated"
    standing = TrustHistory(open_journal()).look()["git"]
    assert (standing.graduated, standing.granted_by) == (True, "ann")
    assert desk(journal).grant("git", by="ann", via="terminal").state == "graduated"
    assert len(journal.events(kinds=("trust.changed",))) == 7
    assert desk(open_journal()).revoke("git", by="ann", via="terminal").state == "demoted"
    assert not TrustHistory(journal).look()["git"].graduated
    with pytest.raises(NotThisTime, match="5 more verified successes"):
        desk(journal).grant("git", by="ann", via="terminal")


@pytest.mark.parametrize("name", ["git", "packages", "force-push"])
def test_what_was_not_earned_is_not_granted(journal, name):
    with pytest.raises(NotThisTime, match=f"{name} cannot be trusted yet. What is missing: "):
        desk(journal).grant(name, by="ann", via="terminal")
    assert journal.last_seq() == 0


def test_what_never_graduates_cannot_be_taken_back(journal):
    with pytest.raises(NotThisTime, match="never graduates"):
        desk(journal).revoke("force-push", by="ann", via="terminal")


def test_an_unknown_category_is_named_as_such(journal):
    with pytest.raises(UnknownName, match="git"):
        desk(journal).grant("gti", by="ann", via="terminal")
    with pytest.raises(UnknownName, match="git"):
        desk(journal).revoke("gti", by="ann", via="terminal")


def test_which_credentials_runs_have_held(journal):
    history = TrustHistory(journal)
    about = {"run_id": "run-1", "session_id": "ses-1", "at": AT, "lease_id": "lea-1"}
    journal.append(LeaseChanged(**about, provider="aws", scope="deploy", change="acquired"))
    journal.append(LeaseChanged(**about, provider="aws", scope="other", change="released"))
    assert history.held() == {"aws:deploy"}
    journal.append(LeaseChanged(**about, provider="github", scope="read", change="acquired"))
    assert history.held() == {"aws:deploy", "github:read"}


def test_trust_is_found_by_its_index_however_long_the_journal_is(journal):
    earn(journal)
    if not journal.where.startswith("postgresql"):
        plan = journal.read(
            text(f"EXPLAIN QUERY PLAN SELECT seq FROM journal_events WHERE {LEARNED} AND kind = 'trust.changed'")
        )
        assert "journal_events_learned" in str(plan)
    assert len(TrustHistory(journal).look()["git"].successes) == 5


def test_a_row_that_cannot_be_read_is_told_and_earns_nothing(journal):
    earn(journal)
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_events SET body = 'nothing' WHERE seq = 3"))
    with pytest.raises(JournalUnreadable):
        TrustHistory(journal).look()
