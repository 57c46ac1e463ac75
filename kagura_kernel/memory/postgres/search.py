"""Finds the rows that fit a question, with every filter inside the search.

The server finds rows by its index and weighs each word by `ts_rank`; how rare a word is it does not know, so that is
asked first. Words that very many rows have are left out where there are others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import Author, Memory, Query, Recalled, Source, Tier
from kagura_kernel.memory.ranking import NEIGHBOUR, asked_tags
from kagura_kernel.memory.words import fold, index_terms, marks_in, marks_of, query_terms

_PLAIN = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data"
)
COLUMNS = f"{_PLAIN}, promoted_by, helped, misled, forgotten_at"
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


_MOST_ASKED, _MOST_KEPT = 160, 24
"""Words of a question that are looked up, and of them those that are searched: the rarest."""
_COUNTED = 1_000
"""A word is counted in so many rows at most; one that has more is common."""
_LOOKED_AT = 2_000
"""Rows that the rarest words lead to; words beyond them only weigh."""
_FEW = 20_000
"""Rows that are all looked at where a question has common words alone."""
_DATE = 0.6
_WEIGHTS = "CAST('{0.25, 0.6, 0.8, 1}' AS real[])"
"""What a word of a neighbour counts, of the speaker and the date, of the text, and of the summary and the tags."""
_PRIOR = "(1 + 0.1 * tanh((helped - misled) / 3.0) + 0.04 * (importance - 0.5))"
_LIKE = 0.3
_SLIP = 5
"""Letters that a word has at least for a slip in it to be forgiven."""
_MOST_SLIPS = 4
_ALIKE = 0.45
"""How alike two words are at least, by their trigrams; two letters that changed places leave about this much."""
_ALIVE = "forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"


@dataclass(frozen=True, slots=True)
class _Word:
    label: str
    asked: str
    weight: float
    rows: int = 0


def alive(now: datetime) -> tuple[str, dict[str, Any]]:
    """The condition that a memory can be recalled, and its values."""
    return _ALIVE, {"now": now}


def newest(connection: Connection, query: Query, now: datetime) -> list[Recalled]:
    """The newest that pass the filters."""
    where, values = _filters(query, now)
    sql = f"SELECT {COLUMNS} FROM kagura_memories WHERE {where} ORDER BY at DESC, seq DESC LIMIT :k"  # noqa: S608 - conditions of ours
    rows = connection.execute(text(sql), values)
    return [Recalled(memory, 1.0, asked_tags(query, memory)) for memory in map(memory_of_row, rows)]


def search(connection: Connection, query: Query, now: datetime, *, trigrams: bool) -> list[Recalled]:
    """What fits best, at most `query.k`."""
    # The server cannot know which words are asked for when it plans, and would rather read every row than the index.
    connection.execute(text("SET LOCAL enable_seqscan = off"))
    words, total = _counted(connection, _words(query.text))
    known = [word for word in words if word.rows]
    found = _matches(connection, query, now, known, total) if known else []
    if trigrams and len(found) < query.k:
        slips = [word for word in words if not word.rows and len(word.label) >= _SLIP and word.label.isalpha()]
        found += _like(connection, query, now, [word.label for word in slips[:_MOST_SLIPS]], found)
    return found


def _words(question: str) -> list[_Word]:
    folded = fold(question)
    dates = [_Word(f"date: {mark[1:]}", quoted(mark), _DATE) for mark in marks_in(folded)]
    terms = query_terms(question)[:_MOST_ASKED]
    return [*(_Word(term.label, " | ".join(map(quoted, term.forms)), term.weight) for term in terms), *dates]


def _counted(connection: Connection, words: Sequence[_Word]) -> tuple[list[_Word], int]:
    """The words with the number of rows that have them, and the number of rows."""
    sql = text(
        """SELECT (SELECT count(*) FROM (
                SELECT 1 FROM kagura_memories WHERE search @@ CAST(asked.word AS tsquery) LIMIT :most) AS capped),
            (SELECT greatest(reltuples, (SELECT count(*) FROM (SELECT 1 FROM kagura_memories LIMIT :most) AS capped))
                FROM pg_class WHERE oid = to_regclass('kagura_memories'))
        FROM unnest(CAST(:words AS text[])) WITH ORDINALITY AS asked (word, place) ORDER BY asked.place"""
    )
    counts = connection.execute(sql, {"words": [word.asked for word in words], "most": _COUNTED}).all()
    told = [_Word(word.label, word.asked, word.weight, rows) for word, (rows, _) in zip(words, counts, strict=True)]
    return told, max((int(total) for _, total in counts), default=0)


def _kept(words: Sequence[_Word], total: int) -> tuple[list[_Word], list[_Word]]:
    """The words that weigh, and those of them that lead to rows."""
    kept = sorted(words, key=lambda word: (-_worth(word, total), word.rows))[:_MOST_KEPT]
    if total <= _LOOKED_AT:
        return kept, kept
    leading: list[_Word] = []
    rows = 0
    for word in sorted(kept, key=lambda word: word.rows):
        if leading and (word.rows >= _COUNTED or rows + word.rows > _LOOKED_AT):
            break
        leading.append(word)
        rows += word.rows
    return kept, leading


def _worth(word: _Word, total: int) -> float:
    return word.weight * math.log(1 + (total - word.rows + 0.5) / (word.rows + 0.5) if total > word.rows else 1.05)


def _matches(connection: Connection, query: Query, now: datetime, words: Sequence[_Word], total: int) -> list[Recalled]:
    kept, leading = _kept(words, total)
    where, values = _filters(query, now)
    values |= {f"q{number}": word.asked for number, word in enumerate(kept)}
    values |= {f"w{number}": _worth(word, total) for number, word in enumerate(kept)}
    values["leading"] = " | ".join(word.asked for word in leading)
    # Where all words are common, the newest of very many rows are as good as any.
    bound = f"ORDER BY at DESC, seq DESC LIMIT {_LOOKED_AT}" if total > _FEW and leading[0].rows >= _COUNTED else ""
    points = ", ".join(
        f"CAST(:w{number} AS real) * ts_rank({_WEIGHTS}, search, CAST(:q{number} AS tsquery))"
        for number in range(len(kept))
    )
    own = ", ".join(f"own @@ CAST(:q{number} AS tsquery)" for number in range(len(kept)))
    sql = f"""SELECT {COLUMNS}, points, worth, ARRAY[{own}] AS owned FROM (
            SELECT *, (SELECT sum(point) FROM unnest(points) AS point) * {_PRIOR} AS worth FROM (
                SELECT *, ARRAY[{points}] AS points FROM (
                    SELECT * FROM kagura_memories
                    WHERE search @@ CAST(:leading AS tsquery) AND {where} {bound}) AS candidates) AS found
            ORDER BY worth DESC, at DESC, seq LIMIT :k) AS best
        ORDER BY worth DESC, at DESC, seq"""  # noqa: S608 - conditions and names of ours
    found = []
    for row in connection.execute(text(sql), values):
        memory = memory_of_row(row)
        why = _why([word.label for word in kept], row.points, row.owned)
        found.append(Recalled(memory, _score(float(row.worth)), (*why, *asked_tags(query, memory))))
    return found


def _like(
    connection: Connection, query: Query, now: datetime, words: Sequence[str], found: Sequence[Recalled]
) -> list[Recalled]:
    """Memories with words that are nearly those; they come after what was found by its words."""
    if not words:
        return []
    where, values = _filters(query, now)
    names = [f"s{number}" for number in range(len(words))]
    values |= dict(zip(names, words, strict=True))
    values |= {"k": query.k - len(found), "there": [one.memory.id for one in found]}
    alike = " OR ".join(f":{name} <% folded" for name in names)
    worth = f"greatest({', '.join(f'word_similarity(:{name}, folded)' for name in names)})"
    sql = f"""SELECT {COLUMNS}, {worth} AS worth FROM kagura_memories
        WHERE ({alike}) AND {where} AND id <> ALL(:there) ORDER BY worth DESC, at DESC, seq LIMIT :k"""  # noqa: S608 - likewise
    connection.execute(
        text("SELECT set_config('pg_trgm.word_similarity_threshold', :alike, true)"), {"alike": f"{_ALIKE}"}
    )
    most = min([_LIKE, *(one.score for one in found)])
    rows = connection.execute(text(sql), values).all()
    return [
        Recalled(memory_of_row(row), most * float(row.worth), tuple(f"like {word}" for word in words)) for row in rows
    ]


def _filters(query: Query, now: datetime) -> tuple[str, dict[str, Any]]:
    where, values = alive(now)
    asked: list[tuple[bool, str, str, Any]] = [
        (bool(query.types), "type = ANY(:types)", "types", list(query.types)),
        (bool(query.tags), f"tags {'@>' if query.all_tags else '&&'} CAST(:tags AS text[])", "tags", list(query.tags)),
        (query.tier is not None, "tier = :tier", "tier", query.tier and query.tier.value),
        (query.scopes is not None, "scope = ANY(CAST(:scopes AS text[]))", "scopes", list(query.scopes or ())),
        (query.since is not None, "at >= :since", "since", query.since),
        (query.until is not None, "at < :until", "until", query.until),
        (query.min_importance > 0, "importance >= :least", "least", query.min_importance),
    ]
    for wanted, condition, name, value in asked:
        if wanted:
            where += f" AND {condition}"
            values[name] = value
    values["k"] = query.k
    return where, values


def _why(labels: Sequence[str], points: Sequence[float], owned: Sequence[bool]) -> tuple[str, ...]:
    order = sorted(range(len(labels)), key=lambda number: -points[number])
    named = dict.fromkeys(labels[number] if owned[number] else NEIGHBOUR for number in order if points[number] > 0)
    return tuple(named)


def _score(worth: float) -> float:
    return worth / (1 + worth) if worth > 0 else 0.0
