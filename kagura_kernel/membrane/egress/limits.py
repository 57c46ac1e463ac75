"""How much, how long, how many and how fast: the limits on what leaves a box, and what counts against them."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """The limits on one run's connections; a limit reached ends the connection, never the run."""

    bytes_out: int = 2**30  # From the box, one connection
    bytes_in: int = 2 * 2**30  # To the box, one connection
    run_bytes_out: int = 4 * 2**30  # From the box, all connections of the run together
    run_bytes_in: int = 16 * 2**30  # To the box, all connections of the run together
    idle: float = 300.0  # Seconds without a byte in either direction
    total: float = 3600.0  # Seconds that one connection may last
    resolve: float = 10.0  # Seconds for the look-up of a name
    connect: float = 10.0  # Seconds until one of a name's addresses has answered
    answer: float = 10.0  # Seconds that a box may take to hear whether it has its connection
    connections: int = 256  # Connected, or being connected, at once
    waiting: int = 1024  # Waiting for their turn, or for an answer of a person or of a resolver, at once
    rate: float = 50.0  # New connections a second, in the long run; what comes faster waits for its turn
    burst: int = 512  # New connections that may come as fast as they like before `rate` holds
    patience: float = 10.0  # Seconds that one may wait for its turn; one that would wait longer is refused
    # Seconds that a look-up or a question to a person goes on after the program that waited for it has hung up: one
    # that was only tired of waiting tries again, and finds the same question open
    linger: float = 15.0
    addresses: int = 8  # Of one name that are tried


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


class Pace:
    """When the next of many may go: a bucket of `burst` that fills with `rate` a second."""

    def __init__(self, rate: float, burst: int, patience: float) -> None:
        self._each = 1 / rate
        self._burst = burst / rate
        self._patience = patience
        self._full_at = float("-inf")

    def take(self, now: float) -> float | None:
        """Seconds that this one has to wait for its turn, 0 for most; None when it would be too long, and has no turn.

        Args:
            now: Monotonic seconds.
        """
        full_at = max(self._full_at, now) + self._each
        wait = full_at - self._burst - now
        if wait > self._patience:
            return None
        self._full_at = full_at
        return wait if wait > SHORTEST else 0.0


SHORTEST = 0.001
"""Seconds that are worth a wait; less may be what sums of fractions leave."""


SHARE = 3
"""One of so many descriptors that the process may have is for connections; runs, boxes and the person need the rest."""

FEW = 16
"""A run that holds fewer connections gets some of the places that are kept from those with many."""


class Places:
    """The connections that all runs of this process may hold together, for each takes a descriptor.

    The last quarter is for runs that hold few: one run, or some together, cannot keep another from the network.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self.taken = 0

    @property
    def most(self) -> int:
        """How many there are."""
        return self._most()

    def take(self, held: int) -> bool:
        """Take one, if there is one for a run that holds so many; give it back."""
        most = self.most
        if self.taken >= (most if held < FEW else most - most // 4):
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """One is free again."""
        self.taken -= 1


def _descriptors() -> int:
    # Asked each time: the person may raise the limit while we run.
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MANY if soft == resource.RLIM_INFINITY else min(MANY, soft // SHARE)


MANY = 16_384
"""Connections of a process whose descriptors are as good as unlimited."""

PLACES = Places(_descriptors)
"""Those of this process. Runs of several cockpits share them, for descriptors belong to the process."""
