"""What may be remembered, joined and asked, and how a draft becomes a memory; the same for every store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kagura_kernel.domain.errors.memory import MemoryInvalid
from kagura_kernel.domain.identity import new_memory_id
from kagura_kernel.domain.memory import (
    EDGE_TYPES,
    MEMORY_TYPE,
    MOST_SUMMARY,
    MOST_TAGS,
    MOST_TEXT,
    Draft,
    Edge,
    Memory,
    Query,
    is_tag,
)

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
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    return _SURROGATE.sub("\ufffd", text.replace("\0", ""))


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
    if not text.isascii() and _SURROGATE.search(text):
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
    return not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
