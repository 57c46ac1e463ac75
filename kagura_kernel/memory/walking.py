"""Walks along edges, level by level, wherever the edges are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kagura_kernel.domain.errors.memory import MemoryInvalid
from kagura_kernel.domain.memory import EDGE_TYPES, Edge

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
