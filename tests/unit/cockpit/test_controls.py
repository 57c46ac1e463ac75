"""Words from other processes are heard soon, and while nobody says one no table of the journal is read."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.cockpit.lease_sweep import Sweeping
from kagura_kernel.cockpit.status import CredentialStatus
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ConfigurationError, JournalUnreadable
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.revoke import Settled, SweepReport
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until

GLANCES = 5


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    """One in which time stands still, so that no look is due by the clock alone."""
    brain = FakeBrain([Ask("ask_user", {"question": "Which?", "options": ["left", "right"]}), Hang()])
    found = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain], clock=FakeClock())
    yield found
    found.close()


@pytest.fixture
def handle(cockpit: Cockpit, tmp_path: Path) -> RunHandle:
    """A run that goes on until it is stopped."""
    (tmp_path / "project").mkdir()
    handle = cockpit.launch(RunRequest(task="go", project=tmp_path / "project"))
    handle.wait_begun()
    return handle


class Counting:
    """Counts how often tables are read and how often a glance is given, by everybody in this process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reads = self.glances = 0
        self.broken = False
        read, mark = Database.read, Database.mark

        def counted_read(database: Database, *given: Any) -> Any:
            self.reads += 1
            if self.broken:
                raise JournalUnreadable("here", "the test says so")
            return read(database, *given)

        def counted_mark(database: Database) -> str:
            self.glances += 1
            return mark(database)

        patch.setattr(Database, "read", counted_read)
        patch.setattr(Database, "mark", counted_mark)

    def glance(self) -> None:
        """Return after a few glances."""
        before = self.glances
        wait_until(lambda: self.glances >= before + GLANCES)


def test_a_kill_from_another_process_is_heard_though_the_clock_stands_still(handle, elsewhere):
    Mailbox(elsewhere).send(handle.run_id, "kill", by="bob")
    assert handle.result(60).status == "killed"


def test_while_nothing_is_written_a_glance_reads_no_table(cockpit, handle, elsewhere, monkeypatch):
    wait_until(cockpit.pending)
    counting = Counting(monkeypatch)
    counting.glance()
    before = counting.reads
    counting.glance()
    assert counting.reads == before
    Mailbox(elsewhere).send(handle.run_id, "kill", by="bob")
    assert handle.result(60).status == "killed"
    assert counting.reads > before


def test_a_word_whose_look_failed_is_looked_for_again(cockpit, handle, elsewhere, monkeypatch):
    wait_until(cockpit.pending)
    Mailbox(elsewhere).decide(cockpit.pending()[0].id, Verdict.ALLOW, by="bob", via="terminal", answer="left")
    wait_until(lambda: not cockpit.pending())
    counting = Counting(monkeypatch)
    counting.broken = True
    Mailbox(elsewhere).send(handle.run_id, "kill", by="bob")
    wait_until(lambda: counting.reads)
    counting.broken = False
    assert handle.result(60).status == "killed"


def dead_owner() -> str:
    """This machine and boot, and a process that is not there."""
    host, _, rest = process_owner().split(":")
    return f"{host}:4194304:{rest}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LeaseLedger]:
    journal = Journal.open(tmp_path)
    yield LeaseLedger(journal)
    journal.close()


def begin(ledger: LeaseLedger, key: str, owner: str) -> LeaseRow:
    now = SystemClock().now()
    row = LeaseRow(
        id=key,
        lease_id=key,
        run_id="run-1",
        session_id="ses-1",
        owner=owner,
        provider="cloud",
        scope="read",
        began_at=now,
        expires_at=now + timedelta(hours=1),
        dies_at=now + timedelta(hours=1),
        total_seconds=3600,
        spent_seconds=900,
        renewals_left=6,
    )
    ledger.begin(row)
    return row


class Scripted:
    """Sweeps that tell this; counts them."""

    def __init__(self, *reports: SweepReport, error: Exception | None = None) -> None:
        self.reports = reports
        self.error = error
        self.begun = 0

    async def __call__(self, told: Callable[[SweepReport], None]) -> None:
        self.begun += 1
        for report in self.reports:
            told(report)
        if self.error is not None:
            raise self.error


def test_nothing_is_begun_where_every_credential_has_its_run(ledger, engine):
    begin(ledger, "lea-1", process_owner())
    begin(ledger, "lea-2", process_owner())
    ledger.owe("lea-2", "it was renewed")
    sweep = Scripted()
    sweeping = Sweeping(ledger, sweep, engine)
    sweeping.begin()
    assert (sweep.begun, engine.running, sweeping.owed()) == (0, False, ())


def test_what_a_dead_process_left_is_owed_until_a_sweep_has_settled_it(ledger, engine):
    begin(ledger, "lea-1", dead_owner())
    kept = Settled("lea-2", "cloud", "read", "kept", "HTTP 429", 1.0)
    sweep = Scripted(SweepReport((Settled("lea-1", "cloud", "read", "revoked"), kept)))
    sweeping = Sweeping(ledger, sweep, engine)
    assert sweeping.owed() == (CredentialStatus("lea-1", "cloud", "read", "owed", "its process is gone"),)
    sweeping.begin()
    wait_until(lambda: sweeping.swept)
    assert sweeping.swept == (CredentialStatus("lea-1", "cloud", "read", "revoked"),)
    ledger.close("lea-1", "revoked")
    assert sweeping.owed() == ()


def test_what_a_provider_would_not_take_back_is_told_with_its_reason(ledger, engine):
    row = begin(ledger, "lea-1", process_owner())
    ledger.owe("lea-1", "it was released")
    ledger.postpone("lea-1", until=row.expires_at, why="HTTP 500")
    (owed,) = Sweeping(ledger, pytest.fail, engine).owed()
    assert owed == replace(owed, lease_id="lea-1", how="owed", why="HTTP 500")


def test_a_sweep_that_fails_is_said_in_the_log_and_can_be_begun_again(ledger, engine, caplog):
    begin(ledger, "lea-1", dead_owner())
    sweep = Scripted(error=ConfigurationError("credentials.toml", ["it is not TOML"]))
    sweeping = Sweeping(ledger, sweep, engine)
    sweeping.begin()
    wait_until(lambda: "could not be given back" in caplog.text)

    def begun_again() -> bool:
        sweeping.begin()
        return sweep.begun > 1

    wait_until(begun_again)


def test_none_is_begun_after_the_end(ledger, engine):
    begin(ledger, "lea-1", dead_owner())
    sweep = Scripted()
    sweeping = Sweeping(ledger, sweep, engine)
    sweeping.end()
    sweeping.begin()
    assert (sweep.begun, engine.running) == (0, False)
