"""The sweep at every start: what a crash left at a provider is revoked.

Nothing of a process that may still live is touched. Several processes may sweep at once: each row is claimed by one,
and revoking twice would do no harm.

Revoking at a person's word: credentials end at their providers now, whichever process holds them.

The ledger is changed first. A broker whose credential's row is not live any more gives that credential to nobody.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.revoke import surely_dead
from kagura_kernel.membrane.credentials.settle import CLAIM, Settled, settle

_AT_ONCE = 8
_SYSTEM = SystemClock()


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did."""

    settled: tuple[Settled, ...] = ()  # One entry for each row that was this sweep's to settle, the oldest first
    retry_in: float | None = None  # Seconds until the next sweep makes sense; None when nothing is owed any more

    @property
    def kept(self) -> tuple[Settled, ...]:
        """Those that have to be tried again."""
        return tuple(one for one in self.settled if not one.done)


async def sweep(
    ledger: LeaseLedger,
    providers: Mapping[str, CredentialProvider],
    owner_alive: Callable[[str], bool],
    *,
    owner: str,
    clock: Clock = _SYSTEM,
    chance: Callable[[], float] = random.random,
) -> SweepReport:
    """Settle what nobody alive holds, and what is owed and due.

    Args:
        ledger: The ledger.
        providers: Those that are configured, by name. Rows of others are kept until they expire.
        owner_alive: Whether the process of a row may still run; `journal.owner.owner_alive`.
        owner: This process, for the claims.
        clock: For what is due and what has expired.
        chance: Spreads the next attempts.

    Raises:
        JournalUnwritable: the ledger does not take the results; what was not written down is settled again.
        JournalUnreadable: the ledger cannot be read.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    claimant = claim_name(owner)

    async def one(row: LeaseRow) -> Settled | None:
        async with gate:
            over = row.claimed_by if row.claimed_by and not owner_alive(claimed_by_owner(row.claimed_by)) else ""
            if not ledger.claim(row.id, by=claimant, until=clock.now() + CLAIM, over=over):
                return None
            ledger.owe(row.id, "its process is gone")
            # Read again: another process may have got further between the reading and the claim.
            fresh = ledger.row(row.id)
            if fresh is None or fresh.state == "gone":
                return None
            return await settle(fresh, providers.get(row.provider), ledger, clock, chance=chance())

    rows = [row for row in ledger.open_rows() if _ours_to_settle(row, owner_alive, clock)]
    results = await asyncio.gather(*map(one, rows), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    settled = tuple(result for result in results if isinstance(result, Settled))
    waits = [entry.retry_in for entry in settled if not entry.done]
    return SweepReport(settled, min(waits, default=None))


async def keep_sweeping(
    sweep_once: Callable[[], Awaitable[SweepReport]],
    clock: Clock = _SYSTEM,
    told: Callable[[SweepReport], None] = lambda _report: None,
) -> None:
    """Sweep again and again, with the pauses that each sweep asks for, until nothing is owed any more.

    Args:
        sweep_once: `sweep` with its arguments.
        clock: For the pauses.
        told: Hears what each sweep did.

    Raises:
        JournalError: as `sweep` does.
    """
    while True:
        report = await sweep_once()
        told(report)
        if report.retry_in is None:
            return
        await clock.sleep(report.retry_in)


def claim_name(owner: str) -> str:
    """A fresh name for claims, by which the process behind it is recognised."""
    return f"{owner}#{secrets.token_hex(4)}"


def claimed_by_owner(claim: str) -> str:
    """The process behind such a name."""
    return claim.rpartition("#")[0]


def _ours_to_settle(row: LeaseRow, owner_alive: Callable[[str], bool], clock: Clock) -> bool:
    now = clock.now()
    if row.state == "owed":
        return row.retry_at is None or row.retry_at <= now or not owner_alive(row.owner)
    return surely_dead(row, now) or not owner_alive(row.owner)


_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Revoked:
    """What became of one credential."""

    row: LeaseRow
    settled: Settled  # What came of it

    @property
    def dead(self) -> bool:
        """Whether the credential opens nothing any more."""
        return self.settled.done and self.settled.how != "left to expire"


async def revoke_now(
    ledger: LeaseLedger,
    providers: Mapping[str, CredentialProvider],
    wanted: Callable[[LeaseRow], bool],
    owner_alive: Callable[[str], bool],
    *,
    owner: str,
    by: str,
    clock: Clock = _SYSTEM,
    chance: Callable[[], float] = random.random,
) -> list[Revoked]:
    """Revoke every credential that is wanted; one attempt each, and what a run mints meanwhile as well.

    What its provider does not end now stays owed, for the next sweep.

    Args:
        ledger: The ledger.
        providers: Those that are configured, by name.
        wanted: Which of the open rows.
        owner_alive: Whether the process of a claim may still run; `journal.owner.owner_alive`.
        owner: This process, for the claims.
        by: Who says so; stands in the rows until they are gone.
        clock: For what has expired.
        chance: Spreads the next attempts.

    Raises:
        JournalUnwritable: the ledger does not take the results; revoking again does no harm.
        JournalUnreadable: the ledger cannot be read.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    claimant = claim_name(owner)

    async def one(row: LeaseRow) -> Revoked:
        async with gate:
            ledger.owe(row.id, f"revoked by {by}")
            over = row.claimed_by if row.claimed_by and not owner_alive(claimed_by_owner(row.claimed_by)) else ""
            claimed = ledger.claim(row.id, by=claimant, until=clock.now() + CLAIM, over=over)
            # Read again: what revokes it may be known only since then.
            fresh = ledger.row(row.id)
            if fresh is None or fresh.state == "gone":
                how = fresh.why if fresh is not None else "forgotten"
                return Revoked(row, Settled(row.id, row.provider, row.scope, how))
            if not claimed:
                why = "another process is revoking it"
                return Revoked(row, Settled(row.id, row.provider, row.scope, "kept", why, CLAIM.total_seconds()))
            provider = providers.get(row.provider)
            return Revoked(row, await settle(fresh, provider, ledger, clock, chance=chance()))

    done: dict[str, Revoked] = {}
    for _ in range(_ROUNDS):
        rows = [row for row in ledger.open_rows() if row.id not in done and wanted(row)]
        if not rows:
            break
        for row, result in zip(rows, await asyncio.gather(*map(one, rows), return_exceptions=True), strict=True):
            if isinstance(result, BaseException):
                raise result
            done[row.id] = result
    return list(done.values())
