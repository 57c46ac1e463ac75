"""The filters of a question, as conditions on rows and, where they let few through, as terms of the index."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from kagura_kernel.domain.memory import Query
from kagura_kernel.memory.sqlite.marks import facet_mark
from kagura_kernel.memory.sqlite.postings import is_selective
from kagura_kernel.memory.sqlite.rows import micros


@dataclass(frozen=True, slots=True)
class Filters:
    """What a row of `facet` (named `f`) must be.

    Attributes:
        condition: SQL.
        values: What stands for its question marks.
    """

    condition: str
    values: tuple[object, ...]


def filters_of(query: Query, now: int) -> Filters:
    """The conditions of a question at a moment, in microseconds."""
    parts: list[str] = ["NOT f.hidden", "(f.expires_at IS NULL OR f.expires_at > ?)"]
    values: list[object] = [now]
    if query.tier is not None:
        parts.append("f.tier = ?")
        values.append(query.tier.value)
    for column, chosen in (("type", query.types), ("scope", query.scopes)):
        if chosen or (column == "scope" and chosen is not None):
            parts.append(f"f.{column} IN ({_marks(chosen)})")
            values += chosen
    if query.tags:
        tags = tuple(dict.fromkeys(query.tags))
        least = len(tags) if query.all_tags else 1
        parts.append(f"(SELECT count(*) FROM json_each(f.tags) WHERE value IN ({_marks(tags)})) >= {least}")  # noqa: S608 - marks
        values += tags
    if query.since is not None:
        parts.append("f.at >= ?")
        values.append(micros(query.since))
    if query.until is not None:
        parts.append("f.at < ?")
        values.append(micros(query.until))
    if query.min_importance:
        parts.append("f.importance >= ?")
        values.append(query.min_importance)
    return Filters(" AND ".join(parts), tuple(values))


def narrowing(connection: sqlite3.Connection, query: Query, broad: set[str]) -> list[list[str]]:
    """Groups of terms of which a row needs one each; only those that spare more than they cost.

    Args:
        connection: Within a transaction.
        query: The question.
        broad: Terms that many memories have, as far as is known; what is learnt is added.
    """
    groups = [[facet_mark("type", one) for one in query.types]]
    groups.append([facet_mark("scope", one) for one in query.scopes or ()])
    tags = [facet_mark("tag", one) for one in query.tags]
    groups += [[tag] for tag in tags] if query.all_tags else [tags]
    if query.tier is not None:
        groups.append([facet_mark("tier", query.tier.value)])
    narrow = []
    for group in groups:
        if not group or not broad.isdisjoint(group):
            continue
        if is_selective(connection, group):
            narrow.append(group)
        elif len(group) == 1:
            broad.update(group)
    return narrow


def _marks(values: tuple[object, ...]) -> str:
    return ", ".join("?" * len(values))
