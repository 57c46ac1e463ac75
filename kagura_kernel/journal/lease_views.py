"""Leases as people see them: as the events of their runs tell them, and as the ledger knows what is still out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import select, text

from kagura_kernel.domain.errors import LeaseEnded, RunUnknown, UnknownName
from kagura_kernel.domain.events import Event, LeaseChanged
from kagura_kernel.journal.encoding import decode
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.schema import events, runs
from kagura_kernel.journal.store import Journal

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
    select(events.c.body)
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
    held = lease_views(decode(row.body) for row in journal.read(_OF_LIVE_RUNS))
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
    return LeaseView(
        lease_id=row.lease_id,
        run_id=row.run_id,
        session_id=row.session_id,
        provider=row.provider,
        scope=row.scope,
        state=row.state if row.state != "gone" else "released",
        expires_at=row.expires_at,
        budget_left=max(0.0, row.total_seconds - row.spent_seconds),
        renewals_left=row.renewals_left,
        why=row.why,
        revocable=row.state != "owed",
    )


def _view(event: LeaseChanged, before: LeaseView | None, *, here: bool) -> LeaseView:
    # How it is used does not change, and is not said again while nothing is in the box.
    way, place = (event.way, event.place) if event.way or before is None else (before.way, before.place)
    return LeaseView(
        lease_id=event.lease_id,
        run_id=event.run_id,
        session_id=event.session_id,
        provider=event.provider,
        scope=event.scope,
        state=_STATES[event.change],
        expires_at=event.expires_at,
        budget_left=event.seconds_left,
        renewals_left=event.renewals_left,
        way=way,
        place=place,
        why=event.why,
        here=here,
    )
