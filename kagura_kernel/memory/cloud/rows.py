"""A memory as the cloud keeps it: what it has no field for stands in the details, under `kagura`.

Two tags are ours alone. A trusted memory carries `kagura-trusted`, so that the cloud's own filter finds it among any
number of others; what lacks the tag, whoever wrote it, counts as quarantined. A forgotten one carries
`kagura-forgotten` instead.

Edges in the cloud: of our types it has one, so the others are `related_to` and a tag on the memory they begin at.

The tag says the type and the last letters of the id that the edge leads to: `kagura-edge-prevents-3f2a9c01d4e7`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import EDGE_TYPES, MOST_SUMMARY, RELATED, Author, Draft, Edge, Memory, Source, Tier
from kagura_kernel.memory.cloud.wire import CloudWire

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
    weight = told.get("weight")
    known = float(weight) if isinstance(weight, int | float) else 1.0
    return Edge(our_id(told.get("source_id")), target, kind, min(max(known, 0.0), 1.0))


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
        return memory_of_row(told)

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
        ids: dict[str, None] = {}
        offset, more = 0, True
        while more:
            told, more = self.page(offset)
            ids.update(dict.fromkeys(told))
            offset += _PAGE
        return list(reversed(ids))

    def page(self, offset: int) -> tuple[list[str], bool]:
        """Some ids, the newest first, and whether there are more."""
        told = self._wire.get("/api/v1/memory/list", context_id=self._wire.context_id, offset=offset, limit=_PAGE)
        memories = told.get("memories") or ()
        return [our_id(one.get("id")) for one in memories], bool(told.get("has_more") and memories)

    def _row_or_none(self, memory_id: str) -> CloudMemoryRow | None:
        try:
            return self.row(memory_id)
        except MemoryUnknown:
            return None

    def _told(self, memory_id: str) -> Sequence[Mapping[str, Any]]:
        try:
            return list(self._wire.call("list_edges", memory_id=cloud_id(memory_id)).get("edges") or ())
        except MemoryUnknown:
            return []


def _each(read: Callable[[str], _T], ids: Sequence[str]) -> list[_T]:
    if len(ids) < 2:  # noqa: PLR2004 - one needs no threads
        return [read(one) for one in ids]
    with ThreadPoolExecutor(min(_AT_ONCE, len(ids)), "kagura-memory-cloud") as pool:
        return list(pool.map(read, ids))
