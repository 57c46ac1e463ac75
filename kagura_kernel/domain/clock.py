"""Time as a part that can be replaced, so that no test ever waits for a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellation ends it at once."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment before the process began."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)


_TICK = 0.05


class PausableClock:
    """Another clock, whose seconds stand still while somebody pauses it, as for a person's answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses = 0
        self._paused_at = self._left_out = 0.0

    def now(self) -> datetime:
        """The time of day, which no pause holds up."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds outside of pauses."""
        return (self._paused_at if self._pauses else self._clock.monotonic()) - self._left_out

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds outside of pauses."""
        due = self.monotonic() + seconds
        while (left := due - self.monotonic()) > 0:
            await self._clock.sleep(max(left, _TICK) if self._pauses else left)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count no time meanwhile; pauses may overlap."""
        if not self._pauses:
            self._paused_at = self._clock.monotonic()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._left_out += self._clock.monotonic() - self._paused_at
