"""A clock that stands still until the test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

from kagura_kernel.domain.late_dataclass import dataclass, field

# How many rounds of the loop a woken sleeper gets before the next one is woken: enough for the tasks it wakes in turn.
_ROUNDS = 20


@dataclass(order=True)
class _Sleeper:
    until: float
    order: int
    woken: asyncio.Future[None] = field(compare=False)

    def wake(self) -> None:
        # A sleeper may sleep on the loop of another thread.
        loop = self.woken.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class FakeClock:
    """`domain.clock.Clock` by hand: deadlines are tested without waiting for them.

    Sleepers wake in the order of their deadlines, and each sees the time at which it asked to be woken.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[_Sleeper] = []
        self._order = count()

    def now(self) -> datetime:
        """The start plus what the clock was moved."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds the clock was moved."""
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """How many wait to be woken."""
        return sum(not sleeper.woken.done() for sleeper in list(self._sleepers))

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved so far; nothing, or less, gives the others one turn."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, _Sleeper(self._elapsed + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move the clock and let whoever wakes run, one after the other, before this returns.

        Sleepers on the loop of another thread are woken too; how far they then get is up to their thread.
        """
        target = self._elapsed + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0].until <= target:
            sleeper = heapq.heappop(self._sleepers)
            if sleeper.woken.done():
                continue
            self._elapsed = max(self._elapsed, sleeper.until)
            sleeper.wake()
            await self._settle()
        self._elapsed = target

    async def until_sleeping(self, sleepers: int = 1) -> None:
        """Return when at least so many sleep; a test then knows that it is not too early to move the clock."""
        # Asked again and again, for the one who is about to sleep may do so on the loop of another thread.
        while self.sleepers < sleepers:  # noqa: ASYNC110 - an asyncio.Event belongs to one loop
            await asyncio.sleep(0.001)

    async def _settle(self) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
