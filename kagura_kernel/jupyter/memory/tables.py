"""Memories, lessons and edges as DataFrames, and what a program asks of the memory of its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pandas as pd

from kagura_kernel.assembly import get_cockpit
from kagura_kernel.cockpit.memory import program_query
from kagura_kernel.cockpit.memory_words import edge_words, said_in, source_words
from kagura_kernel.domain.memory import Memory, Neighbourhood, Recalled
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.memory.cards import LABEL, MemoryLine, memories_blocks, show_memories
from kagura_kernel.jupyter.tables import table_of
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.render.text import lines_of

if TYPE_CHECKING:
    from kagura_kernel.patterns.lessons import Lesson


_NEEDED = frozenset({"tier", "type", "source", "age", "why_matched", "summary", "text", "pinned", "at", "score"})


class MemoryFrame(pd.DataFrame):
    """Memories as they were when they were asked for. What is taken out of it is an ordinary DataFrame.

    It is not changed by the buttons of its card: ask again for what is so now.
    """

    def lines(self) -> list[MemoryLine]:
        """Its rows, as the card shows them."""
        return [_shown_line(str(name), row) for name, row in zip(self.index, self.to_dict("records"), strict=True)]

    def __repr__(self) -> str:
        """Two lines for each memory; what is not trusted is marked."""
        if not self._whole():
            return super().__repr__()
        return "\n".join(lines_of(memories_blocks(self.lines(), datetime.now(UTC), live=False)))

    def _repr_html_(self) -> str:
        """The card without its buttons; IPython shows this in place of the columns."""
        if not self._whole():
            return str(pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows")))
        return framed(html_of(memories_blocks(self.lines(), datetime.now(UTC), live=False)), LABEL)

    def _ipython_display_(self) -> None:
        """Show the card with buttons, where somebody can press them.

        Raises:
            NotImplementedError: nobody can; IPython shows the table then.
        """
        if not self._whole():
            raise NotImplementedError
        with calm():
            if not show_memories(self.lines()):
                raise NotImplementedError

    def _whole(self) -> bool:
        """Whether nobody has taken a column out of it."""
        return set(self.columns) >= _NEEDED


def _shown_line(name: str, row: dict[Any, Any]) -> MemoryLine:
    told = {key: None if pd.isna(value) else value for key, value in row.items()}
    at = told["at"]
    return MemoryLine(
        id=name,
        tier=str(told["tier"]),
        type=str(told["type"]),
        source=str(told["source"]),
        at=at.to_pydatetime() if isinstance(at, pd.Timestamp) else datetime.now(UTC),
        summary=str(told["summary"] or ""),
        text=str(told["text"] or ""),
        said=str(told.get("said") or ""),
        why=str(told["why_matched"] or ""),
        tags=str(told.get("tags") or ""),
        scope=str(told.get("scope") or ""),
        pinned=bool(told["pinned"]),
        score=None if told["score"] is None else float(told["score"]),
    )


COLUMNS = {
    "memory": ("id", "string"),
    "score": ("score", "Float64"),
    "tier": ("tier", "string"),
    "type": ("type", "string"),
    "source": ("source", "string"),
    "why_matched": ("why", "string"),
    "summary": ("summary", "string"),
    "text": ("text", "string"),
    "said": ("said", "string"),
    "tags": ("tags", "string"),
    "scope": ("scope", "string"),
    "pinned": ("pinned", "boolean"),
    "at": ("at", "datetime64[us, UTC]"),
}
_LESSONS = {
    "trigger": ("trigger", "string"),
    "said": ("said", "string"),
    "fix": ("fix", "string"),
    "seen": ("seen", "Int64"),
    "prevents": ("prevents", "string"),
    "task": ("task", "string"),
}
_JOINED = {
    "memory": ("id", "string"),
    "how": ("how", "string"),
    "tier": ("tier", "string"),
    "type": ("type", "string"),
    "source": ("source", "string"),
    "summary": ("summary", "string"),
    "text": ("text", "string"),
}


@dataclass(frozen=True, slots=True)
class _Line:
    id: str
    score: float | None
    tier: str
    type: str
    source: str
    why: str
    summary: str
    text: str
    said: str
    tags: str
    scope: str
    pinned: bool
    at: datetime


def memories_table(found: Sequence[Recalled], now: datetime, *, searched: bool = True) -> MemoryFrame:
    """One line for each memory, by its id; as the end of a cell a card with buttons.

    Args:
        found: What the memory gave, in its order.
        now: For their ages.
        searched: Whether there was a question; otherwise `score` is NA.

    Returns:
        With the columns `score` (0 to 1, comparable within one answer alone), `tier` (`trusted` or `quarantine`),
        `type`, `source`, `age` (timedelta), `why_matched` (what matched, the strongest first, with commas), `summary`,
        `text`, `said` (of a lesson: what a box or somebody said then; else empty), `tags`, `scope` (empty for
        everybody), `pinned` and `at` (UTC); the index is the memory's id.
    """
    import numpy as np
    import pandas as pd

    table = table_of([_line(one, searched=searched) for one in found], COLUMNS).set_index("memory")
    # By way of nanoseconds an age of 300 years would be out of bounds.
    seconds = [int((now - one.memory.at).total_seconds()) for one in found]
    ages = pd.to_timedelta(np.array(seconds, dtype="timedelta64[s]"))
    table.insert(list(table.columns).index("why_matched"), "age", ages)
    return MemoryFrame(table)


def lessons_table(found: Sequence[Lesson], now: datetime) -> MemoryFrame:
    """One line for each lesson, by its memory's id, with the columns of `memories_table` behind its own.

    Its own are `trigger` (what went wrong), `said` (what a box or somebody said then, which a promotion lets agents
    read), `fix` (what mended it; empty where nothing is known), `seen` (in how many runs), `prevents` (ids of the
    summaries of those runs, with commas) and `task` (in which it was learned).
    """
    table = memories_table([Recalled(one.memory, 0.0) for one in found], now, searched=False)
    # As a person reads it: with what mended it.
    table["summary"] = [visible(one.shown) for one in found]
    own = table_of([_lesson(one) for one in found], _LESSONS).set_index(table.index)
    return MemoryFrame(own.join(table.drop(columns="said")))


def joined_table(around: Neighbourhood) -> pd.DataFrame:
    """One line for each edge between a memory and what lies around it, by the other memory's id.

    `how` says what the first memory has to do with that one; between two others, both are named.
    """
    first = around.memories[0].id
    known = {one.id: one for one in around.memories}
    lines = []
    for edge in around.edges:
        other = edge.target if edge.source == first else edge.source
        how = edge_words(edge, first)
        if first not in (edge.source, edge.target):
            how = f"{edge_words(edge, edge.source)} {edge.target}"
        lines.append(_joined(known[other], how))
    return table_of(lines, _JOINED).set_index("memory")


@dataclass(frozen=True, slots=True)
class _LessonLine:
    trigger: str
    said: str
    fix: str
    seen: int
    prevents: str
    task: str


def _lesson(one: Lesson) -> _LessonLine:
    failure = one.failure
    return _LessonLine(failure.trigger, failure.said, one.fix_shown, one.seen, ", ".join(one.prevents), one.task)


@dataclass(frozen=True, slots=True)
class _JoinedLine:
    id: str
    how: str
    tier: str
    type: str
    source: str
    summary: str
    text: str


def _joined(memory: Memory, how: str) -> _JoinedLine:
    source = source_words(memory.source)
    return _JoinedLine(memory.id, how, memory.tier.value, memory.type, source, memory.summary, memory.text)


def _line(one: Recalled, *, searched: bool) -> _Line:
    memory = one.memory
    return _Line(
        id=memory.id,
        score=round(one.score, 4) if searched else None,
        tier=memory.tier.value,
        type=memory.type,
        source=source_words(memory.source),
        why=", ".join(one.why),
        summary=memory.summary,
        text=memory.text,
        said=said_in(memory),
        tags=", ".join(memory.tags),
        scope=memory.scope,
        pinned=memory.pinned,
        at=memory.at,
    )


def recalled(
    text: str,
    k: int,
    *,
    types: str | Iterable[str] | None,
    tags: str | Iterable[str] | None,
    tier: str | None,
    since: str | datetime | timedelta | None,
    scopes: str | Iterable[str] | None,
) -> MemoryFrame:
    """See `kagura_kernel.recall`; raises likewise."""
    now = datetime.now(UTC)
    query = program_query(text, k, types=types, tags=tags, tier=tier, since=since, scopes=scopes, now=now)
    return memories_table(get_cockpit().memory.recall(query), now, searched=bool(text.strip()))
