"""Answers that a server said may be kept, for a short time and in a small place. Safe to use from several threads."""

from __future__ import annotations

import dataclasses
import threading
import time

from .answers import Fetched
from .limits import Monotonic

MAX_ENTRIES = 32
MAX_BYTES = 4 * 2**20
MAX_SECONDS = 300.0

Key = tuple[str, str]
"""The URL and what was accepted."""

_OK = 200
_FORBIDS = frozenset({"no-store", "no-cache", "private"})
_MAX_DIGITS = 9


class Cache:
    """Keeps answers; what was used longest ago goes first.

    Args:
        now: The time.
    """

    def __init__(self, now: Monotonic = time.monotonic) -> None:
        self._now = now
        self._kept: dict[Key, tuple[float, Fetched]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Fetched | None:
        """The answer, unless it is too old."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None or found[0] <= self._now():
                return None
            self._kept[key] = found
            return dataclasses.replace(found[1], cached=True)

    def put(self, key: Key, fetched: Fetched) -> None:
        """Keep an answer if its server allows it."""
        seconds = seconds_to_keep(fetched)
        if not seconds:
            return
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (self._now() + seconds, fetched)
            while len(self._kept) > MAX_ENTRIES or sum(len(one.body) for _, one in self._kept.values()) > MAX_BYTES:
                del self._kept[next(iter(self._kept))]


def seconds_to_keep(fetched: Fetched) -> float:
    """How long an answer may be kept; 0 where its server does not say that anybody may have it."""
    words = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (word.partition("=") for word in fetched.headers.get("cache-control", "").split(","))
    }
    varies = fetched.headers.get("vary", "").strip().lower()
    if fetched.status != _OK or _FORBIDS & set(words) or varies not in {"", "accept", "accept-encoding"}:
        return 0.0
    age = words.get("max-age", "")
    return min(float(age), MAX_SECONDS) if age.isascii() and age.isdigit() and len(age) <= _MAX_DIGITS else 0.0
