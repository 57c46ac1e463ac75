"""What the routes about memories answer with, and do: in the memory, and as a row of the journal that says so.

In a thread, on an open journal. The store is None before the first run: then nothing is remembered, and no memory is
made by looking into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.events.memory import MemoryChanged
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import FIX, FIXES, LESSON, PREVENTS, Memory, Neighbourhood, Query, Recalled, Tier
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server import models
from kagura_kernel.jupyter.server.parameters import Choice, Cursor, Number, Text, Truth
from kagura_kernel.jupyter.server.runs import VIA, Model, shaped
from kagura_kernel.memory import erasure
from kagura_kernel.memory.store import MemoryStore

MOST_NEIGHBOURS = 50
MOST_AT_ONCE = 1_000
"""Memories that any store tells at once."""

Words = Annotated[str, Text(says="Words to look for; empty lists the newest.")]
Most = Annotated[int, Number(50, 500, says="How many at most.")]

_CURSOR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)~([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page of memories."""

    query: Query  # What is asked; for the newest it asks for those too that the page before has shown
    limit: int  # How many the page has at most
    seen: int = 0  # How many of the first the page before has shown: those of its last moment
    last: datetime | None = None  # That moment; None on the first page


def memories(
    store: MemoryStore | None,
    *,
    q: Words = "",
    k: Most,
    type: Annotated[str, Text(says="Only of this type.")] = "",  # noqa: A002 - the query's name
    tag: Annotated[str, Text(says="Only with this tag.")] = "",
    tier: Annotated[str | None, Choice(("trusted", "quarantine"), says="Only as far trusted.")] = None,
    before: Annotated[str, Cursor()] = "",
) -> models.Memories:
    """Memories; what fits words best, or without words the newest.

    Raises:
        UsageError: the cursor is none.
    """
    page = memory_page(q, k, type, tag, tier, before)
    if store is None:
        return {"items": [], "next": None}
    items = store.recall(page.query)[page.seen :][: page.limit]
    return {"items": [_recalled(models.Memory, one, page.query) for one in items], "next": _next(page, items)}


def memory(store: MemoryStore | None, memory_id: str) -> models.MemoryInFull:
    """One memory in full, with what it is joined to.

    Raises:
        MemoryUnknown: there is no such memory.
    """
    known = _there(store, memory_id)
    found = known.reference(memory_id)
    around = known.explore(memory_id, depth=1, most=MOST_NEIGHBOURS)
    return _facts(models.MemoryInFull, found, data=dict(found.data), neighbours=_neighbours(memory_id, around))


def memory_grown(store: MemoryStore | None, journal: Journal, memory_id: str) -> models.MemoryGrown:
    """What would be erased with a memory and all that came from it.

    Raises:
        MemoryUnknown: there is no such memory.
    """
    found = erasure.would_erase(_there(store, memory_id), journal, [memory_id], cascade=True)
    return shaped(models.MemoryGrown, found, memories=[_facts(models.MemoryFacts, one) for one in found.memories])


def lessons(store: MemoryStore | None, *, q: Words = "", k: Most) -> models.Lessons:
    """Lessons; what fits words best, or without words the newest."""
    query = Query(text=q.strip(), k=k, types=(LESSON,))
    found = [] if store is None else [_lesson(store, one, query) for one in store.recall(query)]
    return {"items": found, "next": None}


def memory_counts(store: MemoryStore | None) -> models.MemoryCounts:
    """How much is remembered, and where."""
    if store is None:
        return {"memories": 0, "quarantined": 0, "forgotten": 0, "edges": 0, "where": ""}
    return shaped(models.MemoryCounts, store.counts(), where=store.where)


Act = Literal["promoted", "demoted", "pinned", "unpinned", "forgotten", "restored"]


def _changing(
    act: Act, says: str, change: Callable[[MemoryStore, str, str], Memory]
) -> Callable[..., models.MemoryChangedTo]:
    """What does something to a memory, given its id and who wants it, and writes down that it was done.

    It raises `MemoryUnknown`, `MemoryUnavailable`, and `JournalError` where that cannot be written down; then nothing
    was changed.
    """

    def changing(journal: Journal, store: MemoryStore, memory_id: str, by: str) -> models.MemoryChangedTo:
        journal.check_writable()
        changed = change(store, memory_id, by)
        at = journal.clock.now()
        journal.append(MemoryChanged(run_id="", session_id="", at=at, memory_id=memory_id, change=act, by=by, via=VIA))
        return {"memory": _facts(models.MemoryFacts, changed)}

    changing.__doc__ = says
    return changing


promote_memory = _changing(
    "promoted", "Say that a memory may be trusted.", lambda store, one, by: store.promote(one, by=by)
)
demote_memory = _changing(
    "demoted", "Say that a memory may not be trusted any more.", lambda store, one, _by: store.demote(one)
)
pin_memory = _changing(
    "pinned", "Let every run that a memory concerns start with it.", lambda store, one, _by: store.pin(one)
)
unpin_memory = _changing("unpinned", "Let none start with it.", lambda store, one, _by: store.pin(one, on=False))
forget_memory = _changing(
    "forgotten",
    "Take a memory out of what is found; it stays until it is erased.",
    lambda store, one, _by: store.forget(one),
)
restore_memory = _changing("restored", "Undo that.", lambda store, one, _by: store.restore(one))


def erase_memory(
    journal: Journal,
    store: MemoryStore,
    contents: Path,
    memory_id: str,
    by: str,
    *,
    cascade: Annotated[bool, Truth(says="Whether everything that came from it goes too.")] = False,
) -> models.MemoryErased:
    """Remove a memory for good, with its edges and the checkpoints that name it.

    Raises:
        MemoryUnknown: there is no such memory.
        MemoryUnavailable: it cannot be reached.
        JournalError: it could not be written down.
    """
    gone = erasure.erase(store, journal, [memory_id], cascade=cascade, contents=contents, by=by, via=VIA)
    return shaped(models.MemoryErased, gone, memories=list(gone.ids))


def memory_page(q: str, k: int, kind: str, tag: str, tier: str | None, before: str) -> MemoryPage:
    """A page of memories: what fits words best, or the newest.

    Raises:
        UsageError: the cursor is none, or belongs to no list of the newest.
    """
    text = q.strip()
    seen, last, until = _cursor(before)
    if text and last is not None:
        raise UsageError("`before` belongs to a list of the newest, without `q`.")
    query = Query(
        text=text,
        k=min(k + seen, MOST_AT_ONCE),
        types=(kind,) if kind else (),
        tags=(tag,) if tag else (),
        tier=None if tier is None else Tier(tier),
        until=until,
    )
    return MemoryPage(query, k, seen, last)


def _there(store: MemoryStore | None, memory_id: str) -> MemoryStore:
    if store is None:
        raise MemoryUnknown(memory_id)
    return store


def _facts(model: type[Model], found: Memory, **more: Any) -> Model:
    source = found.source
    return shaped(model, found, author=str(source.author), by=source.by, run_id=source.run_id, uri=source.uri, **more)


def _recalled(model: type[Model], one: Recalled, query: Query, **more: Any) -> Model:
    return _facts(model, one.memory, score=one.score if query.text else None, why=list(one.why), **more)


def _cursor(before: str) -> tuple[int, datetime | None, datetime | None]:
    if not before:
        return 0, None, None
    wrong = UsageError("`before` is the `next` of the page before.")
    found = _CURSOR.fullmatch(before)
    if found is None or int(found[2]) >= MOST_AT_ONCE:
        raise wrong
    try:
        last = datetime.fromisoformat(found[1])
        return int(found[2]), last, last + timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise wrong from None


def _lesson(store: MemoryStore, one: Recalled, query: Query) -> models.Lesson:
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
    return _recalled(models.Lesson, one, query, **facts, seen=max(1, seen))


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


def _neighbours(memory_id: str, around: Neighbourhood) -> list[models.Neighbour]:
    known = {one.id: one for one in around.memories}
    found = []
    for edge in around.edges:
        if memory_id not in {edge.source, edge.target} or edge.source == edge.target:
            continue
        away = edge.source == memory_id
        other = known.get(edge.target if away else edge.source)
        if other is not None:
            found.append(_facts(models.Neighbour, other, edge=edge.type, away=away))
    return found
