"""What of a person's quota of boxes is taken: a row for each box that runs or stays, of whichever process.

A claim is written before its box is started, in the transaction that counts the others: of two processes that begin at
once only one has the last place. It counts while its process lives. One that is seen to be gone counts no more; one
that cannot be seen from here, on another machine or in another container, renews its claims, and they lapse otherwise.

Whose they are is told by the person's name, where the journal does not show each person their own alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from kagura_kernel.domain.errors import QuotaReached
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.schema import claims
from kagura_kernel.journal.store import Journal

RENEW_SECONDS = 60.0
"""How often a process renews what it has claimed."""

LAPSE = timedelta(minutes=5)
"""How long a claim counts that nobody renews: clocks of machines differ, and a laptop that sleeps is no dead one."""

FORGET = timedelta(days=1)
"""How long one stays that counts no more, should its process come back."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One box's share of a quota."""

    id: str
    run_id: str  # The run that it was started for
    user: str  # Whose quota
    owner: str  # The process that has it, as `journal.owner` writes it
    cpus: float  # Cores
    memory_mib: int


@dataclass(frozen=True, slots=True)
class BoxQuota:
    """How much the boxes of one person may have at once; 0 for any number."""

    boxes: int = 0
    cpus: float = 0.0
    memory_mib: int = 0

    @property
    def holds(self) -> bool:
        """Whether it limits anything."""
        return bool(self.boxes or self.cpus or self.memory_mib)

    def check(self, wanted: Claim, taken: Sequence[Claim]) -> None:
        """Raises `QuotaReached` where what is wanted does not go beside what is taken."""
        runs = list(dict.fromkeys(one.run_id for one in taken))
        memory = sum(one.memory_mib for one in taken)
        figures = (
            ("quota_boxes", "", self.boxes, len(taken), 1),
            ("quota_cpus", " cores", self.cpus, sum(one.cpus for one in taken), wanted.cpus),
            ("quota_memory_mib", " MiB", self.memory_mib, memory, wanted.memory_mib),
        )
        for setting, unit, most, used, more in figures:
            if most and used + more > most:
                raise QuotaReached.of_boxes(setting, unit, most, used, more, runs)


class Claims:
    """Those in one journal, for any thread.

    Every method raises `JournalUnwritable` or `JournalUnreadable` when the journal says no.
    """

    def __init__(self, journal: Journal, alive: Callable[[str], bool] = owner_alive, *, by_name: bool = False) -> None:
        self._journal = journal
        self._alive = alive
        self._by_name = by_name

    def take(self, claim: Claim, quota: BoxQuota) -> None:
        """Write down that a box is about to be started.

        Raises:
            QuotaReached: it would be more than the person may have; nothing was written.
        """
        with self._journal.writing() as writing:
            found = writing.connection.execute(self._query(claim.user)).fetchall()
            gone = [row.id for row in found if not self._alive(row.owner) or self._lapsed(row, FORGET)]
            if gone:
                writing.connection.execute(delete(claims).where(claims.c.id.in_(gone)))
            quota.check(claim, [_claim(row) for row in found if row.id not in gone and not self._lapsed(row)])
            writing.connection.execute(insert(claims), self._values(claim))

    def renew(self, ids: Iterable[str]) -> None:
        """Let these count on."""
        until = stamp(self._journal.clock.now() + LAPSE)
        with self._journal.writing() as writing:
            writing.connection.execute(update(claims).where(claims.c.id.in_(list(ids))).values(until=until))

    def free(self, claim_id: str) -> None:
        """The box is gone; one that is free already stays so."""
        with self._journal.writing() as writing:
            writing.connection.execute(delete(claims).where(claims.c.id == claim_id))

    def held(self, user: str) -> list[Claim]:
        """What counts now of a person's quota, the oldest first."""
        rows = self._journal.read(self._query(user))
        return [_claim(row) for row in rows if self._alive(row.owner) and not self._lapsed(row)]

    def _query(self, user: str) -> Any:
        query = select(claims).order_by(claims.c.at, claims.c.id)
        return query.where(claims.c.user_name == as_text(user)) if self._by_name else query

    def _lapsed(self, row: Row[Any], since: timedelta = timedelta()) -> bool:
        return moment(row.until) + since < self._journal.clock.now()

    def _values(self, claim: Claim) -> dict[str, Any]:
        now = self._journal.clock.now()
        return {
            "id": claim.id,
            "run_id": as_text(claim.run_id),
            "user_name": as_text(claim.user),
            "owner": as_text(claim.owner),
            "cpus": claim.cpus,
            "memory_mib": claim.memory_mib,
            "at": stamp(now),
            "until": stamp(now + LAPSE),
        }


def _claim(row: Row[Any]) -> Claim:
    return Claim(row.id, row.run_id, row.user_name, row.owner, row.cpus, row.memory_mib)
