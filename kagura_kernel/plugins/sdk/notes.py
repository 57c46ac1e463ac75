"""Lines for the person who looks into a plugin's log; guest code never sees them."""

from __future__ import annotations

import sys
import time

from .faults import LimitReached
from .limits import Monotonic, Rate

LONGEST = 300
A_MINUTE = 60


def note(text: str) -> None:
    """Write one line to the jail's log, cut to a bound, with nothing in it that a terminal would obey."""
    line = "".join(sign if sign.isprintable() else "?" for sign in text[:LONGEST])
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Notes:
    """Notes about what guest code asks for: no more in a minute than a person reads, however often it asks."""

    def __init__(self, now: Monotonic = time.monotonic) -> None:
        self._rate = Rate(((A_MINUTE, 60.0),), "notes", now)

    def add(self, text: str) -> None:
        """Write a line, or none where there were too many."""
        try:
            self._rate.take()
        except LimitReached:
            return
        note(text)
