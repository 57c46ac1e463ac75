"""Memories as rows, and the words that a row is found by."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row

from kagura_kernel.domain.memory import Author, Memory, Source, Tier
from kagura_kernel.memory.dates import marks_of
from kagura_kernel.memory.folding import fold
from kagura_kernel.memory.words import index_terms

COLUMNS = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at"
)
_PLAIN = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data"
)
_NAMES = ", ".join(f":{name.strip()}" for name in _PLAIN.split(","))
INSERT = (
    f"INSERT INTO kagura_memories ({_PLAIN}, own, search, folded)"  # noqa: S608 - names of columns alone
    f" VALUES ({_NAMES}, CAST(:own AS tsvector), CAST(:own AS tsvector), :folded) ON CONFLICT (id) DO NOTHING"
)

SUMMARY, TEXT, AROUND = "A", "B", "C"
"""How much a word counts by where it stands: in the summary and the tags; in the text; in the speaker and the date.
The words of the neighbours have the weight D."""

_MOST_BYTES = 250_000
"""Of one memory's own words; with those of two neighbours a row stays below the server's limit of a megabyte."""
_MOST_PLACES = 3
_FOLDED = 2_000


def row_of(memory: Memory) -> dict[str, Any]:
    """What `INSERT` takes."""
    return {
        "id": memory.id,
        "text": memory.text,
        "author": memory.source.author.value,
        "by_name": memory.source.by,
        "run_id": memory.source.run_id,
        "uri": memory.source.uri,
        "tier": memory.tier.value,
        "type": memory.type,
        "summary": memory.summary,
        "tags": list(memory.tags),
        "importance": memory.importance,
        "scope": memory.scope,
        "thread": memory.thread,
        "speaker": memory.speaker,
        "at": memory.at,
        "created_at": memory.created_at,
        "expires_at": memory.expires_at,
        "pinned": memory.pinned,
        "data": json.dumps(dict(memory.data)),
        "own": own_words(memory),
        "folded": fold(f"{memory.summary}\n{memory.text[:_FOLDED]}")[:_FOLDED].replace("\0", ""),
    }


def memory_of_row(row: Row[Any]) -> Memory:
    """The memory whose `COLUMNS` these are."""
    return Memory(
        id=row.id,
        text=row.text,
        source=Source(Author(row.author), row.by_name, row.run_id, row.uri),
        tier=Tier(row.tier),
        type=row.type,
        summary=row.summary,
        tags=tuple(row.tags),
        importance=row.importance,
        scope=row.scope,
        thread=row.thread,
        speaker=row.speaker,
        at=row.at,
        created_at=row.created_at,
        expires_at=row.expires_at,
        pinned=row.pinned,
        data=json.loads(row.data),
        promoted_by=row.promoted_by,
        helped=row.helped,
        misled=row.misled,
        forgotten_at=row.forgotten_at,
    )


def own_words(memory: Memory) -> str:
    """The memory's own words as the text of a `tsvector`; those that stand last are left out where there is no room."""
    places: dict[str, list[str]] = {}
    room = _MOST_BYTES
    for weight, terms in _weighted(memory):
        for term in terms:
            marks = places.get(term)
            if marks is None:
                room -= len(term.encode()) + 12
                if room < 0:
                    break
                marks = places[term] = []
            if len(marks) < _MOST_PLACES:
                # A place is counted once only, however many words stand there, so each gets one of its own.
                marks.append(f"{len(marks) + 1}{weight}")
    return " ".join(f"{quoted(term)}:{','.join(marks)}" for term, marks in places.items())


def quoted(term: str) -> str:
    """A word as the text of a `tsvector` or a `tsquery` has it, whatever it is made of."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def _weighted(memory: Memory) -> Iterable[tuple[str, Iterable[str]]]:
    yield SUMMARY, (term for words in (memory.summary, *memory.tags) for term in index_terms(words))
    yield AROUND, (*index_terms(memory.speaker), *marks_of(memory.at))
    yield TEXT, index_terms(memory.text)
