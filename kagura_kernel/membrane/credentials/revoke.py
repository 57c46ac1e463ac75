"""Revoking: what a provider's answer means, one row of the ledger settled, the sweep, and a person's word.

A credential that the provider does not know any more is forgotten. Everything else that is not a success (a wrong key,
a limit, an outage, an answer that makes no sense) may pass, so the credential is kept and tried again.

A broker settles what it gives back, the sweep at every start what a crash left. Nothing of a process that may still
live is swept. Any number of processes may be at it: a row is claimed by one, and revoking twice does no harm. At a
person's word credentials end now, whichever process holds them: the ledger is changed first, and a broker whose
credential's row is not live any more gives that credential to nobody.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import CredentialError, LeaseUnavailable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Revocation, Verdict

T = TypeVar("T")

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 300.0
SKEW = timedelta(minutes=5)
"""How wrong our clock may be before a credential that should have died is taken to be dead."""
LATE_ARRIVAL = timedelta(minutes=2)
"""How long a request that was on its way when its process died may still make a credential."""

_GONE = frozenset({404, 410})


def judge(status: int, *, retry_after: float | None = None) -> Revocation:
    """What an HTTP status in answer to a revocation means."""
    if 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls success
        return Revocation(Verdict.REVOKED)
    if status in _GONE:
        return Revocation(Verdict.GONE)
    return Revocation(Verdict.RETRY, f"HTTP {status}", retry_after)


def pause(attempts: int, chance: float, retry_after: float | None = None) -> float:
    """Seconds until the next attempt, after so many failed ones.

    Args:
        attempts: How many failed, this one included.
        chance: From 0 to 1; spreads those who would otherwise all come back at once.
        retry_after: What the provider asked for; it is never undercut, except where it asks for more than an hour.
    """
    doubled = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 16))
    spread = doubled * (0.75 + 0.5 * chance)
    return max(spread, min(retry_after or 0.0, 3600.0))


def surely_dead(row: LeaseRow, now: datetime) -> bool:
    """Whether the provider itself has ended it by now, even by a clock that is somewhat wrong."""
    return now > row.dies_at + SKEW


def surely_arrived(row: LeaseRow, now: datetime) -> bool:
    """Whether a mint that began then has happened by now if it ever will."""
    return now > row.began_at + LATE_ARRIVAL


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
    crew = _Crew(ledger, providers, owner_alive, owner, clock, chance)

    async def one(row: LeaseRow) -> Settled | None:
        async with crew.turn:
            if not crew.claims(row):
                return None
            ledger.owe(row.id, "its process is gone")
            # Read again: another process may have got further between the reading and the claim.
            fresh = ledger.row(row.id)
            return None if fresh is None or fresh.state == "gone" else await crew.settle(fresh)

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


class _Crew:
    """Settles many rows, some at once, under one claim."""

    def __init__(
        self,
        ledger: LeaseLedger,
        providers: Mapping[str, CredentialProvider],
        owner_alive: Callable[[str], bool],
        owner: str,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._providers = providers
        self._owner_alive = owner_alive
        self._claim = claim_name(owner)
        self._clock = clock
        self._chance = chance
        self.turn = asyncio.Semaphore(_AT_ONCE)

    def claims(self, row: LeaseRow) -> bool:
        """Whether the row is this crew's; the claim of a process that is gone does not count."""
        held = row.claimed_by
        over = held if held and not self._owner_alive(claimed_by_owner(held)) else ""
        return self._ledger.claim(row.id, by=self._claim, until=self._clock.now() + CLAIM, over=over)

    async def settle(self, row: LeaseRow) -> Settled:
        """One attempt."""
        return await settle(row, self._providers.get(row.provider), self._ledger, self._clock, chance=self._chance())


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
    crew = _Crew(ledger, providers, owner_alive, owner, clock, chance)

    async def one(row: LeaseRow) -> Revoked:
        async with crew.turn:
            ledger.owe(row.id, f"revoked by {by}")
            claimed = crew.claims(row)
            # Read again: what revokes it may be known only since then.
            fresh = ledger.row(row.id)
            if fresh is None or fresh.state == "gone":
                how = fresh.why if fresh is not None else "forgotten"
                return Revoked(row, Settled(row.id, row.provider, row.scope, how))
            if not claimed:
                why = "another process is revoking it"
                return Revoked(row, Settled(row.id, row.provider, row.scope, "kept", why, CLAIM.total_seconds()))
            return Revoked(row, await crew.settle(fresh))

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
