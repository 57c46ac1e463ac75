"""What a plugin may use up in all, and how often it may act. Safe to use from several threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .faults import LimitReached

Monotonic = Callable[[], float]
"""Seconds that only grow."""


class Budget:
    """So many of something, for as long as the plugin is enabled; `what` is what an error calls it: `bytes written`."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._used = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many are left."""
        with self._lock:
            return self._total - self._used

    def take(self, count: int) -> None:
        """Use some, all or none. Raises `LimitReached`: fewer are left."""
        with self._lock:
            if count > self._total - self._used:
                raise LimitReached(
                    f"The limit of {self._total:,} {self._what} is reached ({self._total - self._used:,} left). "
                    "It begins anew when a person enables the plugin again."
                )
            self._used += count

    def give_back(self, count: int) -> None:
        """What was taken and not used after all."""
        with self._lock:
            self._used -= count


class Rate:
    """At most so many acts in any window: a number of acts, and the seconds in which they may happen."""

    def __init__(self, windows: tuple[tuple[int, float], ...], what: str, now: Monotonic = time.monotonic) -> None:
        self._windows = windows
        self._what = what
        self._now = now
        self._acts: deque[float] = deque(maxlen=max(most for most, _ in windows))
        self._lock = threading.Lock()

    def take(self) -> None:
        """Count one act, or none when it is one too many.

        Raises `LimitReached`: with the seconds until there is room.
        """
        with self._lock:
            now = self._now()
            for most, seconds in self._windows:
                if len(self._acts) >= most and now - self._acts[-most] < seconds:
                    wait = seconds - (now - self._acts[-most])
                    raise LimitReached(
                        f"The limit of {most:,} {self._what} in {seconds:,.0f} s is reached. "
                        f"Try again in {max(1, round(wait + 0.5)):,} s."
                    )
            self._acts.append(now)
