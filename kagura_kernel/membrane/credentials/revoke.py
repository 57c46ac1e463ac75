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
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import CredentialError, LeaseUnavailable
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
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

    What the provider asked for is never undercut, except where it asks for more than an hour. `chance`, from 0 to 1,
    spreads those who would otherwise all come back at once.
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


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did."""

    settled: tuple[Settled, ...] = ()  # One entry for each row that was this sweep's to settle, the oldest first
    retry_in: float | None = None  # Seconds until the next sweep makes sense; None when nothing is owed any more

    @property
    def kept(self) -> tuple[Settled, ...]:
        """Those that have to be tried again."""
        return tuple(one for one in self.settled if not one.done)


@dataclass(frozen=True, slots=True)
class Revoked:
    """What became of one credential."""

    row: LeaseRow
    settled: Settled  # What came of it

    @property
    def dead(self) -> bool:
        """Whether the credential opens nothing any more."""
        return self.settled.done and self.settled.how != LEFT_TO_EXPIRE


_AT_ONCE = 8
_ROUNDS = 5


@dataclass(eq=False, repr=False)
class Settler:
    """Settles rows for one process, some at once, under one claim.

    Every method raises `JournalUnwritable` when the ledger does not take a result (what was not written down is settled
    again, which does no harm), and `JournalUnreadable` when it cannot be read.
    """

    ledger: LeaseLedger
    providers: Mapping[str, CredentialProvider]  # Those that are configured, by name
    owner: str  # This process, for the claims
    # Whether the process of a row or of a claim may still run; `journal.owner.owner_alive`
    owner_alive: Callable[[str], bool] = lambda _owner: True
    _: KW_ONLY
    clock: Clock = field(default_factory=SystemClock)  # For what is due and what has expired
    chance: Callable[[], float] = random.random  # From 0 to 1; spreads the next attempts

    def __post_init__(self) -> None:
        self._claim = f"{self.owner}#{secrets.token_hex(4)}"
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def claims(self, row: LeaseRow) -> bool:
        """Whether the row is this one's to settle; the claim of a process that is gone does not count."""
        held = row.claimed_by
        over = held if held and not self.owner_alive(held.rpartition("#")[0]) else ""
        return self.ledger.claim(row.id, by=self._claim, until=self.clock.now() + CLAIM, over=over)

    async def settle(self, row: LeaseRow) -> Settled:
        """Settle one row that is owed and claimed; one attempt. Rows of a provider without settings wait to expire."""
        provider = self.providers.get(row.provider)
        if provider is None:
            answer = Revocation(Verdict.RETRY, "its provider is not configured any more")
        elif not provider.traits.revocable:
            return self._close(row, LEFT_TO_EXPIRE)
        else:
            try:
                answer = await self._revoke(row, provider)
            except CredentialError as error:
                after = error.retry_after if isinstance(error, LeaseUnavailable) else None
                answer = Revocation(Verdict.RETRY, error.message if row.handle else f"{UNSURE}: {error.message}", after)
            # Providers of others raise what they like, perhaps with the secret in it; the sweep is for all of them.
            except Exception as error:  # noqa: BLE001 - see above
                answer = Revocation(Verdict.RETRY, f"asking its provider failed ({type(error).__name__})")
        match answer.verdict:
            case Verdict.REVOKED:
                return self._close(row, "revoked")
            case Verdict.GONE:
                return self._close(row, answer.why or "forgotten")
        now = self.clock.now()
        if surely_dead(row, now):
            return self._close(row, "expired")
        seconds = pause(row.attempts + 1, self.chance(), answer.retry_after)
        self.ledger.postpone(row.id, until=now + timedelta(seconds=seconds), why=answer.why)
        return Settled(row.id, row.provider, row.scope, "kept", answer.why, seconds)

    async def sweep(self) -> SweepReport:
        """Settle what nobody alive holds, and what is owed and due."""
        rows = [row for row in self.ledger.open_rows() if self._is_due(row)]
        settled = [one for one in await _all(map(self._swept, rows)) if one is not None]
        waits = [one.retry_in for one in settled if not one.done]
        return SweepReport(tuple(settled), min(waits, default=None))

    async def revoke_now(self, wanted: Callable[[LeaseRow], bool], by: str) -> list[Revoked]:
        """Revoke every open row that is wanted; one attempt each, and what a run mints meanwhile as well.

        What its provider does not end now stays owed, for the next sweep. `by` stands in the rows until they are gone.
        """
        done: dict[str, Revoked] = {}
        for _ in range(_ROUNDS):
            rows = [row for row in self.ledger.open_rows() if row.id not in done and wanted(row)]
            if not rows:
                break
            done |= {one.row.id: one for one in await _all(self._revoked(row, f"revoked by {by}") for row in rows)}
        return list(done.values())

    async def _swept(self, row: LeaseRow) -> Settled | None:
        async with self._turn:
            if not self.claims(row):
                return None
            self.ledger.owe(row.id, "its process is gone")
            # Read again: another process may have got further between the reading and the claim.
            fresh = self.ledger.row(row.id)
            return None if fresh is None or fresh.state == "gone" else await self.settle(fresh)

    async def _revoked(self, row: LeaseRow, why: str) -> Revoked:
        async with self._turn:
            self.ledger.owe(row.id, why)
            claimed = self.claims(row)
            # Read again: what revokes it may be known only since then.
            fresh = self.ledger.row(row.id)
            if fresh is None or fresh.state == "gone":
                how = fresh.why if fresh is not None else "forgotten"
                return Revoked(row, Settled(row.id, row.provider, row.scope, how))
            if not claimed:
                why = "another process is revoking it"
                return Revoked(row, Settled(row.id, row.provider, row.scope, "kept", why, CLAIM.total_seconds()))
            return Revoked(row, await self.settle(fresh))

    def _is_due(self, row: LeaseRow) -> bool:
        now = self.clock.now()
        if row.state == "owed":
            return row.retry_at is None or row.retry_at <= now or not self.owner_alive(row.owner)
        return surely_dead(row, now) or not self.owner_alive(row.owner)

    async def _revoke(self, row: LeaseRow, provider: CredentialProvider) -> Revocation:
        if row.handle:
            return await bounded(provider.name, provider.revoke(row.handle))
        if not provider.traits.findable:
            return Revocation(Verdict.RETRY, f"{UNSURE}, and it cannot be looked up")
        if handle := await bounded(provider.name, provider.find(row.id)):
            return await bounded(provider.name, provider.revoke(handle))
        if surely_arrived(row, self.clock.now()):
            return Revocation(Verdict.GONE, "never minted")
        return Revocation(Verdict.RETRY, "its mint may still be on the way")

    def _close(self, row: LeaseRow, how: str) -> Settled:
        self.ledger.close(row.id, how)
        return Settled(row.id, row.provider, row.scope, how)


async def keep_sweeping(
    settler: Callable[[], Settler], told: Callable[[SweepReport], None] = lambda _report: None
) -> None:
    """Sweep again and again, with the pauses that each sweep asks for, until nothing is owed any more.

    The settler is asked for before each sweep, since the providers may be configured anew meanwhile.
    """
    while True:
        present = settler()
        report = await present.sweep()
        told(report)
        if report.retry_in is None:
            return
        await present.clock.sleep(report.retry_in)


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    """What all of it gives; the first error only when all of it has ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
