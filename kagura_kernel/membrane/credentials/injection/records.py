"""What is told of leases that are used: each request, where they are, and how much is allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

RequestEnd = Literal["done", "refused", "broken", "limit", "time", "ended"]
"""How a request ended: answered in full; refused here; one side broke it off; a limit of bytes; a limit of time; the
lease was closed meanwhile."""


@dataclass(frozen=True, slots=True)
class InjectedRequest:
    """One request that a program in a box sent through a lease, when it is over. Never a secret, never a query."""

    lease_id: str
    provider: str
    scope: str
    method: str  # `GET`, …; empty when it could not be read
    host: str  # The upstream's host and port
    path: str  # As it was sent, without its query, at most 500 characters, secrets as `*`
    status: int = 0  # What the program was answered; 0 when it was no answer
    bytes_out: int = 0  # Of the request's body
    bytes_in: int = 0  # Of the answer's body
    duration: float = 0.0  # Seconds
    ended: RequestEnd = "done"  # How it ended
    # More about an end that is not `done`, a sentence; where there is one, it begins with an error's code
    detail: str = ""

    def facts(self) -> dict[str, Any]:
        """What an event tells of it; whose lease it was is not part of it."""
        return {
            "method": self.method,
            "host": self.host,
            "path": self.path,
            "status": self.status,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "duration": self.duration,
            "why": self.detail or ("" if self.ended == "done" else self.ended),
        }


RecordRequest = Callable[[InjectedRequest], None]
"""Takes each request when it is over; when it raises, the connection is cut."""


@dataclass(frozen=True, slots=True)
class InjectionView:
    """One way in which a lease can be used just now, for a person or a brain."""

    name: str  # `PROVIDER:SCOPE`
    way: Literal["header", "file", "env"]  # `header`, `file` or `env`
    where: str  # The base URL or file in the box, or the variables' names
    stands_for: str = ""  # For `header`: the upstream
    usable: bool = True  # Whether it works just now; not while the lease is on hold


@dataclass(frozen=True, slots=True)
class InjectionLimits:
    """The limits on one loopback URL; one that is reached ends a request or a connection, never the run."""

    connections: int = 64  # Open at once
    head_bytes: int = 64 * 1024  # Of the head of one request
    head: float = 10.0  # Seconds from its first byte to its last
    keep: float = 60.0  # Seconds that a connection may wait for its next request
    connect: float = 10.0  # Seconds until the upstream is connected, TLS included
    idle: float = 300.0  # Seconds without a byte in either direction
    parted: float = 10.0  # The same for a program that has closed its side of the connection
    total: float = 3600.0  # Seconds that one request may last
    bytes_out: int = 2**30  # Of the body of one request,
    bytes_in: int = 2 * 2**30  # and of one answer
    lease_bytes_out: int = 4 * 2**30  # Of all requests together,
    lease_bytes_in: int = 16 * 2**30  # and of all answers
    rate: float = 100.0  # Requests a second, in the long run; what comes faster is refused
    burst: int = 500  # Requests that may come as fast as they like before `rate` holds


SINGLE = 200
"""So many requests of a lease have a row each; later ones, and refused ones from the first on, are summed up."""

MOST = 4096
"""So many requests one row stands for at most."""

KINDS = 64
"""So many sorts of requests of a lease are told apart: a program makes up methods as it likes."""


@dataclass(slots=True)
class _Batch:
    """Requests of one sort that get one row: so many, twice as many as the row before."""

    most: int
    count: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    last: InjectedRequest | None = None

    def add(self, request: InjectedRequest) -> None:
        self.count += 1
        self.bytes_out += request.bytes_out
        self.bytes_in += request.bytes_in
        self.duration += request.duration
        self.last = request


class Summing:
    """Turns requests into rows; `end` when no more come.

    Args:
        record: Takes what is to be a row, and how many requests it stands for: it is like the last of them, with the
            bytes and seconds of all. When it raises, so does whoever added.
    """

    def __init__(self, record: Callable[[InjectedRequest, int], None]) -> None:
        self._record = record
        self._single: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._batches: dict[tuple[str, str, int, bool], _Batch] = {}

    def add(self, request: InjectedRequest) -> None:
        """One request is over."""
        lease, refused = request.lease_id, request.ended == "refused"
        if not refused and self._single[lease] < SINGLE:
            self._single[lease] += 1
            self._record(request, 1)
            return
        key = lease, request.method, request.status, refused
        if key not in self._batches and self._kinds[lease] >= KINDS:
            key = lease, "", 0, refused
        if key not in self._batches:
            self._kinds[lease] += 1
            self._batches[key] = _Batch(1)
        batch = self._batches[key]
        batch.add(request)
        if batch.count >= batch.most:
            self._batches[key] = _Batch(min(2 * batch.most, MOST))
            self._write(batch)

    def end(self) -> None:
        """Write what was summed up to now."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._write(batch)

    def _write(self, batch: _Batch) -> None:
        if batch.last is not None:
            whole = replace(batch.last, bytes_out=batch.bytes_out, bytes_in=batch.bytes_in, duration=batch.duration)
            self._record(whole, batch.count)
