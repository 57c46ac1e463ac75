"""Words from other processes are heard soon, and while nobody says one no table of the journal is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until

GLANCES = 5


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Journal]:
    """The journal as another process has it."""
    journal = Journal.open(tmp_path / "home")
    yield journal
    journal.close()


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
