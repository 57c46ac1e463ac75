"""What every memory does, whatever keeps it. Its calls block; any thread may make them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.memory import Draft, Edge, Erased, Memory, MemoryCounts, Neighbourhood, Query, Recalled, Tier


class Closing(ABC):
    """A store that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryStore(Protocol):
    """Keeps memories and finds them again.

    Every method raises `MemoryUnavailable` when the store cannot be reached, and `MemoryUnknown` where an id is given
    that it does not have, or that has been erased.
    """

    @property
    def where(self) -> str:
        """What to call it: a path, or an address without a password."""
        ...

    def check(self) -> None:
        """Return when it can be read and written; the gate before every run."""
        ...

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is durable when this returns. A draft whose id is there already changes nothing.

        Raises:
            MemoryInvalid: something in it is wrong; everything that is, is told.
        """
        ...

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, all or none; their ids in the same order. Raises like `remember`, with the number of each."""
        ...

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits a question best, the best first; never what was forgotten or has expired.

        Raises:
            MemoryInvalid: the query cannot be used.
        """
        ...

    def reference(self, memory_id: str) -> Memory:
        """One memory by its id, a forgotten one too."""
        ...

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What every run in these scopes starts with, the most important first."""
        ...

    def create_edge(self, edge: Edge) -> None:
        """Join two memories; an edge that is there gets the new weight."""
        ...

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What is joined to a memory, in both directions, up to `depth` edges away and at most `most` memories."""
        ...

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled; it stays until it is erased."""
        ...

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        ...

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it with its edges for good; with `cascade`, everything that came from it (`came-from`) too."""
        ...

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        ...

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled somebody; it is found a little earlier or later from then on."""
        ...

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """A person says that it may be trusted."""
        ...

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted any more."""
        ...

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        ...

    def export(self) -> Iterator[Memory | Edge]:
        """Everything that can be recalled, then the edges between it, for another store to import."""
        ...

    def close(self) -> None:
        """Give everything back; may be called twice."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, *_: object) -> None:
        """Close it."""
        ...


def ready(store: MemoryStore) -> None:
    """Return when a run may start with this memory.

    What stands in the way is told with what to do about it: no way to it, a wrong key or password, a wrong address, a
    server or tables of the wrong version, a store that may only be read, a full disk, a file that is damaged.

    Raises:
        MemoryUnavailable: it cannot be read and written; whatever went wrong, this is how it is told.
    """
    try:
        store.check()
    except MemoryUnavailable:
        raise
    except KaguraError as error:
        raise MemoryUnavailable(store.where, error.message.rstrip(". "), "See `kagura-kernel doctor`.") from error
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise MemoryUnavailable(store.where, why, "See `kagura-kernel doctor`.") from error
