"""Settling one row of the ledger: whatever the provider holds for it is revoked, or known to be gone.

Used by the broker for what it gives back, and by the sweep for what a crash left. May be done twice, by anyone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import CredentialError, LeaseUnavailable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Revocation, Verdict
from kagura_kernel.membrane.credentials.revoke import pause, surely_arrived, surely_dead

T = TypeVar("T")

PROVIDER_SECONDS = 25.0
"""How long one mint, one revocation or one look-up may take: longer than `provider_http` gives one exchange."""

CLOSE_SECONDS = 8.0
"""How long a broker that closes waits for mints on their way, and for credentials to be taken back."""

LAST_SECONDS = 2.0
"""How long it then waits for one last attempt at what was owed before."""

GRACE_SECONDS = 1.0
"""How long what was called off may take to end; after that it is left to itself."""


async def bounded(provider: str, call: Coroutine[Any, Any, T]) -> T:
    """What a call to a provider of this name gives within `PROVIDER_SECONDS`.

    Raises:
        LeaseUnavailable: it took longer; whether it had acted by then is unknown.
        BaseException: what the call raises.
    """
    task = asyncio.create_task(call, name=f"ask {provider}")
    try:
        await asyncio.wait({task}, timeout=PROVIDER_SECONDS)
    finally:
        if not task.done():
            await call_off({task})
    if not task.done() or task.cancelled():
        raise LeaseUnavailable(provider, f"it did not answer within {PROVIDER_SECONDS:g} s", uncertain=True)
    return task.result()


async def call_off(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, but not for one that will not."""
    for task in tasks:
        task.cancel()
        # Asking for the error keeps asyncio from complaining that nobody did.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE_SECONDS)


async def finish(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for tasks, at most so long, and end the rest; whoever is cancelled meanwhile ends them all."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, seconds))
    finally:
        rest = [task for task in tasks if not task.done()]
        for task in rest:
            task.cancel()
        # Theirs to clean up in, which the bounds on what they call make short.
        if rest:
            await asyncio.wait(rest)


LEFT_TO_EXPIRE = "left to expire"
"""How a credential ends that its provider cannot revoke."""

UNSURE = "it is not known whether it was minted"
"""Why a credential is owed that may never have been."""

CLAIM = timedelta(minutes=2)
"""How long whoever settles a row has it to themselves: longer than any provider may take to answer."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one row."""

    id: str  # The row
    provider: str
    scope: str  # What the credential was good for
    # `revoked`, `forgotten` (the provider does not know it), `expired`, `left to expire` (it cannot be revoked), `never
    # minted`, or `kept` (to be tried again)
    how: str
    why: str = ""  # For `kept`: why
    retry_in: float = 0.0  # For `kept`: seconds until the next attempt makes sense

    @property
    def done(self) -> bool:
        """Whether the row is closed."""
        return self.how != "kept"


async def settle(
    row: LeaseRow, provider: CredentialProvider | None, ledger: LeaseLedger, clock: Clock, *, chance: float
) -> Settled:
    """Settle one row that is owed and claimed; one attempt.

    Args:
        row: The row as it was read.
        provider: Its provider; None when the configuration does not name it any more.
        ledger: Where the result is written down.
        clock: For what has expired.
        chance: From 0 to 1, spreads the next attempt.

    Raises:
        JournalUnwritable: the result is not written down; the row is settled again later, which does no harm.
    """
    if provider is None:
        answer = Revocation(Verdict.RETRY, "its provider is not configured any more")
    elif not provider.traits.revocable:
        return _close(row, ledger, LEFT_TO_EXPIRE)
    else:
        try:
            answer = await _revoke(row, provider, clock)
        except CredentialError as error:
            after = error.retry_after if isinstance(error, LeaseUnavailable) else None
            answer = Revocation(Verdict.RETRY, error.message if row.handle else f"{UNSURE}: {error.message}", after)
    match answer.verdict:
        case Verdict.REVOKED:
            return _close(row, ledger, "revoked")
        case Verdict.GONE:
            return _close(row, ledger, answer.why or "forgotten")
    now = clock.now()
    if surely_dead(row, now):
        return _close(row, ledger, "expired")
    seconds = pause(row.attempts + 1, chance, answer.retry_after)
    ledger.postpone(row.id, until=now + timedelta(seconds=seconds), why=answer.why)
    return Settled(row.id, row.provider, row.scope, "kept", answer.why, seconds)


async def _revoke(row: LeaseRow, provider: CredentialProvider, clock: Clock) -> Revocation:
    if row.handle:
        return await bounded(provider.name, provider.revoke(row.handle))
    if not provider.traits.findable:
        return Revocation(Verdict.RETRY, f"{UNSURE}, and it cannot be looked up")
    if handle := await bounded(provider.name, provider.find(row.id)):
        return await bounded(provider.name, provider.revoke(handle))
    if surely_arrived(row, clock.now()):
        return Revocation(Verdict.GONE, "never minted")
    return Revocation(Verdict.RETRY, "its mint may still be on the way")


def _close(row: LeaseRow, ledger: LeaseLedger, how: str) -> Settled:
    ledger.close(row.id, how)
    return Settled(row.id, row.provider, row.scope, how)
