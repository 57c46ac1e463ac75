"""Fewer rows than requests: a program that asks without end must not fill the journal through a lease's URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from kagura_kernel.membrane.credentials.injection.records import InjectedRequest

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
