"""Giving credentials back: now, or in the background with pauses that grow, until the provider knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import CredentialError, JournalError
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.membrane.credentials.lease import Grant, Lease
from kagura_kernel.membrane.credentials.minting import Issue
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.settle import CLAIM, UNSURE, Settled, bounded, finish, settle
from kagura_kernel.membrane.credentials.sweep import claim_name

_GLANCE = 30.0
_NEARLY = 1e-3


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease that is held or on hold."""

    lease: Lease  # Its present value, with the credential
    row_id: str  # The ledger's row of that credential; empty when it has been handed over to be revoked
    ends: float  # When it ends on the clock that never goes back
    # The rows of its earlier credentials, of which the last may still live for a moment
    replaced: list[str] = field(default_factory=list)
    keeper: asyncio.Task[None] | None = None  # The task that renews it
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # Whoever changes the credential holds it

    @classmethod
    def first(cls, issue: Issue, grant: Grant, clock: Clock) -> Self:
        """The lease that a first credential makes."""
        lease = Lease(
            id=issue.lease_id,
            provider=grant.provider,
            scope=grant.scope,
            issued_at=issue.issued_at,
            expires_at=issue.expires_at,
            budget=issue.budget,
            credential=issue.credential,
        )
        return cls(lease, issue.row_id, clock.monotonic() + issue.lasting)

    def take(self, issue: Issue, clock: Clock) -> None:
        """Go on with a fresh credential, also after it was on hold."""
        if self.row_id:
            self.replaced.append(self.row_id)
        self.row_id = issue.row_id
        self.ends = clock.monotonic() + issue.lasting
        self.lease = replace(
            self.lease,
            issued_at=issue.issued_at,
            expires_at=issue.expires_at,
            budget=issue.budget,
            renewals=self.lease.renewals + 1,
            ended="",
            credential=issue.credential,
        )

    def seconds_left(self, clock: Clock) -> float:
        """Until the first of both clocks says that it is over: one may be set, the other sleeps with the machine."""
        if self.lease.ended:
            return 0.0
        return max(0.0, min(self.lease.seconds_left(clock.now()), self.ends - clock.monotonic()))

    def put_on_hold(self, why: str) -> None:
        """Forget the credential."""
        self.lease = replace(self.lease, ended=why, credential=None)

    async def stop_keeping(self) -> None:
        """End the task that renews it."""
        keeper = self.cancel_keeper()
        if keeper is not None:
            await asyncio.wait({keeper})

    def cancel_keeper(self) -> asyncio.Task[None] | None:
        """Tell that task to end; it, if there is one."""
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            keeper.cancel()
        return keeper


async def sleep_through(clock: Clock, seconds: float) -> None:
    """Wait, and notice within half a minute of waking up that the machine has slept longer than that meanwhile."""
    until, ends = clock.now() + timedelta(seconds=max(0.0, seconds)), clock.monotonic() + seconds
    await clock.sleep(0)
    while (left := min((until - clock.now()).total_seconds(), ends - clock.monotonic())) > _NEARLY:
        await clock.sleep(min(left, _GLANCE))


_BROKEN_OFF = "its revocation was broken off before its provider answered"


class GivingBack:
    """What one broker owes. What it cannot settle stays in the ledger for the next sweep."""

    def __init__(
        self,
        ledger: LeaseLedger,
        providers: Mapping[str, CredentialProvider],
        clock: Clock,
        chance: Callable[[], float],
        owner: str,
    ) -> None:
        self._ledger = ledger
        self._providers = providers
        self._clock = clock
        self._chance = chance
        self._claim = claim_name(owner)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._handles: dict[str, tuple[str, str]] = {}
        self._closing = False

    def know(self, row_id: str, provider: str, handle: str) -> None:
        """Remember what revokes a credential, for the case that the ledger cannot be read any more."""
        self._handles[row_id] = provider, handle

    def note(self, row_id: str, why: str) -> None:
        """Write down that it is owed, if that can be done; `now` or `later` tell when it cannot."""
        with suppress(JournalError):
            self._ledger.owe(row_id, why)

    async def now(self, row_id: str, why: str) -> Settled:
        """Try once; if that is not enough, go on in the background. Whoever is cancelled meanwhile calls `later`.

        Raises:
            JournalError: it could not be written down; the provider was told all the same.
        """
        try:
            self._ledger.owe(row_id, why)
            settled = await self._once(row_id)
        except JournalError:
            await self._off_the_book(row_id)
            raise
        if not settled.done:
            self._start(row_id, settled.retry_in)
        return settled

    def later(self, row_id: str, why: str, *, pause: float = 0.0) -> None:
        """Write down that it is owed, and revoke it in the background, after this many seconds.

        Raises:
            JournalError: it could not be written down; it is tried all the same.
        """
        due = self._clock.now() + timedelta(seconds=pause) if pause else None
        try:
            self._ledger.owe(row_id, why, due=due)
        finally:
            self._start(row_id, pause)

    def hurry(self, row_id: str) -> None:
        """Wait no longer with one that is to be revoked in the background."""
        for task in [task for task, waiting in self._tasks.items() if waiting == row_id and not task.done()]:
            task.cancel()
            self._start(row_id, 0.0)

    async def close(self, seconds: float) -> None:
        """End all tasks: each gets one last attempt, and all of them together so many seconds."""
        self._closing = True
        tasks = dict(self._tasks)
        waiting = {row_id for task, row_id in tasks.items() if not task.done()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        last = [asyncio.create_task(self._once(row_id), name=f"revoke {row_id}") for row_id in waiting]
        await finish(last, seconds)
        await asyncio.gather(*last, return_exceptions=True)

    def _start(self, row_id: str, pause: float) -> None:
        if self._closing:
            return
        task = asyncio.create_task(self._again(row_id, pause), name=f"revoke {row_id}")
        self._tasks[task] = row_id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _again(self, row_id: str, pause: float) -> None:
        while True:
            if pause > 0:
                await self._clock.sleep(pause)
            try:
                settled = await self._once(row_id)
            except JournalError:
                await self._off_the_book(row_id)
                return  # whatever the row says now, the next sweep reads it
            if settled.done:
                return
            pause = max(1.0, settled.retry_in)

    async def _once(self, row_id: str) -> Settled:
        row = self._ledger.row(row_id)
        if row is None or row.state == "gone":
            return Settled(row_id, "", "", "forgotten")
        if not self._ledger.claim(row_id, by=self._claim, until=self._clock.now() + CLAIM):
            return Settled(row_id, row.provider, row.scope, "kept", "another process settles it", CLAIM.total_seconds())
        self._ledger.owe(row_id, "it was given back")
        provider = self._providers.get(row.provider)
        try:
            settled = await settle(row, provider, self._ledger, self._clock, chance=self._chance())
        except asyncio.CancelledError:
            # Not ours any more: the next sweep need not wait for the claim to lapse.
            with suppress(JournalError):
                self._ledger.postpone(
                    row_id, until=self._clock.now(), why=_BROKEN_OFF if row.handle else f"{UNSURE}: {_BROKEN_OFF}"
                )
            raise
        if settled.done:
            self._handles.pop(row_id, None)
        return settled

    async def _off_the_book(self, row_id: str) -> None:
        """Tell the provider although it cannot be written down: a journal that fails must not keep a secret alive."""
        name, handle = self._handles.get(row_id, ("", ""))
        provider = self._providers.get(name)
        if provider is not None and provider.traits.revocable:
            with suppress(CredentialError):
                await bounded(provider.name, provider.revoke(handle))
