"""Revoking at a person's word: credentials end at their providers now, whichever process holds them.

The ledger is changed first. A broker whose credential's row is not live any more gives that credential to nobody.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.settle import CLAIM, Settled, settle
from kagura_kernel.membrane.credentials.sweep import claim_name, claimed_by_owner

_AT_ONCE = 8
_ROUNDS = 5
_SYSTEM = SystemClock()


@dataclass(frozen=True, slots=True)
class Revoked:
    """What became of one credential.

    Attributes:
        row: Its row, as it was.
        settled: What came of it.
    """

    row: LeaseRow
    settled: Settled

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
