"""A lease in its broker's hands: the present value, and what belongs to it while it lives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from kagura_kernel.domain.clock import Clock
from kagura_kernel.membrane.credentials.grants import Grant
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.minting import Issue

_GLANCE = 30.0
_NEARLY = 1e-3


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease that is held or on hold.

    Attributes:
        lease: Its present value, with the credential.
        row_id: The ledger's row of that credential; empty when it has been handed over to be revoked.
        ends: When it ends on the clock that never goes back.
        replaced: The rows of its earlier credentials, of which the last may still live for a moment.
        keeper: The task that renews it.
        lock: Whoever changes the credential holds it.
    """

    lease: Lease
    row_id: str
    ends: float
    replaced: list[str] = field(default_factory=list)
    keeper: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

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
