"""What every memory does, whatever keeps it: what may be remembered, joined and asked, and a walk along the edges.

Calls block; any thread may make them.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, Self, TypeVar

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnavailable
from kagura_kernel.domain.identity import new_memory_id
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import (
    EDGE_TYPES,
    MEMORY_TYPE,
    MOST_SUMMARY,
    MOST_TAGS,
    MOST_TEXT,
    Draft,
    Edge,
    Erased,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Tier,
    is_tag,
)
from kagura_kernel.domain.visible import is_whole, whole


class Closing(ABC):
    """A store that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryStore(Protocol):
    """Keeps memories and finds them again.

    Every method raises `MemoryUnavailable` when the store cannot be reached, and `MemoryUnknown` where an id is given
    that it does not have, or that has been erased.
    """

    @property
    def where(self) -> str:
        """What to call it: a path, or an address without a password."""
        ...

    def check(self) -> None:
        """Return when it can be read and written; the gate before every run."""
        ...

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is durable when this returns. A draft whose id is there already changes nothing.

        Raises:
            MemoryInvalid: something in it is wrong; everything that is, is told.
        """
        ...

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, all or none; their ids in the same order. Raises like `remember`, with the number of each."""
        ...

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits a question best, the best first; never what was forgotten or has expired.

        Raises:
            MemoryInvalid: the query cannot be used.
        """
        ...

    def reference(self, memory_id: str) -> Memory:
        """One memory by its id, a forgotten one too."""
        ...

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What every run in these scopes starts with, the most important first."""
        ...

    def create_edge(self, edge: Edge) -> None:
        """Join two memories; an edge that is there gets the new weight."""
        ...

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What is joined to a memory, in both directions, up to `depth` edges away and at most `most` memories."""
        ...

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled; it stays until it is erased."""
        ...

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        ...

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it with its edges for good; with `cascade`, everything that came from it (`came-from`) too."""
        ...

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        ...

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled somebody; it is found a little earlier or later from then on."""
        ...

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """A person says that it may be trusted."""
        ...

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted any more."""
        ...

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        ...

    def export(self) -> Iterator[Memory | Edge]:
        """Everything that can be recalled, then the edges between it, for another store to import."""
        ...

    def close(self) -> None:
        """Give everything back; may be called twice."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, *_: object) -> None:
        """Close it."""
        ...


def ready(store: MemoryStore) -> None:
    """Return when a run may start with this memory.

    What stands in the way is told with what to do about it: no way to it, a wrong key or password, a wrong address, a
    server or tables of the wrong version, a store that may only be read, a full disk, a file that is damaged.

    Raises:
        MemoryUnavailable: it cannot be read and written; whatever went wrong, this is how it is told.
    """
    try:
        store.check()
    except MemoryUnavailable:
        raise
    except KaguraError as error:
        raise MemoryUnavailable(store.where, error.message.rstrip(". "), "See `kagura-kernel doctor`.") from error
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise MemoryUnavailable(store.where, why, "See `kagura-kernel doctor`.") from error


DEEPEST = 32
"""Edges that a walk goes away from where it began at most."""

Name = TypeVar("Name", bound=Hashable)
"""What a store calls a memory by: its id, or the number of its row."""

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
    if most < 1:
        problems.append("the number of memories is not at least 1")
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


def descendants(seed: Name, children_of: Callable[[Sequence[Name]], Collection[Name]]) -> tuple[Name, ...]:
    """A memory, and everything that came from it; circles and diamonds are walked once."""
    told = dict.fromkeys([seed])
    level: Sequence[Name] = [seed]
    while level:
        level = [one for one in dict.fromkeys(children_of(level)) if one not in told]
        told.update(dict.fromkeys(level))
    return tuple(told)


def _others(level: Sequence[str], edges: Collection[Edge], seen: set[str]) -> list[str]:
    """What these edges lead to, the heaviest first."""
    inside = set(level)
    weights: dict[str, float] = {}
    for edge in edges:
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            if here in inside and there not in seen:
                weights[there] = max(weights.get(there, 0.0), edge.weight)
    return sorted(weights, key=lambda one: (-weights[one], one))


MOST_NAME = 48
MOST_FIELD = 400
"""Characters of a scope, a thread, a speaker, and of each part of a source."""
MOST_DATA = 64 * 1024
"""Characters of the further facts, as JSON."""
MOST_K = 1000
MOST_PROBLEMS = 50
MEMORY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)

_FIELDS = ("scope", "thread", "speaker", "author's name", "run's id", "source's address")
_SHORT = 120


def memory_of(draft: Draft, now: datetime) -> Memory:
    """The memory that a draft becomes at a moment.

    Raises:
        MemoryInvalid: something in it is wrong; everything that is, is told.
    """
    if problems := list(_draft_problems(draft)):
        raise MemoryInvalid("The memory", problems)
    return _memory(draft, now)


def memories_of(drafts: Iterable[Draft], now: datetime) -> list[Memory]:
    """The memories that drafts become.

    Raises:
        MemoryInvalid: something in one of them is wrong; each problem begins with the draft's number, from 1.
    """
    memories: list[Memory] = []
    problems: list[str] = []
    for number, draft in enumerate(drafts, 1):
        found = [f"number {number}: {problem}" for problem in _draft_problems(draft)]
        problems += found
        if not problems:
            memories.append(_memory(draft, now))
        if len(problems) >= MOST_PROBLEMS:
            problems.append("and perhaps more")
            break
    if problems:
        raise MemoryInvalid("What is to be remembered", problems)
    return memories


def keepable(text: str) -> str:
    """A text without what no memory can hold: NUL characters, and halves of characters."""
    return whole(text.replace("\0", ""))


def check_query(query: Query) -> None:
    """Return when it can be asked.

    Raises:
        MemoryInvalid: it cannot.
    """
    if problems := list(_query_problems(query)):
        raise MemoryInvalid("The question", problems)


def check_edge(edge: Edge) -> None:
    """Return when it may join two memories.

    Raises:
        MemoryInvalid: its type or its weight is wrong, or it leads back to where it begins.
    """
    problems = []
    if edge.type not in EDGE_TYPES:
        problems.append(f"{edge.type!r} is no type of edge; there are {', '.join(EDGE_TYPES)}")
    if not _within_one(edge.weight):
        problems.append("the weight is not between 0 and 1")
    if edge.source == edge.target:
        problems.append("a memory is not joined to itself")
    if problems:
        raise MemoryInvalid("The edge", problems)


def check_named(what: str, value: str) -> None:
    """Return when a person's name, or the like, can be kept.

    Raises:
        MemoryInvalid: it is empty, too long, or no text.
    """
    problems = list(_field_problems({what: value}))
    if not value.strip():
        problems.append(f"the {what} is empty")
    if problems:
        raise MemoryInvalid(f"The {what}", problems)


def _memory(draft: Draft, now: datetime) -> Memory:
    first = draft.text.strip().split("\n", 1)[0].strip()
    # One line, wherever it is shown: a second one would pose as whatever comes after it.
    summary = " ".join(draft.summary.split()) or (first if len(first) <= _SHORT else first[: _SHORT - 1].rstrip() + "…")
    return Memory(
        id=draft.id or new_memory_id(),
        text=draft.text,
        source=draft.source,
        tier=draft.tier,
        type=draft.type,
        summary=summary,
        tags=tuple(sorted(set(draft.tags))),
        importance=float(draft.importance),
        scope=draft.scope,
        thread=draft.thread,
        speaker=draft.speaker,
        at=(draft.at or now).astimezone(UTC),
        created_at=now.astimezone(UTC),
        expires_at=draft.expires_at and draft.expires_at.astimezone(UTC),
        pinned=draft.pinned,
        data=dict(draft.data),
    )


def _draft_problems(draft: Draft) -> Iterator[str]:
    yield from _text_problems("text", draft.text, MOST_TEXT)
    if not draft.text.strip():
        yield "the text is empty"
    yield from _text_problems("summary", draft.summary, MOST_SUMMARY)
    yield from _kind_problems((draft.type,))
    if draft.tags:
        yield from _tag_problems(draft.tags)
        if len(set(draft.tags)) > MOST_TAGS:
            yield f"there are more than {MOST_TAGS} tags"
    if not _within_one(draft.importance):
        yield "the importance is not between 0 and 1"
    source = draft.source
    fields = (draft.scope, draft.thread, draft.speaker, source.by, source.run_id, source.uri)
    # Of many memories nearly all have short fields of plain letters.
    if not (len(joined := "".join(fields)) <= MOST_FIELD and joined.isascii() and joined.isprintable()):
        yield from _field_problems(dict(zip(_FIELDS, fields, strict=True)))
    yield from _moment_problems({"moment": draft.at, "moment of expiry": draft.expires_at})
    if draft.id and not MEMORY_ID.fullmatch(draft.id):
        yield "the id is not made of at most 128 letters, digits and . _ : -"
    if draft.data:
        yield from _data_problems(draft.data)


def _query_problems(query: Query) -> Iterator[str]:
    yield from _text_problems("text", query.text, MOST_TEXT)
    if isinstance(query.k, bool) or not 1 <= query.k <= MOST_K:
        yield f"k is not between 1 and {MOST_K:,}"
    if not _within_one(query.min_importance):
        yield "the least importance is not between 0 and 1"
    yield from _kind_problems(query.types)
    yield from _tag_problems(query.tags)
    yield from _field_problems({f"scope {scope[:40]!r}": scope for scope in query.scopes or ()})
    yield from _moment_problems({"beginning": query.since, "end": query.until})


def _text_problems(what: str, text: str, most: int) -> Iterator[str]:
    if len(text) > most:
        yield f"the {what} has {len(text):,} characters, more than {most:,}"
    if "\0" in text:
        yield f"the {what} holds a NUL character"
    if not is_whole(text):
        yield f"the {what} holds half a character (a lone surrogate)"


def _kind_problems(kinds: Iterable[str]) -> Iterator[str]:
    for kind in kinds:
        if len(kind) > MOST_NAME or not MEMORY_TYPE.fullmatch(kind):
            yield f"the type {kind[:60]!r} is not like-this, at most {MOST_NAME} characters"


def _tag_problems(tags: Iterable[str]) -> Iterator[str]:
    for tag in tags:
        if len(tag) > MOST_NAME or not is_tag(tag):
            yield (
                f"the tag {tag[:60]!r} is not made of letters and digits, joined by single dashes, at most "
                f"{MOST_NAME} characters"
            )


def _field_problems(fields: Mapping[str, str]) -> Iterator[str]:
    for what, value in fields.items():
        yield from _text_problems(what, value, MOST_FIELD)
        if "\n" in value or "\r" in value:
            yield f"the {what} has more than one line"


def _moment_problems(moments: Mapping[str, datetime | None]) -> Iterator[str]:
    for what, moment in moments.items():
        if moment is None:
            continue
        if moment.utcoffset() is None:
            yield f"the {what} has no time zone"
            continue
        try:
            moment.astimezone(UTC)
        except OverflowError:
            yield f"the {what} is beyond what UTC can tell"


def _data_problems(data: Mapping[str, object]) -> Iterator[str]:
    try:
        text = json.dumps(dict(data), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        yield "the data is no JSON object"
        return
    if any(not isinstance(key, str) for key in data):
        yield "the data has a key that is no text"
    yield from _text_problems("data", text, MOST_DATA)


def _within_one(value: float) -> bool:
    return not isinstance(value, bool) and 0 <= value <= 1
