"""What a request asks of the memory, read from its words. Pure; what cannot be understood is told in a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.memory import LESSON, Query, Tier
from kagura_kernel.jupyter.server import asking

MOST_MEMORIES = 500
MOST_AT_ONCE = 1_000
"""Memories that any store tells at once."""

_CURSOR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)~([0-9]{1,4})", re.ASCII)
_TIERS = tuple(str(tier) for tier in Tier)


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page of memories."""

    query: Query  # What is asked; for the newest it asks for those too that the page before has shown
    limit: int  # How many the page has at most
    seen: int = 0  # How many of the first the page before has shown: those of its last moment
    last: datetime | None = None  # That moment; None on the first page


def memory_page(q: str, k: str, kind: str, tag: str, tier: str, before: str) -> MemoryPage:
    """A page of memories: what fits words best, or the newest.

    Raises:
        UsageError: a word cannot be understood.
    """
    text = asking.short("q", q).strip()
    limit = asking.number("k", k, 50, MOST_MEMORIES)
    known = asking.one_of("tier", tier, _TIERS)
    seen, last, until = _cursor(before)
    if text and last is not None:
        raise UsageError("`before` belongs to a list of the newest, without `q`.")
    query = Query(
        text=text,
        k=min(limit + seen, MOST_AT_ONCE),
        types=(asking.short("type", kind),) if kind else (),
        tags=(asking.short("tag", tag),) if tag else (),
        tier=None if known is None else Tier(known),
        until=until,
    )
    return MemoryPage(query, limit, seen, last)


def lessons(q: str, k: str) -> Query:
    """Lessons: what fits words best, or the newest.

    Raises:
        UsageError: a word cannot be understood.
    """
    limit = asking.number("k", k, 50, MOST_MEMORIES)
    return Query(text=asking.short("q", q).strip(), k=limit, types=(LESSON,))


def truth(name: str, text: str) -> bool:
    """Whether something is wanted; no, where nothing is said.

    Raises:
        UsageError: it is neither `true` nor `false`.
    """
    return asking.one_of(name, text, ("true", "false")) == "true"


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
