"""How much, how long and how many: the limits on what leaves a box, and the count of a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """The limits on one run's connections; a limit reached ends the connection, never the run.

    Attributes:
        bytes_out: From the box, one connection.
        bytes_in: To the box, one connection.
        run_bytes_out: From the box, all connections of the run together.
        run_bytes_in: To the box, all connections of the run together.
        idle: Seconds without a byte in either direction.
        total: Seconds that one connection may last.
        resolve: Seconds for the look-up of a name.
        connect: Seconds until one of a name's addresses has answered.
        answer: Seconds that a box may take to hear whether it has its connection.
        connections: Connected, or being connected, at once.
        waiting: Waiting for an answer of a person or of a resolver at once.
        addresses: Of one name that are tried.
    """

    bytes_out: int = 2**30
    bytes_in: int = 2 * 2**30
    run_bytes_out: int = 4 * 2**30
    run_bytes_in: int = 16 * 2**30
    idle: float = 300.0
    total: float = 3600.0
    resolve: float = 10.0
    connect: float = 10.0
    answer: float = 10.0
    connections: int = 256
    waiting: int = 1024
    addresses: int = 8


class Meter:
    """The bytes of one direction: of a connection, which is also counted against its run."""

    def __init__(self, limit: int, run: Meter | None = None) -> None:
        self.count = 0
        self._limit = limit
        self._run = run

    @property
    def left(self) -> int:
        """How many more may pass."""
        own = max(0, self._limit - self.count)
        return own if self._run is None else min(own, self._run.left)

    def add(self, count: int) -> None:
        """So many have passed."""
        self.count += count
        if self._run is not None:
            self._run.add(count)
