"""What every memory does, whatever keeps it, and a walk along its edges. Calls block; any thread may make them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnavailable
from kagura_kernel.domain.memory import (
    EDGE_TYPES,
    Draft,
    Edge,
    Erased,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Tier,
)


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


DEEPEST = 32
"""Edges that a walk goes away from where it began at most."""
MOST_WALKED = 1_000
"""Memories that a walk tells at most."""

EdgesOf = Callable[[Sequence[str]], Collection[Edge]]
"""The edges that begin or end at any of these memories."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What was reached."""

    ids: tuple[str, ...]  # Where it began, then the others by their distance
    edges: tuple[Edge, ...]  # Between them, in the order of their ends


def check_walk(depth: int, types: Sequence[str], most: int) -> None:
    """Return when a walk can be made so.

    Raises:
        MemoryInvalid: it cannot; everything that is wrong is told.
    """
    problems = []
    if not 0 <= depth <= DEEPEST:
        problems.append(f"the depth is not between 0 and {DEEPEST}")
    if not 1 <= most <= MOST_WALKED:
        problems.append(f"the number of memories is not between 1 and {MOST_WALKED:,}")
    problems += [
        f"{kind!r} is no type of edge; there are {', '.join(EDGE_TYPES)}" for kind in types if kind not in EDGE_TYPES
    ]
    if problems:
        raise MemoryInvalid("The walk", problems)


def walk(
    seed: str, edges_of: EdgesOf, visible: Callable[[Sequence[str]], Collection[str]], *, depth: int, most: int
) -> Walk:
    """Everything up to `depth` edges away, at most `most` memories.

    Args:
        seed: Where to begin; told whether it is visible or not.
        edges_of: Asked once for each level, and once for what was reached.
        visible: Which of these may be told; the others are not walked through.
        depth: How many edges away.
        most: How many memories, with the first.
    """
    told = [seed]
    seen = {seed}
    level: Sequence[str] = [seed]
    for _ in range(depth):
        near = _others(level, edges_of(level), seen)
        seen.update(near)
        may = visible(near) if near else ()
        level = [one for one in near if one in may][: most - len(told)]
        told += level
        if not level:
            break
    known = set(told)
    between = {edge for edge in edges_of(told) if edge.source in known and edge.target in known}
    return Walk(tuple(told), tuple(sorted(between, key=lambda edge: (edge.source, edge.target, edge.type))))


def descendants(seed: str, children_of: Callable[[Sequence[str]], Collection[str]]) -> tuple[str, ...]:
    """A memory, and everything that came from it; circles and diamonds are walked once."""
    told = [seed]
    seen = {seed}
    level: Sequence[str] = [seed]
    while level:
        level = [one for one in dict.fromkeys(children_of(level)) if one not in seen]
        seen.update(level)
        told += level
    return tuple(told)


def _others(level: Sequence[str], edges: Collection[Edge], seen: set[str]) -> list[str]:
    inside = set(level)
    found = {edge.target if edge.source in inside else edge.source for edge in edges}
    found |= {edge.source for edge in edges if edge.target in inside}
    return sorted(found - seen)
