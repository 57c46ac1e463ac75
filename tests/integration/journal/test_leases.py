"""The ledger of credentials, on both databases."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from kagura_kernel.domain.errors import JournalUnreadable, JournalUnwritable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock

CLOCK = FakeClock()
NOW = CLOCK.now()


@pytest.fixture
def journal(where: str) -> Iterator[Journal]:
    journal = Journal.open(where, clock=CLOCK)
    yield journal
    journal.close()


@pytest.fixture
def ledger(journal: Journal) -> LeaseLedger:
    return LeaseLedger(journal)


def row(key: str = "lea-1", run_id: str = "run-1") -> LeaseRow:
    return LeaseRow(
        id=key,
        lease_id=key,
        run_id=run_id,
        session_id="ses-1",
        owner="host:1:1",
        provider="github",
        scope="read",
        began_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
        dies_at=NOW + timedelta(hours=1),
        total_seconds=3600.0,
        spent_seconds=900.0,
        renewals_left=6,
    )


def complete(ledger: LeaseLedger, key: str = "lea-1", handle: str = "h-1") -> bool:
    return ledger.complete(key, handle=handle, expires_at=NOW + timedelta(minutes=14), dies_at=NOW + timedelta(hours=2))


def test_a_row_comes_back_as_it_was_written(ledger):
    ledger.begin(row())
    assert ledger.row("lea-1") == row()
    assert ledger.row("lea-2") is None


def test_a_credential_goes_from_minting_to_live_to_owed_to_gone(ledger):
    ledger.begin(row())
    assert complete(ledger)
    live = ledger.row("lea-1")
    assert live is not None
    assert (live.state, live.handle, live.expires_at) == ("live", "h-1", NOW + timedelta(minutes=14))
    assert ledger.owe("lea-1", "it was released")
    owed = ledger.row("lea-1")
    assert owed is not None
    assert (owed.state, owed.handle, owed.why, owed.ended_at) == ("owed", "h-1", "it was released", NOW)
    assert ledger.close("lea-1", "revoked")
    gone = ledger.row("lea-1")
    assert gone is not None
    assert (gone.state, gone.handle, gone.why) == ("gone", "", "revoked")


def test_no_step_is_taken_twice_or_backwards(ledger):
    ledger.begin(row())
    assert not ledger.postpone("lea-1", until=NOW, why="too early")
    assert ledger.owe("lea-1", "first")
    assert not ledger.owe("lea-1", "second")
    assert not complete(ledger), "what was given up meanwhile must not come to life"
    assert ledger.close("lea-1", "revoked")
    assert not ledger.close("lea-1", "again")
    assert not ledger.owe("lea-1", "again")
    assert not ledger.claim("lea-1", by="me", until=NOW)


def test_a_row_is_claimed_by_one_until_the_claim_lapses(ledger):
    ledger.begin(row())
    assert ledger.claim("lea-1", by="me", until=NOW + timedelta(seconds=1))
    assert ledger.claim("lea-1", by="me", until=NOW + timedelta(seconds=1))
    assert not ledger.claim("lea-1", by="you", until=NOW + timedelta(seconds=1))
    assert ledger.claim("lea-1", by="you", until=NOW - timedelta(seconds=1), over="me")
    assert ledger.claim("lea-1", by="me", until=NOW)


def test_a_failed_attempt_is_counted_and_gives_up_the_claim(ledger):
    ledger.begin(row())
    ledger.owe("lea-1", "released")
    ledger.claim("lea-1", by="me", until=NOW + timedelta(hours=1))
    assert ledger.postpone("lea-1", until=NOW + timedelta(seconds=5), why="HTTP 500")
    found = ledger.row("lea-1")
    assert found is not None
    assert (found.attempts, found.retry_at, found.why, found.claimed_by) == (
        1,
        NOW + timedelta(seconds=5),
        "HTTP 500",
        "",
    )


def test_open_rows_are_those_that_are_not_gone(ledger):
    for number in range(3):
        ledger.begin(row(f"lea-{number}", f"run-{number}"))
    ledger.close("lea-1", "never minted")
    assert [found.id for found in ledger.open_rows()] == ["lea-0", "lea-2"]
    assert [found.id for found in ledger.rows()] == ["lea-2", "lea-1", "lea-0"]
    assert [found.id for found in ledger.rows(limit=1)] == ["lea-2"]


def test_another_process_sees_the_rows(ledger, where):
    ledger.begin(row(), flush=False)
    other = Journal.open(where)
    assert [found.id for found in LeaseLedger(other).open_rows()] == ["lea-1"]
    other.close()


def test_the_ledger_leaves_the_chain_of_events_alone(ledger, journal):
    ledger.begin(row())
    assert journal.verify().rows == 0


def test_a_journal_that_is_closed_says_so(ledger, journal):
    journal.close()
    with pytest.raises(JournalUnwritable):
        ledger.begin(row())
    with pytest.raises(JournalUnreadable):
        ledger.open_rows()


def test_a_credential_is_live_from_its_mint_until_somebody_takes_it_back(ledger):
    assert not ledger.is_live("lea-1")
    ledger.begin(row())
    assert not ledger.is_live("lea-1")
    complete(ledger)
    assert ledger.is_live("lea-1")
    ledger.owe("lea-1", "revoked by ada")
    assert not ledger.is_live("lea-1")


def test_a_renewal_begins_only_while_what_it_replaces_is_live(ledger):
    ledger.begin(row())
    complete(ledger)
    assert ledger.begin(row("lea-2"), after="lea-1")
    ledger.owe("lea-1", "revoked by ada")
    assert not ledger.begin(row("lea-3"), after="lea-1")
    assert not ledger.begin(row("lea-4"), after="lea-9")
    assert [found.id for found in ledger.open_rows()] == ["lea-1", "lea-2"]
