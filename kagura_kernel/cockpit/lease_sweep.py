"""Credentials that no run holds any more: given back behind everything else, and told in the status.

At the start of a process they are those that killed processes left; later those whose provider would not take them
back when their run ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.cockpit.status import CredentialStatus
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.membrane.credentials.revoke import SweepReport

log = logging.getLogger(__name__)

Sweep = Callable[[Callable[[SweepReport], None]], Coroutine[Any, Any, None]]
"""Sweeps until nothing is owed any more, and tells what each sweep did."""


@dataclass(eq=False)
class Sweeping:
    """The sweeps of one process; for any thread."""

    ledger: LeaseLedger  # Every credential
    sweep: Sweep  # Does it
    engine: Engine  # Where it runs
    alive: Callable[[str], bool] = owner_alive  # Whether a process may still be there
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _going_on: bool = False
    _ended: bool = False
    _done: dict[str, CredentialStatus] = field(default_factory=dict)

    def begin(self) -> None:
        """Sweep, unless nothing is left to be given back or it goes on already; returns at once.

        Raises:
            JournalUnreadable: the ledger cannot be read.
        """
        if not self._left():
            return
        with self._lock:
            if self._going_on or self._ended:
                return
            self._going_on = True
        self.engine.submit(self._swept())

    def end(self) -> None:
        """Begin none any more; what goes on ends with the engine."""
        with self._lock:
            self._ended = True

    @property
    def swept(self) -> tuple[CredentialStatus, ...]:
        """What has been settled so far, in the order in which it was."""
        with self._lock:
            return tuple(self._done.values())

    def owed(self) -> tuple[CredentialStatus, ...]:
        """What is not known to be gone yet, the oldest first.

        Raises:
            JournalUnreadable: the ledger cannot be read.
        """
        return tuple(CredentialStatus(row.id, row.provider, row.scope, "owed", _why(row)) for row in self._left())

    def _left(self) -> list[LeaseRow]:
        # What a living process owes and has not failed to give back is on its way.
        return [row for row in self.ledger.open_rows() if row.attempts or not self.alive(row.owner)]

    async def _swept(self) -> None:
        try:
            await self.sweep(self._hear)
        except KaguraError as error:
            # Nobody waits for it: the rows stay, the status tells them, and the next start tries again.
            log.warning("Credentials that no run holds could not be given back: %s", error.message)
        finally:
            with self._lock:
                self._going_on = False

    def _hear(self, report: SweepReport) -> None:
        with self._lock:
            for one in report.settled:
                if one.done:
                    self._done[one.id] = CredentialStatus(one.id, one.provider, one.scope, one.how)


def _why(row: LeaseRow) -> str:
    return row.why if row.state == "owed" else "its process is gone"
