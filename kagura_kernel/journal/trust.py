"""Earned trust as the journal tells of it, whichever process wrote it: folded from `trust.changed` rows in their order.

The order of the rows decides, not their times: a proposal counts only where successes stand, a grant only while its
proposal does, and whatever fails takes all of them back. Times are believed as far as they cannot make a span
longer than it was.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import select, text

from kagura_kernel.domain.events import LeaseChanged, TrustChanged
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.journal.schema import LEARNED, events
from kagura_kernel.journal.store import Journal

SIGNALS = frozenset({"exit-code", "verification", "human"})
"""What proves a success; an agent can forge none of them."""

_ROWS = select(events.c.seq, events.c.kind, events.c.run_id, events.c.body)
_TRUST = _ROWS.where(LEARNED, events.c.kind == "trust.changed")
# In the order of its index; by number alone every row of the journal would be looked at.
_LEASES = _ROWS.where(text("kind = 'lease.changed'")).order_by(events.c.run_id, events.c.seq)


@dataclass(frozen=True, slots=True)
class Success:
    """One run that did something of a category, and it went well."""

    run_id: str
    task: str  # By which its task is told apart
    signal: str  # What proves it
    at: datetime  # When, as its row says
    not_before: datetime  # No earlier than this: the latest time that the journal had seen by then
    not_after: datetime  # No later than this: the earliest time that the journal has seen since


@dataclass(frozen=True, slots=True)
class Failure:
    """What set a category back."""

    run_id: str  # The run; empty where a person took the power back
    at: datetime  # When, as its row says
    not_before: datetime  # No earlier than this
    why: str  # Half a sentence


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """How far a category has come."""

    category: str  # Its name
    successes: tuple[Success, ...] = ()  # Since it was last set back, one for each run, in their order
    failure: Failure | None = None  # What set it back last; None while nothing has
    proposed_at: datetime | None = None  # Since when a proposal stands; None where none does
    asked_at: datetime | None = None  # When it was last proposed or refused, no earlier than this
    granted_at: datetime | None = None  # Since when it has graduated; None while it has not
    granted_by: str = ""  # Who allowed that
    # Whether it was graduated, or proposed, when it was last set back, or was taken back by a person
    demoted: bool = False
    earned: bool = False  # Whether it had ever graduated, or been proposed, before it was last set back
    applied: int = 0  # How often its grant has answered
    names: frozenset[str] = frozenset()  # To whom deeds of it have gone well: it answers for no others

    @property
    def graduated(self) -> bool:
        """Whether its grant answers."""
        return self.granted_at is not None

    @property
    def tasks(self) -> int:
        """How many different tasks the successes come from."""
        return len({success.task for success in self.successes})

    def spread(self, now: datetime) -> timedelta:
        """From the first success to the last, at the least."""
        if not self.successes:
            return timedelta()
        first = min(success.not_before for success in self.successes)
        last = max(min(success.not_after, now) for success in self.successes)
        return max(last - first, timedelta())

    def since_failure(self, now: datetime) -> timedelta | None:
        """Since it was last set back, at the least; None while nothing has."""
        return None if self.failure is None else max(now - self.failure.not_before, timedelta())


@dataclass(slots=True)
class TrustFold:
    """What the rows so far add up to; no I/O."""

    standings: dict[str, TrustRecord] = field(default_factory=dict)  # By category
    _latest: datetime | None = None

    def take(self, event: TrustChanged) -> None:
        """Take the next row."""
        if self._latest is not None and event.at < self._latest:
            self._went_back(event.at)
        # A person who takes a power back starts its evidence over, also after a clock that was years ahead.
        anew = event.change == "demoted" and not event.run_id
        self._latest = event.at if anew else max(event.at, self._latest or event.at)
        standing = self.standings.get(event.category) or TrustRecord(event.category)
        self.standings[event.category] = self._changed(standing, event, self._latest)

    def _changed(self, standing: TrustRecord, event: TrustChanged, latest: datetime) -> TrustRecord:
        after = standing
        match event.change:
            case "succeeded":
                after = _with_success(standing, event, latest)
            case "failed" | "demoted":
                after = _set_back(standing, event, latest)
            case "proposed" if standing.successes and not standing.graduated:
                after = replace(standing, proposed_at=event.at, asked_at=latest)
            case "granted" if standing.proposed_at is not None and event.signal == "human":
                after = replace(standing, proposed_at=None, granted_at=event.at, granted_by=event.by, demoted=False)
            case "refused" if standing.proposed_at is not None:
                after = replace(standing, proposed_at=None, asked_at=latest)
            case "applied":
                after = replace(standing, applied=standing.applied + 1)
            case _:
                pass
        return after

    def _went_back(self, at: datetime) -> None:
        """The clock says less than before: of all that was told until now, none happened later than this."""
        for category, standing in self.standings.items():
            successes = tuple(replace(one, not_after=min(one.not_after, at)) for one in standing.successes)
            self.standings[category] = replace(standing, successes=successes)


def _with_success(standing: TrustRecord, event: TrustChanged, latest: datetime) -> TrustRecord:
    if event.signal not in SIGNALS or not event.task:
        return standing
    standing = replace(standing, names=standing.names.union(event.names))
    if any(success.run_id == event.run_id for success in standing.successes):
        return standing
    one = Success(event.run_id, event.task, event.signal, event.at, latest, event.at)
    return replace(standing, successes=(*standing.successes, one))


def _set_back(standing: TrustRecord, event: TrustChanged, latest: datetime) -> TrustRecord:
    earned = standing.graduated or standing.proposed_at is not None
    lost = earned or event.change == "demoted"
    return TrustRecord(
        standing.category,
        failure=Failure(event.run_id, event.at, latest, event.why),
        asked_at=standing.asked_at,
        demoted=standing.demoted or lost,
        earned=standing.earned or earned,
        applied=standing.applied,
    )


class TrustHistory:
    """What one journal says about trust; reads only what is new at each look. Any thread may use it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._fold = TrustFold()
        self._changes: list[TrustChanged] = []
        self._seq = 0
        self._held: dict[str, int] = {}
        self._held_seq = 0

    def look(self) -> Mapping[str, TrustRecord]:
        """How categories stand, by name; one of which nothing is known is not there.

        Raises:
            JournalUnreadable: it cannot be read.
        """
        with self._lock:
            self._catch_up()
            return dict(self._fold.standings)

    def changes(self) -> tuple[TrustChanged, ...]:
        """Every row, in their order. Raises like `look`."""
        with self._lock:
            self._catch_up()
            return tuple(self._changes)

    def held(self, *, before: int | None = None) -> frozenset[str]:
        """The credentials that runs have held, each as `provider:scope`. Raises like `look`.

        Args:
            before: Only those that a run held before this row; None for all of them.
        """
        with self._lock:
            rows = self._journal.read(_LEASES.where(events.c.seq > self._held_seq))
            for row, event in self._journal.told(rows):
                if isinstance(event, LeaseChanged) and event.change == "acquired":
                    name = f"{event.provider}:{event.scope}"
                    self._held[name] = min(row.seq, self._held.get(name, row.seq))
            self._held_seq = max((row.seq for row in rows), default=self._held_seq)
            return frozenset(name for name, seq in self._held.items() if before is None or seq < before)

    def _catch_up(self) -> None:
        rows = self._journal.read(_TRUST.where(events.c.seq > self._seq).order_by(events.c.seq))
        for row, event in self._journal.told(rows):
            if isinstance(event, TrustChanged):
                self._fold.take(event)
                self._changes.append(event)
            self._seq = row.seq
