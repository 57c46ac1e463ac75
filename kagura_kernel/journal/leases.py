"""The ledger of credentials, never with a credential in it: what was minted, what is owed back, and how it is shown.

A row is one minted credential, not one lease: a lease that is renewed has several. Its life is::

    minting ──▶ live ──▶ owed ──▶ gone
       └──────────────────▲ └──────▲

`minting` is written before the provider is asked, so that a process that dies in between leaves something to look for.
`owed` means that the credential has to be revoked and nobody knows yet that it was. Any number of processes may use
the same ledger; who wants to settle a row claims it first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Row, bindparam, insert, or_, select, text, update

from kagura_kernel.domain.errors import LeaseEnded, RunUnknown, UnknownName
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.rows import made_of
from kagura_kernel.journal.schema import events, leases, runs
from kagura_kernel.journal.store import Journal

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event, LeaseChanged

LedgerState = Literal["minting", "live", "owed", "gone"]

_UNCLAIMED = {"claimed_by": None, "claimed_until": None}
_OPEN = select(leases).where(leases.c.state != "gone").order_by(leases.c.began_at, leases.c.id)
_STATE = select(leases.c.state).where(leases.c.id == bindparam("key"))
_ONE = select(leases).where(leases.c.id == bindparam("key"))


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One minted credential, as the ledger knows it."""

    id: str  # `lea-…`; also its mark at the provider, where that keeps names
    lease_id: str  # The lease it was minted for: the id of that lease's first credential
    run_id: str  # The run that holds it
    session_id: str  # That run's session
    owner: str  # The process of that run, as `journal.owner` writes it
    provider: str  # Name of the provider in its registry
    scope: str  # What it is good for
    began_at: datetime  # When minting began, UTC
    expires_at: datetime  # When the lease of it ends, UTC
    dies_at: datetime  # When the provider itself ends it at the latest, UTC
    total_seconds: float  # The budget behind it: everything that was approved,
    spent_seconds: float  # what of that is spent once this credential ends,
    renewals_left: int  # and how often the lease may still be renewed
    state: LedgerState = "minting"  # `minting`, `live`, `owed` or `gone`
    handle: str = ""  # What revokes it; an id, or something sealed. Empty while nobody knows it, and once it is gone.
    attempts: int = 0  # How often revoking it failed
    retry_at: datetime | None = None  # When to try again, UTC; None is at once
    claimed_by: str = ""  # Who settles it just now; empty when nobody does
    ended_at: datetime | None = None  # When it stopped being live, UTC
    why: str = ""  # Why it is owed, or how it went


class LeaseLedger:
    """The ledger in one journal, for any thread.

    Every method raises `JournalUnwritable` or `JournalUnreadable` when the journal says no.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def begin(self, row: LeaseRow, *, after: str = "", flush: bool = True) -> bool:
        """Write down that a credential is about to be minted.

        Args:
            row: Its row.
            after: The row of the credential that it replaces. When that one is not live any more (somebody has taken
                the lease back), nothing is written, the answer is False, and nothing may be minted.
            flush: Whether it survives a power cut as well.
        """
        values = {
            "id": row.id,
            "lease_id": row.lease_id,
            "run_id": as_text(row.run_id),
            "session_id": as_text(row.session_id),
            "owner": as_text(row.owner),
            "provider": as_text(row.provider),
            "scope": as_text(row.scope),
            "state": "minting",
            "handle": "",
            "began_at": stamp(row.began_at),
            "expires_at": stamp(row.expires_at),
            "dies_at": stamp(row.dies_at),
            "total_seconds": row.total_seconds,
            "spent_seconds": row.spent_seconds,
            "renewals_left": row.renewals_left,
            "attempts": 0,
            "why": "",
        }
        with self._journal.writing(flush=flush) as writing:
            if after and writing.connection.execute(_STATE, {"key": after}).scalar_one_or_none() != "live":
                return False
            writing.connection.execute(insert(leases), values)
        return True

    def is_live(self, key: str) -> bool:
        """Whether a credential may be used as far as the ledger knows: it was minted, and nobody has taken it back."""
        found = self._journal.read(_STATE, {"key": key})
        return bool(found) and found[0].state == "live"

    def complete(self, key: str, *, handle: str, expires_at: datetime, dies_at: datetime) -> bool:
        """Write down that it was minted; False when somebody has settled the row meanwhile, and it must not be used."""
        ends = {"expires_at": stamp(expires_at), "dies_at": stamp(dies_at)}
        values = {"state": "live", "handle": as_text(handle), **ends}
        return self._change(key, leases.c.state == "minting", values, flush=True)

    def owe(self, key: str, why: str, *, due: datetime | None = None) -> bool:
        """Write down that it has to be revoked; False when that, or more, is known already.

        Args:
            key: The row.
            why: Why.
            due: No sweep touches it before, UTC, while its process lives; None is at once.
        """
        times = {"ended_at": stamp(self._journal.clock.now()), "retry_at": stamp(due) if due else None}
        values = {"state": "owed", "why": as_text(why), **times}
        return self._change(key, leases.c.state.in_(("minting", "live")), values)

    def postpone(self, key: str, *, until: datetime, why: str) -> bool:
        """Write down that revoking it failed, and give up the claim; False when it is not owed."""
        values = {"attempts": leases.c.attempts + 1, "retry_at": stamp(until), "why": as_text(why)}
        return self._change(key, leases.c.state == "owed", values | _UNCLAIMED)

    def close(self, key: str, why: str) -> bool:
        """Write down that it is gone; False when that is known already. What revoked it is forgotten."""
        times = {"ended_at": stamp(self._journal.clock.now()), "retry_at": None}
        values = {"state": "gone", "handle": "", "why": as_text(why), **times, **_UNCLAIMED}
        return self._change(key, leases.c.state != "gone", values)

    def claim(self, key: str, *, by: str, until: datetime, over: str = "") -> bool:
        """Settle this row alone until then; False when another one does, or when it is gone.

        Args:
            key: The row.
            by: Who claims it; claiming twice is fine.
            until: When the claim lapses by itself, UTC.
            over: A claim that does not count, because whoever made it is gone.
        """
        held, who, now = leases.c.claimed_by, as_text(by), stamp(self._journal.clock.now())
        free = or_(held.is_(None), held.in_((who, as_text(over))), leases.c.claimed_until < now)
        values = {"claimed_by": who, "claimed_until": stamp(until)}
        return self._change(key, (leases.c.state != "gone") & free, values)

    def open_rows(self) -> list[LeaseRow]:
        """Everything that is not gone, the oldest first, of all runs in all processes."""
        return self._journal.readable(self._journal.read(_OPEN), _row)

    def row(self, key: str) -> LeaseRow | None:
        """One row; None when there is none."""
        found = self._journal.read(_ONE, {"key": key})
        return _row(found[0]) if found else None

    def rows(self, *, limit: int = 1000) -> list[LeaseRow]:
        """The newest rows first, gone ones included."""
        query = select(leases).order_by(leases.c.began_at.desc(), leases.c.id.desc()).limit(limit)
        return self._journal.readable(self._journal.read(query), _row)

    def _change(self, key: str, fits: ColumnElement[bool], values: Mapping[str, Any], *, flush: bool = False) -> bool:
        """Change a row if it fits; whether it did."""
        changing = update(leases).where(leases.c.id == key, fits).values(values)
        with self._journal.writing(flush=flush) as writing:
            return bool(writing.connection.execute(changing).rowcount == 1)


def _row(found: Row[Any]) -> LeaseRow:
    return made_of(
        LeaseRow,
        found,
        began_at=moment(found.began_at),
        expires_at=moment(found.expires_at),
        dies_at=moment(found.dies_at),
        retry_at=moment(found.retry_at) if found.retry_at else None,
        claimed_by=found.claimed_by or "",
        ended_at=moment(found.ended_at) if found.ended_at else None,
    )


LeaseState = Literal["minting", "live", "held up", "on hold", "owed", "released"]

_STATES: dict[str, LeaseState] = {
    "acquired": "live",
    "renewed": "live",
    "extended": "live",
    "held up": "held up",
    "on hold": "on hold",
    "released": "released",
}
# The kind stands there as a word and not as a value: only then the index of these rows is used.
_OF_LIVE_RUNS = (
    select(events.c.seq, events.c.kind, events.c.run_id, events.c.body)
    .where(text("kind = 'lease.changed'"))
    .where(events.c.run_id.in_(select(runs.c.run_id).where(runs.c.status == "running")))
    .order_by(events.c.seq)
)


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One lease, as a person sees it."""

    lease_id: str  # `lea-…`
    run_id: str  # The run that holds it
    session_id: str  # That run's session
    provider: str  # Name of the provider
    scope: str  # What it is good for
    # `live`; `held up` while a person is asked for more; `on hold` when it gives nothing out; `released`. Of the ledger
    # alone: `minting` before it is there, `owed` while it has to be revoked.
    state: LeaseState
    expires_at: datetime | None = None  # When its present credential ends, UTC; None when there is none
    budget_left: float = 0.0  # Seconds of its budget beyond the present credential
    renewals_left: int = 0  # How often it may still be renewed
    way: str = ""  # How programs use it: `header`, `file` or `env`; empty while that is not known
    place: str = ""  # Where they find it; never a secret
    why: str = ""  # More about its state, one clause
    here: bool = False  # Whether a run of this process holds it, so that this process can revoke and extend it
    revocable: bool = False  # Whether the ledger has a credential of it that can be taken back


def lease_views(told: Iterable[Event], *, here: Collection[str] = ()) -> list[LeaseView]:
    """What these events say about leases, in the order in which they were acquired; those given back are left out.

    Args:
        told: In their order; those that are not about leases are passed over.
        here: Runs of this process.
    """
    from kagura_kernel.domain.events import LeaseChanged

    found: dict[str, LeaseView] = {}
    for event in told:
        if isinstance(event, LeaseChanged):
            found[event.lease_id] = _view(event, found.get(event.lease_id), here=event.run_id in here)
    return [view for view in found.values() if view.state != "released"]


def leases_out(journal: Journal) -> list[LeaseView]:
    """Every lease that a run holds, and every credential that is still out, of all processes; the oldest first.

    Raises:
        JournalUnreadable: they cannot be read.
    """
    rows: dict[str, list[LeaseRow]] = {}
    for row in LeaseLedger(journal).open_rows():
        rows.setdefault(row.lease_id, []).append(row)
    held = lease_views(event for _, event in journal.told(journal.read(_OF_LIVE_RUNS)))
    told = {view.lease_id for view in held}
    return [
        *(_with_ledger(view, rows.get(view.lease_id, [])) for view in held),
        *(_of_rows(kept) for lease_id, kept in rows.items() if lease_id not in told),
    ]


def take_back(ledger: LeaseLedger, mailbox: Mailbox, row: LeaseRow, *, by: str) -> None:
    """Take a lease from the run of another process that holds it.

    From here on its broker gives the credential to nobody. It is told, so that it gives it back and says so; where it
    is gone, the next sweep does.

    Raises:
        JournalUnwritable: it could not be written down, and nothing was done.
    """
    for one in ledger.open_rows():
        if one.lease_id == row.lease_id:
            ledger.owe(one.id, f"revoked by {by}")
    with suppress(RunUnknown):
        mailbox.send(row.run_id, "leases", by=by)


def revoke_lease(journal: Journal, lease_id: str, *, by: str) -> str:
    """Take a lease back, whichever process holds it, as `take_back` does; the run that held it. May be called twice.

    Args:
        journal: Which journal.
        lease_id: The lease, or one of its credentials.
        by: Who says so.

    Raises:
        UnknownName: there is no such lease.
        LeaseEnded: it is over.
        JournalError: the journal cannot be used.
    """
    ledger = LeaseLedger(journal)
    out = ledger.open_rows()
    row = next((row for row in out if lease_id in {row.lease_id, row.id}), None)
    if row is None:
        known = ledger.row(lease_id)
        if known is None:
            raise UnknownName("lease", lease_id, sorted({row.lease_id for row in out}))
        raise LeaseEnded(known.provider, known.scope, known.why or "it was given back")
    take_back(ledger, Mailbox(journal), row, by=by)
    return row.run_id


def _with_ledger(view: LeaseView, rows: list[LeaseRow]) -> LeaseView:
    usable = any(row.state != "owed" for row in rows)
    if rows and not usable and view.state == "live":
        return replace(view, state="owed", why=rows[-1].why)
    return replace(view, revocable=usable)


def _of_rows(rows: list[LeaseRow]) -> LeaseView:
    """The newest credential speaks for its lease."""
    row = next((row for row in reversed(rows) if row.state != "owed"), rows[-1])
    return made_of(
        LeaseView,
        row,
        state=row.state if row.state != "gone" else "released",
        budget_left=max(0.0, row.total_seconds - row.spent_seconds),
        revocable=row.state != "owed",
    )


def _view(event: LeaseChanged, before: LeaseView | None, *, here: bool) -> LeaseView:
    # How it is used does not change, and is not said again while nothing is in the box.
    way, place = (event.way, event.place) if event.way or before is None else (before.way, before.place)
    state = _STATES[event.change]
    return made_of(LeaseView, event, state=state, budget_left=event.seconds_left, way=way, place=place, here=here)
