"""The ledger of credentials: what was minted for whom, and has to be given back. It never holds a credential.

A row is one minted credential, not one lease: a lease that is renewed has several. Its life is::

    minting ──▶ live ──▶ owed ──▶ gone
       └──────────────────▲ └──────▲

`minting` is written before the provider is asked, so that a process that dies in between leaves something to look for.
`owed` means that the credential has to be revoked and nobody knows yet that it was. Any number of processes may use
the same ledger; who wants to settle a row claims it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, bindparam, insert, or_, select, update

from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.schema import leases
from kagura_kernel.journal.store import Journal

LeaseState = Literal["minting", "live", "owed", "gone"]

_BEGIN = insert(leases)
_COMPLETE = (
    update(leases)
    .where(leases.c.id == bindparam("key"), leases.c.state == "minting")
    .values(state="live", handle=bindparam("handle"), expires_at=bindparam("expires_at"), dies_at=bindparam("dies_at"))
)
_OWE = (
    update(leases)
    .where(leases.c.id == bindparam("key"), leases.c.state.in_(("minting", "live")))
    .values(state="owed", why=bindparam("why"), ended_at=bindparam("ended_at"), retry_at=bindparam("retry_at"))
)
_POSTPONE = (
    update(leases)
    .where(leases.c.id == bindparam("key"), leases.c.state == "owed")
    .values(
        attempts=leases.c.attempts + 1,
        retry_at=bindparam("retry_at"),
        why=bindparam("why"),
        claimed_by=None,
        claimed_until=None,
    )
)
_CLOSE = (
    update(leases)
    .where(leases.c.id == bindparam("key"), leases.c.state != "gone")
    .values(
        state="gone",
        handle="",
        why=bindparam("why"),
        ended_at=bindparam("ended_at"),
        retry_at=None,
        claimed_by=None,
        claimed_until=None,
    )
)
_CLAIM = (
    update(leases)
    .where(
        leases.c.id == bindparam("key"),
        leases.c.state != "gone",
        or_(
            leases.c.claimed_by.is_(None),
            leases.c.claimed_by.in_((bindparam("who"), bindparam("over"))),
            leases.c.claimed_until < bindparam("now"),
        ),
    )
    .values(claimed_by=bindparam("who"), claimed_until=bindparam("until"))
)
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
    state: LeaseState = "minting"  # `minting`, `live`, `owed` or `gone`
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
            writing.connection.execute(_BEGIN, values)
        return True

    def is_live(self, key: str) -> bool:
        """Whether a credential may be used as far as the ledger knows: it was minted, and nobody has taken it back."""
        found = self._journal.read(_STATE, {"key": key})
        return bool(found) and found[0].state == "live"

    def complete(self, key: str, *, handle: str, expires_at: datetime, dies_at: datetime) -> bool:
        """Write down that it was minted; False when somebody has settled the row meanwhile, and it must not be used."""
        return self._change(
            _COMPLETE,
            {"key": key, "handle": as_text(handle), "expires_at": stamp(expires_at), "dies_at": stamp(dies_at)},
            flush=True,
        )

    def owe(self, key: str, why: str, *, due: datetime | None = None) -> bool:
        """Write down that it has to be revoked; False when that, or more, is known already.

        Args:
            key: The row.
            why: Why.
            due: No sweep touches it before, UTC, while its process lives; None is at once.
        """
        now = stamp(self._journal.clock.now())
        retry_at = stamp(due) if due else None
        return self._change(_OWE, {"key": key, "why": as_text(why), "ended_at": now, "retry_at": retry_at})

    def postpone(self, key: str, *, until: datetime, why: str) -> bool:
        """Write down that revoking it failed, and give up the claim; False when it is not owed."""
        return self._change(_POSTPONE, {"key": key, "retry_at": stamp(until), "why": as_text(why)})

    def close(self, key: str, why: str) -> bool:
        """Write down that it is gone; False when that is known already. What revoked it is forgotten."""
        now = stamp(self._journal.clock.now())
        return self._change(_CLOSE, {"key": key, "why": as_text(why), "ended_at": now})

    def claim(self, key: str, *, by: str, until: datetime, over: str = "") -> bool:
        """Settle this row alone until then; False when another one does, or when it is gone.

        Args:
            key: The row.
            by: Who claims it; claiming twice is fine.
            until: When the claim lapses by itself, UTC.
            over: A claim that does not count, because whoever made it is gone.
        """
        values = {
            "key": key,
            "who": as_text(by),
            "over": as_text(over),
            "now": stamp(self._journal.clock.now()),
            "until": stamp(until),
        }
        return self._change(_CLAIM, values)

    def open_rows(self) -> list[LeaseRow]:
        """Everything that is not gone, the oldest first, of all runs in all processes."""
        return [_row(found) for found in self._journal.read(_OPEN)]

    def row(self, key: str) -> LeaseRow | None:
        """One row; None when there is none."""
        found = self._journal.read(_ONE, {"key": key})
        return _row(found[0]) if found else None

    def rows(self, *, run_ids: Sequence[str] = (), limit: int = 1000) -> list[LeaseRow]:
        """The newest rows first, of these runs or of all, gone ones included."""
        query = select(leases)
        if run_ids:
            query = query.where(leases.c.run_id.in_(run_ids))
        query = query.order_by(leases.c.began_at.desc(), leases.c.id.desc()).limit(limit)
        return [_row(found) for found in self._journal.read(query)]

    def _change(self, statement: Any, values: Mapping[str, Any], *, flush: bool = False) -> bool:
        with self._journal.writing(flush=flush) as writing:
            return bool(writing.connection.execute(statement, dict(values)).rowcount == 1)


def _row(found: Row[Any]) -> LeaseRow:
    return LeaseRow(
        id=found.id,
        lease_id=found.lease_id,
        run_id=found.run_id,
        session_id=found.session_id,
        owner=found.owner,
        provider=found.provider,
        scope=found.scope,
        began_at=moment(found.began_at),
        expires_at=moment(found.expires_at),
        dies_at=moment(found.dies_at),
        total_seconds=found.total_seconds,
        spent_seconds=found.spent_seconds,
        renewals_left=found.renewals_left,
        state=found.state,
        handle=found.handle,
        attempts=found.attempts,
        retry_at=moment(found.retry_at) if found.retry_at else None,
        claimed_by=found.claimed_by or "",
        ended_at=moment(found.ended_at) if found.ended_at else None,
        why=found.why,
    )
