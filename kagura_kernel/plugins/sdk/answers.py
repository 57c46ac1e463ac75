"""What a server answered, as guest code gets it: bounded, decoded where it is plain text, without cookies.

What its server said may be kept is kept, for a short time and in a small place.
"""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from .faults import TooLarge
from .limits import Budget, Monotonic
from .wire import Answer

MAX_ENTRIES = 32
MAX_KEPT = 4 * 2**20
MAX_SECONDS = 300.0

Key = tuple[str, str]
"""The URL and what was accepted."""

_PIECE = 64 * 1024
_MAX_HEADERS = 64
_MAX_VALUE = 4 * 1024
_MAX_REASON = 100
_KEPT_BACK = frozenset({"set-cookie", "set-cookie2"})
_PLAIN_CONTROLS = frozenset("\t\n\r")
_OK = 200
_FORBIDS = frozenset({"no-store", "no-cache", "private"})
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer."""

    status: int  # From 200 on
    reason: str  # The words after it
    headers: dict[str, str]  # In lower case; several values are joined by commas
    body: bytes  # All of it
    cached: bool = False  # Whether it was kept from an earlier request

    @classmethod
    def without_body(cls, answer: Answer) -> Fetched:
        """The head of an answer, its body left unread."""
        return cls(answer.status, _printable(answer.reason, _MAX_REASON), _headers(answer), b"")

    def shown(self, url: str, redirects: int) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "url": url,
            "status": self.status,
            "reason": self.reason,
            "headers": self.headers,
            "redirects": redirects,
            "cached": self.cached,
            **_body(self.body, self.headers),
        }


def read_answer(answer: Answer, most: int, budget: Budget) -> Fetched:
    """An answer with its body.

    Args:
        answer: Its head has been read.
        most: Bytes that the body may have.
        budget: Pays for them, as they come.

    Raises:
        TooLarge: it has more.
        LimitReached: the budget is used up.
        NoAnswer: it ended before its end.
        OSError: the connection failed, or time is up.
    """
    pieces = []
    size = 0
    if answer.length is not None and answer.length > most:
        raise TooLarge(f"The answer has {answer.length:,} bytes; {most:,} are taken.")
    for piece in answer.pieces(_PIECE):
        budget.take(len(piece))
        size += len(piece)
        if size > most:
            raise TooLarge(f"The answer has more than {most:,} bytes.")
        pieces.append(piece)
    head = Fetched.without_body(answer)
    return Fetched(head.status, head.reason, head.headers, b"".join(pieces))


class Cache:
    """Keeps answers; what was used longest ago goes first. Safe to use from several threads.

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
            return replace(found[1], cached=True)

    def put(self, key: Key, fetched: Fetched) -> None:
        """Keep an answer if its server allows it."""
        seconds = seconds_to_keep(fetched)
        if not seconds:
            return
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (self._now() + seconds, fetched)
            while len(self._kept) > MAX_ENTRIES or sum(len(one.body) for _, one in self._kept.values()) > MAX_KEPT:
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


def _headers(answer: Answer) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in answer.headers:
        lower = _printable(name.lower(), _MAX_REASON)
        if lower in _KEPT_BACK or (lower not in found and len(found) >= _MAX_HEADERS):
            continue
        joined = f"{found[lower]}, {value}" if lower in found else value
        found[lower] = _printable(joined, _MAX_VALUE)
    return found


def _body(body: bytes, headers: dict[str, str]) -> dict[str, str]:
    if headers.get("content-encoding", "identity").lower() == "identity":
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        # A control character takes six bytes in JSON; a file full of them is no text anyway.
        if all(sign >= " " or sign in _PLAIN_CONTROLS for sign in text):
            return {"text": text}
    return {"base64": base64.b64encode(body).decode("ascii")}


def _printable(text: str, most: int) -> str:
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text[:most])
