"""What the suites for memories work with: a store, its clock, and drafts that are quickly written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.memory import Author, Draft, Query, Recalled, Source, Tier
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)
HUMAN = Source(Author.HUMAN, "Ada")
AGENT = Source(Author.AGENT, "claude", "run-1", "https://example.org/page")

IDS, COUNTED_FEEDBACK, MANY_EDGES = "ids", "counted-feedback", "many-edges"
ANY_MOMENT, NEIGHBOURS = "any-moment", "neighbours"
"""What a store may lack: ids of one's own, feedback that is read back, two edges of different types between the same
two memories, the newest by when they happened instead of by when they were written, and turns that are found by the
words of the turns beside them."""


@dataclass
class MemoryRig:
    """Where stores of one kind are opened."""

    clock: FakeClock  # The time of every store that it opens
    fresh: Callable[[], MemoryStore]  # Opens an empty store
    # Opens the newest of them once more, as another process would; None where a store is gone when closed
    again: Callable[[], MemoryStore] | None = None
    opened: list[MemoryStore] = field(default_factory=list)

    def open(self) -> MemoryStore:
        """An empty store that is closed with the rig."""
        self.opened.append(self.fresh())
        return self.opened[-1]

    def reopen(self) -> MemoryStore:
        """The newest store once more; a test that needs it is skipped where there is no such thing."""
        if self.again is None:
            pytest.skip("this store lives no longer than its object")
        self.opened.append(self.again())
        return self.opened[-1]

    def close(self) -> None:
        """Close every store."""
        for store in self.opened:
            store.close()


class UsesMemory:
    """The fixtures of every suite; `lacks` names what a kind of store cannot do.

    Those who subclass a suite give it the fixture `rig`.
    """

    lacks: frozenset[str] = frozenset()

    @pytest.fixture
    def memory(self, rig: MemoryRig) -> MemoryStore:
        """An empty store."""
        return rig.open()

    @pytest.fixture
    def clock(self, rig: MemoryRig) -> FakeClock:
        """The time of that store."""
        return rig.clock

    def needs(self, ability: str) -> None:
        """Skip a test that asks for what this kind of store refuses; its own tests show that it refuses."""
        if ability in self.lacks:
            pytest.skip(f"this store has no {ability}")


def draft(text: str, **facts: Any) -> Draft:
    """A draft of a trusted memory that a person wrote; `facts` replace its fields."""
    return Draft(**{"text": text, "source": HUMAN, "tier": Tier.TRUSTED, **facts})


def hours(number: float) -> datetime:
    """So many hours after the clock's start."""
    return START + timedelta(hours=number)


def asked(store: MemoryStore, text: str, **facts: Any) -> list[str]:
    """The texts that a question finds, the best first."""
    return texts(store.recall(Query(text, **facts)))


def texts(found: Sequence[Recalled]) -> list[str]:
    """The texts of what was found."""
    return [one.memory.text for one in found]
