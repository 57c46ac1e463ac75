"""Time as a part that can be replaced, so that no test ever waits for a deadline, and as a person writes it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from kagura_kernel.domain.errors import UsageError


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


def covered(times: Iterable[tuple[datetime, datetime]]) -> float:
    """Seconds that these times, each from its begin to its end, cover together; what two of them share counts once."""
    whole, until = 0.0, datetime.min.replace(tzinfo=UTC)
    for begun, over in sorted(times):
        if over > (start := max(begun, until)):
            whole += (over - start).total_seconds()
            until = over
    return whole


_AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_time(text: str, now: datetime, option: str = "--since") -> datetime:
    """The moment behind an age or an ISO time; one without a zone is this machine's.

    Raises:
        UsageError: it is neither.
    """
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        example = "15m, 2h, 7d, or 2026-01-31T12:00"
        raise UsageError(f"{option} takes an age or a time in ISO 8601, as in {example}.") from None
