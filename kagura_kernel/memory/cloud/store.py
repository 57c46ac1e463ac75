"""Memories in Kagura Memory Cloud.

What the cloud has no field for stands in the details, under `kagura`. Two tags are ours alone. A trusted memory carries
`kagura-trusted`, so that the cloud's own filter finds it among any number of others; what lacks the tag, whoever wrote
it, counts as quarantined. A forgotten one carries `kagura-forgotten` instead.

Edges in the cloud: of our types it has one, so the others are `related_to` and a tag on the memory they begin at. The
tag says the type and the last letters of the id that the edge leads to: `kagura-edge-prevents-3f2a9c01d4e7`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryStoreError, MemoryUnknown
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import (
    CAME_FROM,
    EDGE_TYPES,
    MOST_SUMMARY,
    RELATED,
    Author,
    Draft,
    Edge,
    Erased,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Source,
    Tier,
)
from kagura_kernel.memory.cloud.wire import TIMEOUT, CloudAccess, CloudWire
from kagura_kernel.memory.ranking import MEANING, asked_tags
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
from kagura_kernel.memory.words import index_terms, query_terms

TRUSTED, FORGOTTEN = "kagura-trusted", "kagura-forgotten"
OURS = "kagura-"
"""How tags begin that a draft may not have."""

_SHORTEST = 10


@dataclass(frozen=True, slots=True)
class CloudMemoryRow:
    """A memory, and what is beside it in the cloud."""

    memory: Memory  # As everybody else sees it
    marks: tuple[str, ...]  # Tags that tell the type of an edge


def problems_of(draft: Draft) -> list[str]:
    """Why the cloud cannot keep a draft that is fine by itself."""
    problems = []
    if draft.id:
        problems.append(f"the id {draft.id!r} cannot be kept, because the cloud gives ids itself; leave it out")
    problems += [
        f"the tag {tag!r} is the engine's own; call it otherwise" for tag in draft.tags if tag.startswith(OURS)
    ]
    return problems


def cloud_id(memory_id: str) -> str:
    """The cloud's id for ours."""
    return memory_id.removeprefix("mem-")


def our_id(cloud: object) -> str:
    """Our id for the cloud's."""
    return f"mem-{cloud}"


def asked_to_keep(memory: Memory) -> dict[str, Any]:
    """The arguments of `remember`."""
    arguments = {
        "summary": _summary(memory),
        "content": memory.text,
        "type": memory.type,
        "importance": memory.importance,
        **changed(CloudMemoryRow(memory, ())),
    }
    if memory.source.uri:
        arguments["source_uri"] = memory.source.uri
    return arguments


def changed(row: CloudMemoryRow) -> dict[str, Any]:
    """The arguments of `update_memory` that hold everything that may change."""
    memory = row.memory
    state = FORGOTTEN if memory.forgotten_at else TRUSTED if memory.tier is Tier.TRUSTED else ""
    return {
        "tags": [*memory.tags, *row.marks, *([state] if state else [])],
        "details": {"kagura": _details(memory)},
        "delivery_mode": "always" if memory.pinned else "on_recall",
    }


def memory_of_row(row: Mapping[str, Any]) -> CloudMemoryRow:
    """What `reference` told; a memory that somebody else wrote has what can be known of it."""
    details = row.get("details")
    told = details.get("kagura") if isinstance(details, dict) else None
    ours = told if isinstance(told, dict) else {}
    tags = [str(tag) for tag in row.get("tags") or ()]
    created = _moment(row.get("created_at")) or datetime.fromtimestamp(0, UTC)
    forgotten = _moment(ours.get("forgotten_at"))
    trusted = ours.get("tier") == Tier.TRUSTED.value and (TRUSTED in tags or forgotten is not None)
    memory = Memory(
        id=our_id(row.get("memory_id")),
        text=str(row.get("content") or ""),
        source=_source(ours, row),
        tier=Tier.TRUSTED if trusted else Tier.QUARANTINE,
        type=str(row.get("type") or "note"),
        summary=str(ours.get("summary") or row.get("summary") or ""),
        tags=tuple(tag for tag in tags if not tag.startswith(OURS)),
        importance=float(row.get("importance") or 0.0),
        scope=str(ours.get("scope") or ""),
        thread=str(ours.get("thread") or ""),
        speaker=str(ours.get("speaker") or ""),
        at=_moment(ours.get("at")) or created,
        created_at=created,
        expires_at=_moment(ours.get("expires_at")),
        pinned=ours.get("pinned") is True or row.get("delivery_mode") == "always",
        data=dict(ours["data"]) if isinstance(ours.get("data"), dict) else {},
        promoted_by=str(ours.get("promoted_by") or "") if trusted else "",
        forgotten_at=forgotten,
    )
    marks = tuple(tag for tag in tags if tag.startswith(OURS) and tag not in {TRUSTED, FORGOTTEN})
    return CloudMemoryRow(memory, marks)


def _source(ours: Mapping[str, Any], row: Mapping[str, Any]) -> Source:
    author = ours.get("author")
    known = Author(author) if author in set(Author) else Author.IMPORT
    uri = ours.get("uri") or row.get("source_uri") or ""
    return Source(known, str(ours.get("by") or ""), str(ours.get("run_id") or ""), str(uri))


def _details(memory: Memory) -> dict[str, Any]:
    return {
        "version": 1,
        "author": memory.source.author.value,
        "by": memory.source.by,
        "run_id": memory.source.run_id,
        "uri": memory.source.uri,
        "tier": memory.tier.value,
        "summary": memory.summary,
        "scope": memory.scope,
        "thread": memory.thread,
        "speaker": memory.speaker,
        "at": memory.at.isoformat(),
        "expires_at": memory.expires_at and memory.expires_at.isoformat(),
        "pinned": memory.pinned,
        "data": dict(memory.data),
        "promoted_by": memory.promoted_by,
        "forgotten_at": memory.forgotten_at and memory.forgotten_at.isoformat(),
    }


def _summary(memory: Memory) -> str:
    """The cloud wants ten characters at least."""
    if len(memory.summary) >= _SHORTEST:
        return memory.summary[:MOST_SUMMARY]
    return f"{memory.type} memory: {memory.summary}"


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


CLOUD_TYPE = "related_to"

_LETTERS = 12
_MARK = f"{OURS}edge-"


def mark_of(edge: Edge) -> str:
    """The tag that tells the type of an edge; empty for one that needs none."""
    return "" if edge.type == RELATED else f"{_MARK}{edge.type}-{_end(edge.target)}"


def edge_of(told: Mapping[str, Any], marks: Sequence[str]) -> Edge:
    """An edge that the cloud told, with the marks of the memory that it begins at."""
    target = our_id(told.get("target_id"))
    kind = next((kind for kind in EDGE_TYPES if f"{_MARK}{kind}-{_end(target)}" in marks), RELATED)
    return Edge(our_id(told.get("source_id")), target, kind, _share(told.get("weight"), 1.0))


def _share(told: object, otherwise: float) -> float:
    # In this order what is no number is 0.
    return float(min(1, max(0, told))) if isinstance(told, int | float) else otherwise


def without(marks: Sequence[str], target: str) -> tuple[str, ...]:
    """Marks without those of edges that lead to a memory."""
    return tuple(mark for mark in marks if not (mark.startswith(_MARK) and mark.endswith(f"-{_end(target)}")))


def _end(memory_id: str) -> str:
    return cloud_id(memory_id).replace("-", "")[-_LETTERS:]


_AT_ONCE = 8
_PAGE = 100
_OUR_ID = re.compile(r"mem-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_T = TypeVar("_T")


class CloudReading:
    """Whole memories, and the edges between them, as often as they are asked for."""

    def __init__(self, wire: CloudWire) -> None:
        self._wire = wire

    def row(self, memory_id: str) -> CloudMemoryRow:
        """One memory.

        Raises:
            MemoryUnknown: there is none of this id.
        """
        if not _OUR_ID.fullmatch(memory_id):
            raise MemoryUnknown(memory_id)
        told = self._wire.call("reference", memory_id=cloud_id(memory_id)).get("memory")
        if not isinstance(told, dict):
            raise MemoryUnknown(memory_id)
        try:
            return memory_of_row({**told, "memory_id": cloud_id(memory_id)})
        except (TypeError, ValueError, OverflowError):
            raise self._wire.unclear() from None

    def rows(self, ids: Sequence[str]) -> list[CloudMemoryRow]:
        """Those of these memories that are there, in this order."""
        found = _each(self._row_or_none, ids)
        return [row for row in found if row is not None]

    def edges(self, known: Mapping[str, CloudMemoryRow]) -> list[Edge]:
        """Every edge that begins or ends at one of these memories, each once."""
        told = [edge for edges in _each(self._told, list(known)) for edge in edges]
        sources = {our_id(edge.get("source_id")) for edge in told} - set(known)
        rows = {**known, **{row.memory.id: row for row in self.rows(sorted(sources))}}
        found: dict[tuple[str, str], Edge] = {}
        for one in told:
            source = rows.get(our_id(one.get("source_id")))
            edge = edge_of(one, source.marks if source else ())
            found[edge.source, edge.target] = edge
        return sorted(found.values(), key=lambda edge: (edge.source, edge.target))

    def all_ids(self) -> list[str]:
        """Every memory of the context, the oldest first."""
        return list(reversed(dict.fromkeys(chain.from_iterable(self.pages()))))

    def pages(self) -> Iterator[list[str]]:
        """The ids of all memories, the newest first, as many at once as the cloud tells."""
        offset, more = 0, True
        while more:
            told = self._wire.get("/api/v1/memory/list", context_id=self._wire.context_id, offset=offset, limit=_PAGE)
            memories = self._wire.told(told, "memories")
            yield [our_id(one.get("id")) for one in memories]
            offset += len(memories)
            more = bool(told.get("has_more") and memories)

    def _row_or_none(self, memory_id: str) -> CloudMemoryRow | None:
        try:
            return self.row(memory_id)
        except MemoryUnknown:
            return None

    def _told(self, memory_id: str) -> Sequence[Mapping[str, Any]]:
        try:
            return self._wire.told(self._wire.call("list_edges", memory_id=cloud_id(memory_id)), "edges")
        except MemoryUnknown:
            return []


def _each(read: Callable[[str], _T], ids: Sequence[str]) -> list[_T]:
    if len(ids) < 2:  # noqa: PLR2004 - one needs no threads
        return [read(one) for one in ids]
    with ThreadPoolExecutor(min(_AT_ONCE, len(ids)), "kagura-memory-cloud") as pool:
        return list(pool.map(read, ids))


_MOST = 100
"""More the cloud does not tell."""
_LEAST = 20
_GROWS = 4
_LONGEST_QUESTION = 1_000


def search(wire: CloudWire, reading: CloudReading, query: Query, now: datetime) -> list[Recalled]:
    """What fits best; asked for more where the filters leave too few, up to a hundred."""
    asked = min(_MOST, max(_LEAST, 2 * query.k))
    filters = _filters(query)
    while True:
        more = {"filters": filters} if filters else {}
        told = wire.told(wire.call("recall", query=query.text.strip()[:_LONGEST_QUESTION], k=asked, **more), "results")
        scores = {our_id(one.get("memory_id")): _share(one.get("score"), 0.0) for one in told}
        found = [
            Recalled(row.memory, scores[row.memory.id], _why(query, row.memory))
            for row in reading.rows(list(scores))
            if _fits(row.memory, query, now)
        ]
        if len(found) >= query.k or len(told) < asked or asked == _MOST:
            # The order is the cloud's own; where it ranks again, that is not the order of its scores.
            return sorted(found, key=lambda one: -one.score)[: query.k]
        asked = min(_MOST, _GROWS * asked)


def newest(reading: CloudReading, query: Query, now: datetime) -> list[Recalled]:
    """The newest that fit, by when they were written."""
    memories = (row.memory for ids in reading.pages() for row in reading.rows(ids))
    fitting = (memory for memory in memories if _fits(memory, query, now))
    return [Recalled(memory, 1.0, asked_tags(query, memory)) for memory in islice(fitting, query.k)]


def _filters(query: Query) -> dict[str, Any]:
    """What the cloud is asked for; it knows one type at a time, and tags either all or any."""
    filters: dict[str, Any] = {}
    if len(query.types) == 1:
        filters["type"] = query.types[0]
    tags, every = list(query.tags), query.all_tags or len(query.tags) == 1
    if query.tier is Tier.TRUSTED:
        filters["trust_tier"] = "trusted"
        tags, every = [*(tags if every else ()), TRUSTED], True
    if tags:
        filters |= {"tags": tags, "tags_match": "all" if every else "any"}
    return filters


def _fits(memory: Memory, query: Query, now: datetime) -> bool:
    wanted = all if query.all_tags else any
    return (
        _is_alive(memory, now)
        and (not query.types or memory.type in query.types)
        and (not query.tags or wanted(tag in memory.tags for tag in query.tags))
        and query.tier in {None, memory.tier}
        and (query.scopes is None or memory.scope in query.scopes)
        and (query.since is None or memory.at >= query.since)
        and (query.until is None or memory.at < query.until)
        and memory.importance >= query.min_importance
    )


def _why(query: Query, memory: Memory) -> tuple[str, ...]:
    own = set(index_terms(" ".join((memory.text, memory.summary, *memory.tags))))
    words: Sequence[str] = [term.label for term in query_terms(query.text) if own & set(term.forms)]
    return (*(words or (MEANING,)), *asked_tags(query, memory))


def _is_alive(memory: Memory, now: datetime) -> bool:
    """Whether it can be recalled."""
    return memory.forgotten_at is None and (memory.expires_at is None or memory.expires_at > now)


_SYSTEM = SystemClock()
_READY_SECONDS = 60


class CloudMemory(Closing):
    """`MemoryStore` in one context of the cloud. Any thread may use it.

    What the cloud cannot express:

    ==========================  =====================================================================================
    asked for                   what happens
    ==========================  =====================================================================================
    an id of one's own          refused with `MemoryInvalid`: the cloud gives ids itself (ours are `mem-` and its UUID)
    a tag `kagura-…`            refused with `MemoryInvalid`: such tags carry trust, forgetting and types of edges
    two types between a pair    the second is refused with `MemoryInvalid`: the cloud joins a pair once in a direction
    many, all or none           what was written is taken back when one fails; a process that is killed leaves some
    how often it helped         feedback moves the cloud's ranking; `helped` and `misled` are not told and stay 0
    the words of neighbours     the cloud does not know of threads: a turn is found by its own words and meaning
    the newest that fit         by when they were written, not by when they happened
    erased for good             gone for everybody at once; the cloud's own sweep purges it later, by its settings
    a promise of trust          asked for trusted, the cloud leaves out what connectors brought, whatever its tags say
    changes by two processes    the last one wins: the cloud has no way to change a row only if it is unchanged
    ==========================  =====================================================================================

    A recall costs a request for each memory that is told, besides its own; `counts` and `export` cost two for each
    memory there is.
    """

    def __init__(self, access: CloudAccess, *, clock: Clock = _SYSTEM, timeout: float = TIMEOUT) -> None:
        """Nothing is connected.

        Args:
            access: Where it is, and the key.
            clock: The time by which memories expire; when they were written is the cloud's own time.
            timeout: Seconds that the cloud may take for an answer.
        """
        self._wire = CloudWire(access, timeout=timeout)
        self.where = self._wire.where  # The address
        self._clock = clock
        self._reading = CloudReading(self._wire)
        self._changing = threading.RLock()

    def check(self) -> None:
        """Return when it can be read and written; a state that lives for a minute is written."""
        self._wire.check_version()
        self._wire.call("get_context_info")
        self._wire.call("set_state", key="kagura-kernel", value="ready", ttl_seconds=_READY_SECONDS)

    def remember(self, draft: Draft) -> Memory:
        """Keep one. When the connection breaks meanwhile, the error says that it may have been kept."""
        memory = memory_of(draft, self._clock.now())
        if problems := problems_of(draft):
            raise MemoryInvalid("The memory", problems)
        return self.reference(self._keep(memory))

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, one after the other; when one fails, those before it are taken back."""
        listed = list(drafts)
        memories = memories_of(listed, self._clock.now())
        problems = [
            f"number {number}: {problem}" for number, draft in enumerate(listed, 1) for problem in problems_of(draft)
        ]
        if problems:
            raise MemoryInvalid("What is to be remembered", problems)
        kept: list[str] = []
        try:
            for memory in memories:
                kept.append(self._keep(memory))  # noqa: PERF401 - what was kept must be known when one fails
        except BaseException:
            for one in kept:
                # What failed is told, and not that taking back fails for the same reason.
                with suppress(MemoryStoreError):
                    self._wire.call("forget", memory_id=cloud_id(one))
            raise
        return kept

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What the cloud finds, with the filters that it does not have applied to what it tells."""
        check_query(query)
        if not query.text.strip():
            return newest(self._reading, query, self._clock.now())
        return search(self._wire, self._reading, query, self._clock.now())

    def reference(self, memory_id: str) -> Memory:
        """One by its id."""
        return self._reading.row(memory_id).memory

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What runs in these scopes start with; of a thousand that are pinned in the context at most."""
        told = self._wire.told(self._wire.call("load_pinned", cap=1000), "memories")
        rows = self._reading.rows([our_id(one.get("memory_id")) for one in told])
        found = [row.memory for row in rows if self._alive(row.memory)]
        fitting = [one for one in found if one.scope in scopes and tier in {None, one.tier}]
        return sorted(fitting, key=lambda one: -one.importance)

    def create_edge(self, edge: Edge) -> None:
        """Join two memories."""
        check_edge(edge)
        with self._changing:
            source = self._reading.row(edge.source)
            self._reading.row(edge.target)
            there = [
                one for one in self._edges_of([edge.source]) if (one.source, one.target) == (edge.source, edge.target)
            ]
            if there and there[0].type != edge.type:
                problem = f"the cloud joins two memories once in a direction, and these are as {there[0].type!r}"
                raise MemoryInvalid("The edge", [problem])
            mark = mark_of(edge)
            if mark and mark not in source.marks:
                self._write(replace(source, marks=(*source.marks, mark)))
            ends = {"source_id": cloud_id(edge.source), "target_id": cloud_id(edge.target)}
            told = self._wire.call("create_edge", edge_type=CLOUD_TYPE, weight=edge.weight, overwrite=True, **ends)
            # Servers that know no `overwrite` keep the greater weight.
            made = told.get("edge")
            if not isinstance(made, dict) or made.get("weight") != edge.weight:
                self._wire.call("update_edge", weight=edge.weight, **ends)

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What lies around, a request for each memory on the way."""
        check_walk(depth, types, most)
        seed = self._reading.row(memory_id)
        known = {memory_id: seed.memory}

        def visible(ids: Sequence[str]) -> set[str]:
            rows = self._reading.rows(ids)
            known.update({row.memory.id: row.memory for row in rows})
            return {row.memory.id for row in rows if self._alive(row.memory)}

        walked = walk(
            memory_id,
            lambda ids: [edge for edge in self._edges_of(ids) if not types or edge.type in types],
            visible,
            depth=depth,
            most=most,
        )
        return Neighbourhood(tuple(known[one] for one in walked.ids), walked.edges)

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled here; other clients of the cloud see it, marked as forgotten."""
        with self._changing:
            row = self._reading.row(memory_id)
            if row.memory.forgotten_at is not None:
                return row.memory
            return self._write(replace(row, memory=replace(row.memory, forgotten_at=self._clock.now())))

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        return self._change(memory_id, forgotten_at=None)

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it; the cloud purges it by its own settings."""
        with self._changing:
            self._reading.row(memory_id)
            lost = descendants(memory_id, self._children_of) if cascade else (memory_id,)
            edges = self._edges_of(lost)
            for edge in edges:
                self._wire.call("delete_edge", source_id=cloud_id(edge.source), target_id=cloud_id(edge.target))
                if edge.source not in lost and mark_of(edge):
                    row = self._reading.row(edge.source)
                    self._write(replace(row, marks=without(row.marks, edge.target)))
            for one in lost:
                self._wire.call("forget", memory_id=cloud_id(one))
            return Erased(lost, len(edges))

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        return self._change(memory_id, pinned=on)

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled; the cloud's ranking learns it."""
        memory = self.reference(memory_id)
        self._wire.call("feedback", memory_id=cloud_id(memory_id), helpful=helped)
        return memory

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """It may be trusted, as far as the cloud trusts where it came from."""
        check_named("name", by)
        return self._change(memory_id, tier=Tier.TRUSTED, promoted_by=by)

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted."""
        return self._change(memory_id, tier=Tier.QUARANTINE, promoted_by="")

    def counts(self) -> MemoryCounts:
        """How much is remembered, by looking at everything."""
        rows = self._reading.rows(self._reading.all_ids())
        alive = [row.memory for row in rows if self._alive(row.memory)]
        forgotten = sum(row.memory.forgotten_at is not None for row in rows)
        quarantined = sum(one.tier is Tier.QUARANTINE for one in alive)
        edges = self._reading.edges({row.memory.id: row for row in rows})
        return MemoryCounts(len(alive), quarantined, forgotten, len(edges))

    def export(self) -> Iterator[Memory | Edge]:
        """What can be recalled, the oldest first, then its edges."""
        rows = {row.memory.id: row for row in self._reading.rows(self._reading.all_ids())}
        alive = {one: row for one, row in rows.items() if self._alive(row.memory)}
        yield from (row.memory for row in alive.values())
        edges = self._reading.edges(alive)
        yield from (edge for edge in edges if edge.source in alive and edge.target in alive)

    def close(self) -> None:
        """Close every connection; may be called twice."""
        self._wire.close()

    def _alive(self, memory: Memory) -> bool:
        return _is_alive(memory, self._clock.now())

    def _keep(self, memory: Memory) -> str:
        return our_id(self._wire.call("remember", **asked_to_keep(memory)).get("memory_id"))

    def _change(self, memory_id: str, **facts: object) -> Memory:
        with self._changing:
            row = self._reading.row(memory_id)
            return self._write(replace(row, memory=replace(row.memory, **facts)))  # type: ignore[arg-type] # fields of ours

    def _write(self, row: CloudMemoryRow) -> Memory:
        self._wire.call("update_memory", memory_id=cloud_id(row.memory.id), **changed(row))
        return row.memory

    def _edges_of(self, ids: Sequence[str]) -> list[Edge]:
        return self._reading.edges({row.memory.id: row for row in self._reading.rows(ids)})

    def _children_of(self, ids: Sequence[str]) -> list[str]:
        return [edge.source for edge in self._edges_of(ids) if edge.type == CAME_FROM and edge.target in ids]
