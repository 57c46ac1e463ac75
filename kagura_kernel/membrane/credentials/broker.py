"""The broker of one run: it mints leases under budgets that a person approved, renews them, and gives them back.

Promises. Nothing is minted without a grant and a budget. A credential is written down before it exists, and whoever is
cancelled while one is made loses the lease, never the record. Past its end, by either clock, a credential is not given
out. When the budget is used up the person is asked again; until they say yes the lease is on hold. After `close` no
task is left, and everything that could be revoked was tried.

A broker belongs to one event loop. It never writes a credential anywhere.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import (
    ApprovalDenied,
    ApprovalRequired,
    JournalError,
    KaguraError,
    LeaseEnded,
    LeaseUnavailable,
    UnknownName,
)
from kagura_kernel.domain.events import LeaseChange
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.membrane.credentials.lease import (
    USED_UP,
    Budget,
    Grant,
    Holder,
    Lease,
    LeaseTerms,
    ask_for,
    require_granted,
)
from kagura_kernel.membrane.credentials.mint import Book
from kagura_kernel.membrane.credentials.provider import CredentialProvider, ProviderTraits
from kagura_kernel.membrane.credentials.revoke import CLOSE_SECONDS, LAST_SECONDS, LEFT_TO_EXPIRE, Settler, finish
from kagura_kernel.membrane.credentials.secret import Credential, Secret

T = TypeVar("T")


_GLANCE = 30.0
_NEARLY = 1e-3


async def sleep_through(clock: Clock, seconds: float) -> None:
    """Wait, and notice within half a minute of waking up that the machine has slept longer than that meanwhile."""
    until, ends = clock.now() + timedelta(seconds=max(0.0, seconds)), clock.monotonic() + seconds
    await clock.sleep(0)
    while (left := min((until - clock.now()).total_seconds(), ends - clock.monotonic())) > _NEARLY:
        await clock.sleep(min(left, _GLANCE))


@dataclass(slots=True, eq=False)
class _Held:
    """One lease that is held or on hold: its present value, and what keeps it."""

    lease: Lease  # With the credential
    ends: float  # When it ends on the clock that never goes back
    replaced: list[str] = field(default_factory=list)  # Rows of its earlier credentials; the last may live a moment
    keeper: asyncio.Task[None] | None = None  # The task that renews it
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # Whoever changes the credential holds it

    def seconds_left(self, clock: Clock) -> float:
        """Until the first of both clocks says that it is over: one may be set, the other sleeps with the machine."""
        if self.lease.ended:
            return 0.0
        return max(0.0, min(self.lease.seconds_left(clock.now()), self.ends - clock.monotonic()))

    async def stop_keeping(self) -> None:
        """End the task that renews it."""
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})


class _Shielding:
    """The shielded work of one broker."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(
        self, work: Coroutine[Any, Any, T], unwanted: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        """The result of the work.

        The work runs to its end in any case; `unwanted` takes its result, shielded as well, when the caller was
        cancelled.
        """
        task = self._start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: self._hand_over(done, unwanted))
            raise

    async def finished(self) -> None:
        """Return when nothing goes on any more; whoever is cancelled leaves it to go on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel what goes on, and return when nothing does."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _hand_over(self, done: asyncio.Task[T], unwanted: Callable[[T], Coroutine[Any, Any, object]] | None) -> None:
        # Asking for the exception also keeps asyncio from complaining that nobody did.
        if done.cancelled() or done.exception() is not None or unwanted is None:
            return
        self._start(unwanted(done.result())).add_done_callback(lambda last: self._hand_over(last, None))


_SYSTEM = SystemClock()
_RELEASED = "it was released"
_REVOKED = "it was revoked"


@dataclass(eq=False, repr=False)
class CredentialBroker:
    """Leases for one run. What reads the ledger raises `JournalUnreadable` when that cannot be done."""

    ledger: LeaseLedger  # Where every credential is written down
    providers: Mapping[str, CredentialProvider]  # Those that are configured, by name
    grants: Collection[Grant]  # What this run may have; a credential outside them is neither given out nor renewed
    holder: Holder  # Whose leases these are
    _: KW_ONLY
    approver: Approver | None = None  # Who is asked for budgets; None when nobody can be
    terms: LeaseTerms = field(default_factory=LeaseTerms)  # How leases are handled
    clock: Clock = _SYSTEM  # For everything that ends
    chance: Callable[[], float] = random.random  # From 0 to 1; spreads renewals and retries
    # Told of every change after it was acquired, with the lease without its credential; neither raises nor waits
    on_change: Callable[[LeaseChange, Lease], None] = lambda _change, _lease: None

    def __post_init__(self) -> None:

        self._held: dict[str, _Held] = {}
        self._shielding = _Shielding()
        self._seen: list[Secret] = []
        self._book = Book(Settler(self.ledger, self.providers, self.holder.owner, clock=self.clock, chance=self.chance))
        self._closed = False

    # ------------------------------------------------------------------ asking

    async def acquire(self, provider: str, scope: str, *, budget: Budget) -> Lease:
        """A lease, renewed in the background until the budget ends, which a person has approved before.

        Raises:
            GrantMissing: this run may not have it.
            UnknownName: there is no such provider, or it has no such scope.
            LeaseRefused: the provider said no.
            LeaseUnavailable: the provider has trouble, after several attempts.
            SecretUnavailable: the provider's own key cannot be read.
            JournalUnwritable: it could not be written down, so it is not used.
        """
        if self._closed:
            raise LeaseEnded(provider, scope, "the run is over")
        grant, source = self._checked(provider, scope)
        if budget.exhausted:
            raise LeaseEnded(provider, scope, USED_UP)
        held = await self._patiently(Lease.ask(grant, budget), source)
        return held.lease.without_credential()

    async def renew(self, lease_id: str) -> Lease:
        """Replace the credential of a lease by a fresh one now; the old one is revoked.

        Raises:
            LeaseEnded: it was released, or its budget has no time or no renewal left.
            GrantMissing: the run may not have it any more.
            LeaseRefused: the provider said no; the old credential stays until its end.
        """
        held = self._find(lease_id)
        await held.stop_keeping()
        try:
            return await self._shielding.run(self._renewed(held))
        finally:
            self._keep(held)

    async def extend(self, lease_id: str, *, reason: str = "") -> Lease:
        """Ask for another budget for a lease, and renew it at once when it is on hold.

        Raises:
            ApprovalRequired: nobody can be asked.
            ApprovalDenied: somebody said no.
            LeaseEnded: it was released.
            KaguraError: as for `renew`.
        """
        held = self._find(lease_id)
        grant, source = self._checked(held.lease.provider, held.lease.scope)
        more = await self._ask(grant, source.traits, reason=reason)
        self._find(lease_id)
        await held.stop_keeping()
        await self._extended(held, more)
        try:
            if held.lease.ended:
                await self._shielding.run(self._renewed(held))
            else:
                self.on_change("extended", held.lease.without_credential())
        finally:
            self._keep(held)
        return held.lease.without_credential()

    # ------------------------------------------------------------------- using

    def credential(self, lease_id: str) -> Credential:
        """The live credential, for whoever puts it where it is used; asked for again each time.

        Raises:
            LeaseEnded: the lease is over or on hold, or somebody has revoked it; nothing is given out.
            GrantMissing: the run may not have it any more.
        """
        held = self._find(lease_id)
        lease = held.lease
        require_granted(self.grants, lease.provider, lease.scope)
        if lease.ended:
            raise LeaseEnded(lease.provider, lease.scope, lease.ended, on_hold=True)
        if lease.credential is None or held.seconds_left(self.clock) <= 0:
            raise LeaseEnded(lease.provider, lease.scope, "its time is up")
        if self._is_taken(held):
            raise LeaseEnded(lease.provider, lease.scope, _REVOKED)
        return lease.credential

    def taken(self) -> tuple[Lease, ...]:
        """What is held here and was revoked by another process, without credentials; to be released."""
        return tuple(held.lease.without_credential() for held in self._held.values() if self._is_taken(held))

    def leases(self) -> tuple[Lease, ...]:
        """What is held or on hold, in the order it was acquired, without credentials: also what a checkpoint keeps."""
        return tuple(held.lease.without_credential() for held in self._held.values())

    def seen_secrets(self) -> tuple[Secret, ...]:
        """Every secret this broker has had, revoked ones included: what must not be shown, for a `Scrubber`."""
        return tuple(self._seen)

    # ------------------------------------------------------------------ ending

    async def release(self, lease_id: str) -> Lease | None:
        """Give a lease back; what is left of its budget. None when it is not held (any more).

        The credential is not given out from the first moment on. When it cannot be revoked now, it is tried again in
        the background, by the next start at the latest. Time that was committed to a revoked credential is not spent.

        Raises:
            JournalError: it could not be written down; the provider was told all the same.
        """
        held = self._held.pop(lease_id, None)
        if held is None:
            return None
        # Before anything can be cancelled: from here on it is not given out, and whoever comes next can revoke it.
        left, row_id = held.seconds_left(self.clock), held.lease.row_id
        held.lease = held.lease.hold(_RELEASED)
        if row_id:
            self._book.note(row_id, _RELEASED)
        for old in held.replaced:
            self._book.hurry(old)
        try:
            await held.stop_keeping()
            async with held.lock:
                how = (await self._book.now(row_id, _RELEASED)).how if row_id else _RELEASED
                if how in {"revoked", "forgotten"}:
                    held.lease = held.lease.refund(left)
                elif how == LEFT_TO_EXPIRE:
                    held.lease = held.lease.hold(how)
        except asyncio.CancelledError:
            # What was begun is finished in the background.
            if row_id:
                self._book.later(row_id, _RELEASED)
            raise
        self.on_change("released", held.lease)
        return held.lease

    async def close(self) -> tuple[Lease, ...]:
        """Give everything back and end; may be called twice. Mints that are on their way are awaited and given back.

        It takes about ten seconds at most, whatever the providers do: what is not done by then stays owed.

        Raises:
            JournalError: not everything could be written down; all was tried, and no task is left all the same.
        """
        self._closed = True
        for held in self._held.values():
            if held.lease.row_id:
                self._book.note(held.lease.row_id, _RELEASED)
        releases = {asyncio.create_task(self.release(held.lease.id)): held for held in self._held.values()}
        try:
            await finish([*releases, asyncio.create_task(self._shielding.finished())], CLOSE_SECONDS)
            await asyncio.gather(*releases, return_exceptions=True)
            left = [self._left_of(held, release) for release, held in releases.items()]
            return tuple(one for one in left if one is not None)
        finally:
            await self._shielding.end()
            await self._book.close(LAST_SECONDS)

    def _left_of(self, held: _Held, release: asyncio.Task[Lease | None]) -> Lease | None:
        if not release.cancelled():
            return release.result()
        # Its provider does not answer: its time is spent, and it stays owed.
        self.on_change("released", held.lease)
        return held.lease.without_credential()

    # ------------------------------------------------------------------- parts

    async def _ask(self, grant: Grant, traits: ProviderTraits, *, reason: str) -> Budget:
        """Another budget, which somebody has allowed just now.

        Raises:
            ApprovalRequired: nobody can be asked.
            ApprovalDenied: somebody said no, or did not answer.
            ApprovalAborted: somebody called the run off.
        """
        if self.approver is None:
            raise ApprovalRequired(f"The credential {grant}", "it is held under a budget, and nobody can be asked")
        now = self.clock.now()
        request = ask_for(grant, self.terms, self.holder, now, note=traits.note, reason=reason)
        decision = await self.approver.approve(request)
        if not decision.allowed:
            raise ApprovalDenied(f"The credential {grant}", decision.refusal)
        return self.terms.budget

    async def _patiently(self, asked: Lease, source: CredentialProvider) -> _Held:
        """A first credential, tried again with growing pauses while the provider has trouble."""
        failures = 0
        while True:
            try:
                return await self._shielding.run(self._first(asked, source), lambda held: self.release(held.lease.id))
            except LeaseUnavailable as error:
                failures += 1
                if failures >= self.terms.attempts:
                    raise
                pause = self.terms.pause(failures, self.chance(), error.retry_after)
            await self.clock.sleep(pause)

    async def _first(self, asked: Lease, source: CredentialProvider) -> _Held:
        lease = await self._minted(source, asked.acquire(self._ttl(source)))
        held = _Held(lease, self.clock.monotonic() + lease.lifetime)
        if self._closed:
            self._book.later(lease.row_id, _RELEASED)
            raise LeaseEnded(lease.provider, lease.scope, "the run is over")
        self._held[lease.id] = held
        self._keep(held)
        return held

    async def _renewed(self, held: _Held) -> Lease:
        async with held.lock:
            lease = held.lease
            self._find(lease.id)
            _, source = self._checked(lease.provider, lease.scope)
            fresh = await self._minted(source, lease.renew(self._ttl(source), held.seconds_left(self.clock)))
            if self._closed or lease.id not in self._held:
                self._book.later(fresh.row_id, _RELEASED)
                raise LeaseEnded(lease.provider, lease.scope, _RELEASED)
            old = held.lease.row_id
            held.lease, held.ends = fresh, self.clock.monotonic() + fresh.lifetime
            if old:
                held.replaced.append(old)
                self._book.later(old, "it was renewed", pause=self.terms.overlap)
        self.on_change("renewed", held.lease.without_credential())
        return held.lease.without_credential()

    def _ttl(self, source: CredentialProvider) -> float:
        return min(self.terms.ttl, source.traits.longest)

    async def _minted(self, source: CredentialProvider, wanted: Lease) -> Lease:
        if self._closed:
            # Whoever waited for another attempt: nobody would give it back before the next start.
            raise LeaseEnded(wanted.provider, wanted.scope, "the run is over")
        lease = await self._book.mint(source, wanted, self.holder)
        self._seen.extend(lease.credential or ())
        return lease

    def _keep(self, held: _Held) -> None:
        if (held.keeper is None or held.keeper.done()) and held.lease.id in self._held and not self._closed:
            held.keeper = asyncio.create_task(self._kept(held), name=f"lease {held.lease.id}")

    async def _kept(self, held: _Held) -> None:
        """Renew until the end; past the budget, ask once; then hold, and give the credential back at its end."""
        failures = 0
        wait = self.terms.renewal_in(held.seconds_left(self.clock), self.chance())
        while True:
            await sleep_through(self.clock, min(wait, held.seconds_left(self.clock)))
            try:
                if held.lease.budget.renewable:
                    await self._shielding.run(self._renewed(held))
                else:
                    await self._held_up(held)
                failures = 0
                wait = self.terms.renewal_in(held.seconds_left(self.clock), self.chance())
            except LeaseUnavailable as error:
                failures += 1
                wait = self.terms.pause(failures, self.chance(), error.retry_after)
                if held.seconds_left(self.clock) <= 0:
                    self._hold(held, error.message)
                    await sleep_through(self.clock, wait)
            # A no, a journal that does not write, or a provider of others, which raises what it likes: the present
            # credential is good to its end, and that was it.
            except Exception as error:  # noqa: BLE001 - see above
                why = (
                    error.message if isinstance(error, KaguraError) else f"its renewal failed ({type(error).__name__})"
                )
                await sleep_through(self.clock, held.seconds_left(self.clock))
                self._hold(held, why)
                return

    async def _held_up(self, held: _Held) -> None:
        """Ask for another budget while the rest of this one runs; at its end the lease is on hold until the answer."""
        self.on_change("held up", held.lease.without_credential())
        grant, source = self._checked(held.lease.provider, held.lease.scope)
        asking = asyncio.create_task(self._ask(grant, source.traits, reason=USED_UP))
        ending = asyncio.create_task(sleep_through(self.clock, held.seconds_left(self.clock)))
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self._hold(held, f"{USED_UP}, and a person is being asked for more")
            more = await asking
        finally:
            for task in (asking, ending):
                task.cancel()
            await asyncio.gather(asking, ending, return_exceptions=True)
        await self._extended(held, more)
        await self._shielding.run(self._renewed(held))

    async def _extended(self, held: _Held, more: Budget) -> None:
        # A renewal that is under way has the budget from before, and puts it back when it is done.
        async with held.lock:
            held.lease = held.lease.extend(more)

    def _hold(self, held: _Held, why: str) -> None:
        row_id, held.lease = held.lease.row_id, held.lease.hold(why)
        if row_id:
            # A journal that does not write stops the run elsewhere; the attempt to revoke is under way.
            with suppress(JournalError):
                self._book.later(row_id, why)
        self.on_change("on hold", held.lease)

    def _checked(self, provider: str, scope: str) -> tuple[Grant, CredentialProvider]:
        grant = require_granted(self.grants, provider, scope)
        source = self.providers.get(provider)
        if source is None:
            raise UnknownName("credential provider", provider, sorted(self.providers))
        if scope not in source.scopes:
            raise UnknownName(f"scope of {provider}", scope, sorted(source.scopes))
        return grant, source

    def _is_taken(self, held: _Held) -> bool:
        # One on hold has given its credential back itself.
        return bool(held.lease.row_id) and not self.ledger.is_live(held.lease.row_id)

    def _find(self, lease_id: str) -> _Held:
        held = self._held.get(lease_id)
        if held is None:
            raise LeaseEnded("the lease", lease_id, "it was released, or never held")
        return held
