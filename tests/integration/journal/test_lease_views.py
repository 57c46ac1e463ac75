"""Leases that are out, as runs tell of them and as the ledger knows; on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kagura_kernel.domain.errors import LeaseEnded, UnknownName
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow, leases_out, revoke_lease
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()
HOUR = timedelta(hours=1)


@pytest.fixture
def ledger(journal: Journal) -> LeaseLedger:
    journal.append(RUN.started())
    return LeaseLedger(journal)


def mint(ledger: LeaseLedger, key: str, *, lease_id: str = "", run_id: str = "run-1", minute: int = 0) -> None:
    at = RUN.at + timedelta(minutes=minute)
    ledger.begin(
        LeaseRow(key, lease_id or key, run_id, "ses-1", "o", "github", "read", at, at + HOUR, at + HOUR, 3600, 600, 4)
    )
    ledger.complete(key, handle="sealed", expires_at=at + HOUR, dies_at=at + HOUR)


def test_a_lease_is_told_by_its_run_and_can_be_taken_back_while_the_ledger_has_it(journal, ledger):
    mint(ledger, "lea-1")
    journal.append(RUN.lease())
    (view,) = leases_out(journal)
    assert (view.state, view.way, view.revocable) == ("live", "header", True)
    journal.append(RUN.lease("held up", seconds_left=0.0))
    (view,) = leases_out(journal)
    assert (view.state, view.way, view.revocable) == ("held up", "header", True)
    ledger.close("lea-1", "expired")
    journal.append(RUN.lease("on hold"))
    (view,) = leases_out(journal)
    assert (view.state, view.revocable) == ("on hold", False)
    journal.append(RUN.lease("released"))
    assert leases_out(journal) == []


def test_what_only_the_ledger_knows_is_told_by_its_newest_credential(journal, ledger):
    mint(ledger, "lea-1")
    mint(ledger, "lea-2", lease_id="lea-1", minute=10)
    ledger.owe("lea-1", "renewed")
    (view,) = leases_out(journal)
    assert (view.lease_id, view.state, view.expires_at) == ("lea-1", "live", RUN.at + timedelta(minutes=70))
    assert (view.budget_left, view.revocable) == (3000, True)
    ledger.owe("lea-2", "its run is over")
    (view,) = leases_out(journal)
    assert (view.state, view.revocable, view.why) == ("owed", False, "its run is over")


def test_leases_of_runs_that_have_ended_are_told_by_the_ledger_alone(journal, ledger):
    journal.append(RUN.lease())
    journal.append(RUN.finished())
    assert leases_out(journal) == []
    mint(ledger, "lea-1")
    ledger.owe("lea-1", "no answer")
    assert [view.state for view in leases_out(journal)] == ["owed"]


def test_taking_a_lease_back_is_written_before_its_run_is_told(journal, ledger):
    mint(ledger, "lea-1")
    mint(ledger, "lea-2", lease_id="lea-1", minute=1)
    mint(ledger, "lea-3")
    journal.append(RUN.lease())
    for _ in range(2):
        assert revoke_lease(journal, "lea-1", by="ada") == "run-1"
    assert {row.id: row.state for row in ledger.open_rows()} == {"lea-1": "owed", "lea-2": "owed", "lea-3": "live"}
    assert [message.by for message in Mailbox(journal).take(["run-1"], ("leases",))] == ["ada", "ada"]
    first = leases_out(journal)[0]
    assert (first.state, first.why, first.revocable) == ("owed", "revoked by ada", False)


def test_a_lease_whose_run_nobody_knows_is_taken_back_all_the_same(journal, ledger):
    mint(ledger, "lea-1", run_id="run-unheard-of")
    assert revoke_lease(journal, "lea-1", by="ada") == "run-unheard-of"
    assert not ledger.is_live("lea-1")


def test_what_is_over_or_never_was_cannot_be_taken_back(journal, ledger):
    mint(ledger, "lea-1")
    ledger.close("lea-1", "revoked")
    with pytest.raises(LeaseEnded, match="revoked"):
        revoke_lease(journal, "lea-1", by="ada")
    with pytest.raises(UnknownName):
        revoke_lease(journal, "lea-none", by="ada")
