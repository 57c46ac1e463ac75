"""What the routes about memories answer with: from an open memory, in a thread, to the fields of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kagura_kernel.domain.memory import FIX, FIXES, PREVENTS, Memory, Neighbourhood, Query, Recalled, Tier
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server.memory_asking import MOST_AT_ONCE, MemoryPage
from kagura_kernel.memory.erasing import Erasure, would_erase
from kagura_kernel.memory.store import MemoryStore

MOST_NEIGHBOURS = 50


def memories(store: MemoryStore, page: MemoryPage) -> dict[str, Any]:
    """A page of memories, the best or the newest first."""
    found = store.recall(page.query)
    items = found[page.seen :][: page.limit]
    return {"items": [recalled_fields(one, scored=bool(page.query.text)) for one in items], "next": _next(page, items)}


def memory(store: MemoryStore, memory_id: str) -> dict[str, Any]:
    """One memory in full, with what it is joined to; raises `MemoryUnknown`."""
    found = store.reference(memory_id)
    around = store.explore(memory_id, depth=1, most=MOST_NEIGHBOURS)
    return memory_fields(found) | {
        "text": found.text,
        "data": dict(found.data),
        "neighbours": _neighbours(memory_id, around),
    }


def grown(store: MemoryStore, journal: Journal, memory_id: str) -> dict[str, Any]:
    """What would be erased with a memory and all that came from it; raises `MemoryUnknown`."""
    found = would_erase(store, journal, [memory_id], cascade=True)
    return {"memories": [memory_fields(one) for one in found.memories]} | gone_fields(found)


def lessons(store: MemoryStore, query: Query) -> dict[str, Any]:
    """What went wrong before, and what prevents it."""
    return {"items": [_lesson(store, one, scored=bool(query.text)) for one in store.recall(query)], "next": None}


def counts(store: MemoryStore) -> dict[str, Any]:
    """How much is remembered, and where."""
    found = store.counts()
    return {
        "memories": found.memories,
        "quarantined": found.quarantined,
        "forgotten": found.forgotten,
        "edges": found.edges,
        "where": store.where,
    }


def memory_fields(found: Memory) -> dict[str, Any]:
    """A memory without its text, which may be long."""
    return {
        "id": found.id,
        "summary": found.summary,
        "type": found.type,
        "tier": str(found.tier),
        "author": str(found.source.author),
        "by": found.source.by,
        "run_id": found.source.run_id,
        "uri": found.source.uri,
        "tags": list(found.tags),
        "importance": found.importance,
        "scope": found.scope,
        "at": stamp(found.at),
        "created_at": stamp(found.created_at),
        "expires_at": None if found.expires_at is None else stamp(found.expires_at),
        "forgotten_at": None if found.forgotten_at is None else stamp(found.forgotten_at),
        "pinned": found.pinned,
        "promoted_by": found.promoted_by,
        "helped": found.helped,
        "misled": found.misled,
    }


def gone_fields(gone: Erasure) -> dict[str, Any]:
    """What goes with memories."""
    return {
        "edges": gone.edges,
        "checkpoints": gone.checkpoints,
        "runs": list(gone.runs),
        "going": list(gone.going),
    }


def recalled_fields(one: Recalled, *, scored: bool) -> dict[str, Any]:
    """A memory of a list, with why it was found."""
    return memory_fields(one.memory) | {"score": one.score if scored else None, "why": list(one.why)}


def _lesson(store: MemoryStore, one: Recalled, *, scored: bool) -> dict[str, Any]:
    memory_id = one.memory.id
    around = store.explore(memory_id, depth=1, types=(PREVENTS, FIXES), most=MOST_NEIGHBOURS)
    seen = sum(edge.type == PREVENTS and edge.source == memory_id for edge in around.edges)
    mending = {edge.source for edge in around.edges if edge.type == FIXES and edge.target == memory_id}
    known = [found for found in around.memories if found.id in mending and found.type == FIX]
    newest = max(known, key=lambda found: found.created_at, default=one.memory)
    facts = {name: _text(one.memory, name) for name in ("trigger", "said", "tool", "fix", "task")}
    facts["fix"] = _text(newest, "fix") or facts["fix"]
    if one.memory.tier is Tier.TRUSTED and newest.tier is not Tier.TRUSTED:
        # Beside a lesson that is trusted it would pass for one that is, too.
        facts["fix"] = f"(not trusted) {facts['fix']}"
    return recalled_fields(one, scored=scored) | facts | {"seen": max(1, seen)}


def _text(found: Memory, name: str) -> str:
    # A memory may have been imported, and then its facts are somebody's.
    value = found.data.get(name, "")
    return value if isinstance(value, str) else ""


def _next(page: MemoryPage, items: Sequence[Recalled]) -> str | None:
    """The cursor behind a page of the newest. Many memories may be of one moment, so it counts those too."""
    if page.query.text or len(items) < page.limit:
        return None
    last = items[-1].memory.at
    seen = sum(one.memory.at == last for one in items) + (page.seen if last == page.last else 0)
    # A store tells no more at once, so that there is no way behind so many of the same moment.
    return f"{stamp(last)}~{seen}" if seen < MOST_AT_ONCE else None


def _neighbours(memory_id: str, around: Neighbourhood) -> list[dict[str, Any]]:
    known = {one.id: one for one in around.memories}
    found = []
    for edge in around.edges:
        if memory_id not in {edge.source, edge.target} or edge.source == edge.target:
            continue
        away = edge.source == memory_id
        other = known.get(edge.target if away else edge.source)
        if other is not None:
            found.append(memory_fields(other) | {"edge": edge.type, "away": away})
    return found
