"""A memory that lives in this process and is gone with it; its ranking is simple and honest."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import (
    CAME_FROM,
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
from kagura_kernel.memory.store import (
    Closing,
    check_edge,
    check_named,
    check_query,
    check_walk,
    descendants,
    memories_of,
    memory_of,
    walk,
)
from kagura_kernel.memory.words import Term, index_terms, query_terms

_NEIGHBOUR = 0.3
"""How much of the words of the turns beside it counts for a turn."""
_SYSTEM = SystemClock()


class FakeMemory(Closing):
    """`MemoryStore` in a dictionary.

    Args:
        clock: The time of its memories.
        broken: Why it cannot be reached; empty when it can. May be set at any time.
    """

    def __init__(self, *, clock: Clock = _SYSTEM, broken: str = "") -> None:
        self.where = "a dictionary"
        self.broken = broken
        self._clock = clock
        self._memories: dict[str, Memory] = {}
        self._edges: dict[tuple[str, str, str], float] = {}
        self._lock = threading.RLock()

    def check(self) -> None:
        """Return unless it is broken or closed."""
        if self.broken:
            raise MemoryUnavailable(self.where, self.broken, "Set `broken` to an empty text.")

    def remember(self, draft: Draft) -> Memory:
        """Keep one."""
        self.check()
        memory = memory_of(draft, self._clock.now())
        with self._lock:
            return self._memories.setdefault(memory.id, memory)

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, all or none."""
        self.check()
        memories = memories_of(drafts, self._clock.now())
        with self._lock:
            for memory in memories:
                self._memories.setdefault(memory.id, memory)
        return [memory.id for memory in memories]

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits best; every memory is looked at."""
        self.check()
        check_query(query)
        with self._lock:
            pool = {one.id: one for one in self._memories.values() if self._alive(one)}
        if not query.text.strip():
            listed = [Recalled(one, 1.0) for one in pool.values() if _fits(one, query)]
            return sorted(listed, key=lambda one: (one.memory.at, one.memory.created_at), reverse=True)[: query.k]
        scored = _ranked(pool, query_terms(query.text))
        found = [one for one in scored if _fits(one.memory, query)]
        return sorted(found, key=lambda one: one.score, reverse=True)[: query.k]

    def reference(self, memory_id: str) -> Memory:
        """One by its id."""
        self.check()
        with self._lock:
            if memory_id not in self._memories:
                raise MemoryUnknown(memory_id)
            return self._memories[memory_id]

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What runs in these scopes start with."""
        self.check()
        with self._lock:
            found = [one for one in self._memories.values() if one.pinned and one.scope in scopes and self._alive(one)]
        return sorted((one for one in found if tier in {None, one.tier}), key=lambda one: -one.importance)

    def create_edge(self, edge: Edge) -> None:
        """Join two memories."""
        self.check()
        check_edge(edge)
        with self._lock:
            self.reference(edge.source)
            self.reference(edge.target)
            self._edges[edge.source, edge.target, edge.type] = edge.weight

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What lies around."""
        check_walk(depth, types, most)
        with self._lock:
            self.reference(memory_id)
            walked = walk(
                memory_id,
                lambda ids: [edge for edge in self._edges_of(ids) if not types or edge.type in types],
                lambda ids: {one for one in ids if self._alive(self._memories[one])},
                depth=depth,
                most=most,
            )
            return Neighbourhood(tuple(self._memories[one] for one in walked.ids), walked.edges)

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled."""
        with self._lock:
            memory = self.reference(memory_id)
            return self._put(replace(memory, forgotten_at=memory.forgotten_at or self._clock.now()))

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        with self._lock:
            return self._put(replace(self.reference(memory_id), forgotten_at=None))

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it for good."""
        with self._lock:
            self.reference(memory_id)
            lost = descendants(memory_id, self._children_of) if cascade else (memory_id,)
            edges = self._edges_of(lost)
            for edge in edges:
                del self._edges[edge.source, edge.target, edge.type]
            for one in lost:
                del self._memories[one]
            return Erased(lost, len(edges))

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        with self._lock:
            return self._put(replace(self.reference(memory_id), pinned=on))

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled."""
        with self._lock:
            memory = self.reference(memory_id)
            if helped:
                return self._put(replace(memory, helped=memory.helped + 1))
            return self._put(replace(memory, misled=memory.misled + 1))

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """It may be trusted."""
        check_named("name", by)
        with self._lock:
            return self._put(replace(self.reference(memory_id), tier=Tier.TRUSTED, promoted_by=by))

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted."""
        with self._lock:
            return self._put(replace(self.reference(memory_id), tier=Tier.QUARANTINE, promoted_by=""))

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        self.check()
        with self._lock:
            alive = [one for one in self._memories.values() if self._alive(one)]
            forgotten = sum(one.forgotten_at is not None for one in self._memories.values())
            quarantined = sum(one.tier is Tier.QUARANTINE for one in alive)
            return MemoryCounts(len(alive), quarantined, forgotten, len(self._edges))

    def export(self) -> Iterator[Memory | Edge]:
        """What can be recalled, then its edges."""
        self.check()
        with self._lock:
            alive = {one.id: one for one in self._memories.values() if self._alive(one)}
            edges = self._edges_of(tuple(alive))
        yield from alive.values()
        yield from (edge for edge in edges if edge.source in alive and edge.target in alive)

    def close(self) -> None:
        """Nothing answers from then on."""
        self.broken = self.broken or "it is closed"

    def _alive(self, memory: Memory) -> bool:
        ended = memory.expires_at is not None and memory.expires_at <= self._clock.now()
        return memory.forgotten_at is None and not ended

    def _put(self, memory: Memory) -> Memory:
        self._memories[memory.id] = memory
        return memory

    def _edges_of(self, ids: Collection[str]) -> list[Edge]:
        inside = set(ids)
        return [Edge(*key, weight) for key, weight in self._edges.items() if inside & {key[0], key[1]}]

    def _children_of(self, ids: Collection[str]) -> list[str]:
        return [edge.source for edge in self._edges_of(ids) if edge.type == CAME_FROM and edge.target in ids]


def _fits(memory: Memory, query: Query) -> bool:
    wanted = all if query.all_tags else any
    return (
        (not query.types or memory.type in query.types)
        and (not query.tags or wanted(tag in memory.tags for tag in query.tags))
        and query.tier in {None, memory.tier}
        and (query.scopes is None or memory.scope in query.scopes)
        and (query.since is None or memory.at >= query.since)
        and (query.until is None or memory.at < query.until)
        and memory.importance >= query.min_importance
    )


def _ranked(pool: dict[str, Memory], terms: Sequence[Term]) -> list[Recalled]:
    own = {one.id: Counter(index_terms(" ".join((one.text, one.summary, *one.tags)))) for one in pool.values()}
    beside = _beside(pool)
    weights = {term.forms: term.weight * _rarity(term, own) for term in terms}
    found = []
    for memory in pool.values():
        near = [own[one] for one in beside[memory.id]]
        points = [(term, weights[term.forms] * _strength(term, own[memory.id], near)) for term in terms]
        score = sum(point for _, point in points)
        if score > 0:
            nudge = 1 + 0.1 * math.tanh((memory.helped - memory.misled) / 3) + 0.05 * (memory.importance - 0.5)
            best = sorted((one for one in points if one[1] > 0), key=lambda one: -one[1])
            found.append(Recalled(memory, score * nudge / (1 + score * nudge), tuple(term.label for term, _ in best)))
    return found


def _beside(pool: dict[str, Memory]) -> dict[str, list[str]]:
    beside: dict[str, list[str]] = {one: [] for one in pool}
    turns = sorted((one for one in pool.values() if one.thread), key=lambda one: (one.scope, one.thread, one.at))
    for one, two in pairwise(turns):
        if (one.scope, one.thread) == (two.scope, two.thread):
            beside[one.id].append(two.id)
            beside[two.id].append(one.id)
    return beside


def _rarity(term: Term, own: dict[str, Counter[str]]) -> float:
    among = sum(any(form in words for form in term.forms) for words in own.values())
    return math.log(1 + (len(own) - among + 0.5) / (among + 0.5))


def _strength(term: Term, words: Counter[str], near: Sequence[Counter[str]]) -> float:
    here = max((words[form] for form in term.forms), default=0)
    there = max((other[form] for other in near for form in term.forms), default=0)
    return max(here / (here + 1.0), _NEIGHBOUR * there / (there + 1.0)) if here or there else 0.0
