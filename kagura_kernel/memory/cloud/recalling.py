"""Asks the cloud a question, and filters what it tells by what it cannot be asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from kagura_kernel.domain.memory import Memory, Query, Recalled, Tier
from kagura_kernel.memory.cloud.reading import CloudReading
from kagura_kernel.memory.cloud.rows import TRUSTED, our_id
from kagura_kernel.memory.cloud.wire import CloudWire
from kagura_kernel.memory.words import index_terms, query_terms

MEANING = "meaning"

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
        told = wire.call("recall", query=query.text.strip()[:_LONGEST_QUESTION], k=asked, **more).get("results") or ()
        scores = {our_id(one.get("memory_id")): _score(one.get("score")) for one in told}
        found = [
            Recalled(row.memory, scores[row.memory.id], _why(query, row.memory))
            for row in reading.rows(list(scores))
            if _fits(row.memory, query, now)
        ]
        if len(found) >= query.k or len(told) < asked or asked == _MOST:
            # The order is the cloud's own; where it ranks again, that is not the order of its scores.
            return sorted(found, key=lambda one: -one.score)[: query.k]
        asked = min(_MOST, _GROWS * asked)


def newest(wire: CloudWire, reading: CloudReading, query: Query, now: datetime) -> list[Recalled]:
    """The newest that fit, by when they were written."""
    del wire
    found: list[Recalled] = []
    for memory in _by_age(reading):
        if _fits(memory, query, now):
            found.append(Recalled(memory, 1.0, tuple(f"tag: {tag}" for tag in query.tags if tag in memory.tags)))
        if len(found) == query.k:
            break
    return found


def _by_age(reading: CloudReading) -> Iterator[Memory]:
    offset, more = 0, True
    while more:
        ids, more = reading.page(offset)
        offset += len(ids)
        yield from (row.memory for row in reading.rows(ids))


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
        memory.forgotten_at is None
        and (memory.expires_at is None or memory.expires_at > now)
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
    return (*(words or (MEANING,)), *(f"tag: {tag}" for tag in query.tags if tag in memory.tags))


def _score(told: object) -> float:
    return min(max(float(told), 0.0), 1.0) if isinstance(told, int | float) else 0.0
