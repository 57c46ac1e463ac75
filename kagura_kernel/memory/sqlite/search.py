"""Finds the rows that fit a question, with every filter inside the search; and how memories are rows, and found.

Beside the words of a text the index has terms that say whom a memory concerns and what it is. Each of these begins with
a character for private use, so that no word of a text is ever one of them.

Where the words of a question are: rows of the index, read only as far as it pays. A word that is in very many memories
tells little and costs much. Every word is probed first; words that are rare enough are read whole, the rarest first, as
long as the budget lasts. The others are looked for in the texts of the best candidates alone.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, Protocol, TypeVar

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.memory import NOTE, Author, Memory, Query, Source, Tier
from kagura_kernel.memory.ranking import Place, Scored, Wanted, Weights, fused, rank, rarity
from kagura_kernel.memory.words import ascii_words, fold, index_terms, marks_in, marks_of, names_date, query_terms

COLUMNS = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at"
)
INSERT = f"INSERT INTO memory (n, {COLUMNS}) VALUES ({', '.join('?' * 24)})"  # noqa: S608 - no value is in it

CHUNK = 400
"""Rows that one statement names."""

_T = TypeVar("_T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An aware moment as a number."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(number: int) -> datetime:
    """The moment that a number stands for, in UTC."""
    return _EPOCH + number * _MICROSECOND


def as_json(tags: Sequence[str]) -> str:
    """Tags as a column holds them."""
    return json.dumps(tags) if tags else "[]"


def chunks(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The same in parts of at most `CHUNK`."""
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def numbers(rows: Sequence[int]) -> str:
    """Numbers as a list of SQL has them."""
    return ",".join(map(str, rows))


def placeholders(values: Sequence[object]) -> str:
    """A question mark for each of these, likewise."""
    return ", ".join("?" * len(values))


def row_of(number: int, memory: Memory) -> tuple[Any, ...]:
    """What `INSERT` takes."""
    source = memory.source
    return (
        number,
        memory.id,
        memory.text,
        str(source.author),
        source.by,
        source.run_id,
        source.uri,
        str(memory.tier),
        memory.type,
        memory.summary,
        as_json(memory.tags),
        memory.importance,
        memory.scope,
        memory.thread,
        memory.speaker,
        micros(memory.at),
        micros(memory.created_at),
        _micros_or_none(memory.expires_at),
        int(memory.pinned),
        json.dumps(dict(memory.data), ensure_ascii=False) if memory.data else "{}",
        memory.promoted_by,
        memory.helped,
        memory.misled,
        _micros_or_none(memory.forgotten_at),
    )


def memory_of_row(row: Iterable[Any]) -> Memory:
    """The memory whose `COLUMNS` these are."""
    (id_, text, author, by_name, run_id, uri, tier, type_, summary, tags, importance, scope, thread, speaker, *rest) = (
        row
    )
    at, created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at = rest
    return Memory(
        id=id_,
        text=text,
        source=Source(Author(author), by_name, run_id, uri),
        tier=Tier(tier),
        type=type_,
        summary=summary,
        tags=tuple(json.loads(tags)),
        importance=importance,
        scope=scope,
        thread=thread,
        speaker=speaker,
        at=moment(at),
        created_at=moment(created_at),
        expires_at=_moment_or_none(expires_at),
        pinned=bool(pinned),
        data=json.loads(data),
        promoted_by=promoted_by,
        helped=helped,
        misled=misled,
        forgotten_at=_moment_or_none(forgotten_at),
    )


def _micros_or_none(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _moment_or_none(number: int | None) -> datetime | None:
    return None if number is None else moment(number)


_BRACKETED = r"[\[(][^\])\n]{0,60}[\])]"
_STAMP = r"[A-Z]?\d[\w:./,+\-]*"
_BEFORE = rf"\s*(?:[-*•>]\s+)?(?:{_BRACKETED}\s*|{_STAMP}\s+(?:[-–—]\s+)?){{0,3}}"
_NAME = r"[^\W\d_][^\W_]*(?:[ .'\-]{1,2}[^\W_]+){0,2}?"
_SAYS = r"(?:said|says|asked|asks|replied|replies|wrote|writes|sagte?|fragte?|schrieb|schreibt)\b\s*[,:]"
_AFTER = rf"\*{{0,2}}\s*(?:{_BRACKETED}\s*)?(?::\*{{0,2}}(?=\s|[\"„“])|：|{_SAYS})\s*"
_SPOKEN = re.compile(rf"{_BEFORE}\*{{0,2}}({_NAME}){_AFTER}")
_LABELS_WORDS = """
note notes fix todo lesson warning error task decision outcome question answer summary date session title
topic cause reason result update status problem solution incident example hint info debug step context goal
user's ursache notiz hinweis fehler lösung aufgabe ergebnis frage antwort datum
原因 対応 対策 結果 注意 メモ 件名 日時 概要 課題
"""
_LABELS = frozenset(_LABELS_WORDS.split())
_ROLES = frozenset({"user", "assistant", "human"})
_ADDRESSES = re.compile(
    r"\b(?:i|me|my|mine|you|your|yours|we|our|ich|mir|mich|mein\w{0,2}|du|dir|dich|dein\w{0,2}|wir|unser\w{0,2})\b"
    r"|[?!？！]|[ねよか]。|私|僕|俺|あなた",
    re.IGNORECASE,
)
_PERSONS_WORDS = "i me my mine you your yours we our ich mir mich du dir dich wir"
_PERSONS = frozenset(_PERSONS_WORDS.split())
_POSSESSIVES = ("mein", "dein", "unser")


def speaker_in(text: str) -> tuple[str, str]:
    """Who speaks and what is said, of `Caroline: I went …`; no name and the whole text where nobody is named.

    When it was said, or the number of the turn, may stand before the name or after it.
    """
    # Without one of these there is no name before what is said, and the pattern takes long to find that out.
    if ":" not in text and "," not in text and "：" not in text:
        return "", text
    found = _SPOKEN.match(text)
    if found is None or not _is_name(found[1]):
        return "", text
    return found[1], text[found.end() :]


def sounds_spoken(text: str) -> bool:
    """Whether somebody speaks of themselves or to another in it, as in nearly all turns and in few notes."""
    return _may_address(text) and _ADDRESSES.search(text) is not None


def _may_address(text: str) -> bool:
    """Whether the pattern, which takes many times as long, could find anything."""
    if not text.isascii() or "?" in text or "!" in text:
        return True
    folded = text.lower()
    return not _PERSONS.isdisjoint(ascii_words(folded)) or any(word in folded for word in _POSSESSIVES)


def _is_name(text: str) -> bool:
    first = text.split(maxsplit=1)[0].lower()
    return first not in _LABELS and (text[0].isupper() or not text[0].isascii() or text in _ROLES)


_FACET, _SPEAKER, _DATE, OFTEN, VERY_OFTEN = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
"""`OFTEN` and `VERY_OFTEN` end the terms that stand for a word that is in a text at least twice, and four times."""

TWICE, FOUR_TIMES = 2, 4
_PRIVATE = dict.fromkeys(range(57344, 57360), " ")


def facet_mark(kind: str, value: str) -> str:
    """The term of a scope, a type, a tag or a tier."""
    return f"{_FACET}{kind}{blake2b(value.encode(), digest_size=6).hexdigest()}"


def speaker_mark(name: str) -> str:
    """The term of one word of a speaker's name, folded."""
    return f"{_SPEAKER}{name}"


def date_mark(mark: str) -> str:
    """The term of a mark of `dates`."""
    return f"{_DATE}{mark}"


def indexed(memory: Memory) -> tuple[str, int]:
    """What the index holds of a memory, and how many words that are of its text."""
    speaker, said = memory.speaker, memory.text
    if not speaker:
        speaker, said = speaker_in(said)
    elif speaker in said:
        named, rest = speaker_in(said)
        said = rest if named == speaker else said
    words = index_terms(_without_private(said))
    # A summary is nearly always the text's beginning; its words must not count twice.
    begun = said is memory.text and said.startswith(memory.summary.removesuffix("…"))
    if memory.tags or not begun:
        known = set(words)
        beside = " ".join(memory.tags if begun else (memory.summary, *memory.tags))
        words += [word for word in index_terms(_without_private(beside)) if word not in known]
    marks = (
        _kind_marks(memory.scope, memory.type, str(memory.tier)),
        *(facet_mark("tag", tag) for tag in memory.tags),
        _day_marks(memory.at.date()),
        _name_marks(speaker),
    )
    return " ".join((*_counted(words), *marks)), len(words)


def _without_private(text: str) -> str:
    return text if text.isascii() else text.translate(_PRIVATE)


@lru_cache(maxsize=1 << 10)
def _kind_marks(scope: str, type_: str, tier: str) -> str:
    return " ".join((facet_mark("scope", scope), facet_mark("type", type_), facet_mark("tier", tier)))


@lru_cache(maxsize=1 << 10)
def _day_marks(day: date) -> str:
    return " ".join(map(date_mark, marks_of(day)))


@lru_cache(maxsize=1 << 10)
def _name_marks(speaker: str) -> str:
    return " ".join(speaker_mark(word) for word in dict.fromkeys(index_terms(fold(speaker))))


def is_turn(memory: Memory) -> bool:
    """Whether it is one turn of a conversation, so that its neighbours speak of the same."""
    if memory.thread or memory.speaker or speaker_in(memory.text)[0]:
        return True
    # Words alone are joined only where nobody said that they are something else than a note.
    return memory.type == NOTE and sounds_spoken(memory.text)


def _counted(words: list[str]) -> list[str]:
    once: dict[str, None] = {}
    again: list[str] = []
    for word in words:
        if word in once:
            again.append(word)
        else:
            once[word] = None
    if not again:
        return words
    counts = Counter(again)
    often = [word + VERY_OFTEN for word, more in counts.items() if more >= FOUR_TIMES - 1]
    return [*once, *[word + OFTEN for word in counts], *often]


PROBE = 600
"""Rows of each word that are read in any case, the newest."""
BUDGET = 1_500
"""Rows that are read beyond the probes."""
SELECTIVE = 2_000
"""A filter that lets at most so many memories through is applied within the index."""

# As one text, since a row for each number takes three times as long.
_NUMBERS = (
    "SELECT json_group_array(rowid) FROM (SELECT rowid FROM term WHERE term MATCH ?{} ORDER BY rowid DESC LIMIT ?)"
)
_NEWEST = _NUMBERS.format("")
_OLDER = _NUMBERS.format(" AND rowid < ?")


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing to look for."""

    label: str  # What `why` says of it
    forms: tuple[str, ...]  # Terms of the index; one of them is enough
    weight: float = 1.0  # How much it counts beside a word
    # `word`, `speaker` or `date`; of words alone the index says how often they are in a memory
    kind: Literal["word", "speaker", "date"] = "word"


@dataclass(slots=True)
class Posting:
    """Where one thing is."""

    ask: Ask  # What was looked for
    rows: dict[int, float] = field(default_factory=dict)  # How often it is in which row
    found: int = 0  # In how many rows it is; an estimate until everything is read
    whole: bool = True  # Whether `rows` are all of them

    def wanted(self, total: int, factor: float = 1.0) -> Wanted:
        """For ranking, among `total` memories, and counting `factor` times; only what counts whole spreads."""
        worth = rarity(total, self.found) * self.ask.weight * factor
        return Wanted(self.ask.label, worth, self.rows, spreads=self.ask.kind == "word" and factor == 1)


class Postings:
    """What the index says of one question.

    Args:
        connection: Within a transaction.
        total: How many memories there are, about.
        narrowed: Groups of terms; a row needs one of each group. Empty for no narrowing.
    """

    def __init__(self, connection: sqlite3.Connection, total: int, narrowed: Sequence[Sequence[str]] = ()) -> None:
        self._connection = connection
        self._total = total
        self._narrowed = "".join(f" AND ({_any(group)})" for group in narrowed)

    def read(self, asks: Iterable[Ask]) -> list[Posting]:
        """Everything of the rare words; of the others their newest rows."""
        postings = [self._probed(ask) for ask in asks]
        left = BUDGET
        for posting in sorted((one for one in postings if not one.whole), key=lambda one: one.found):
            if posting.found - PROBE > left:
                break
            left -= self._read_on(posting, left + PROBE)
        if postings and all(not posting.whole for posting in postings):
            self._read_together(postings)
        for posting in postings:
            if posting.whole and posting.rows and posting.ask.kind == "word":
                self._count(posting)
        return [posting for posting in postings if posting.rows]

    def _probed(self, ask: Ask) -> Posting:
        rows = self._rows(_any(ask.forms), PROBE)
        whole = len(rows) < PROBE
        found = len(rows)
        if not whole and len(rows) > 1:
            newest, oldest = max(rows), min(rows)
            found = max(found, round(found * newest / max(1, newest - oldest)))
        return Posting(ask, dict.fromkeys(rows, 1.0), found, whole)

    def _read_on(self, posting: Posting, most: int) -> int:
        last = min(posting.rows)
        match = f"({_any(posting.ask.forms)}){self._narrowed}"
        rows = _read(self._connection, _OLDER, match, last, most)
        posting.rows.update(dict.fromkeys(rows, 1.0))
        posting.whole = len(rows) < most
        if posting.whole:
            posting.found = len(posting.rows)
        return len(rows)

    def _read_together(self, postings: Sequence[Posting]) -> None:
        first, *others = sorted(postings, key=lambda one: one.found)
        match = _any(first.ask.forms)
        if others:
            match = f"({match}) AND ({_any(others[0].ask.forms)})"
        rows = self._rows(match, BUDGET)
        first.rows.update(dict.fromkeys(rows, 1.0))
        if others:
            others[0].rows.update(dict.fromkeys(rows, 1.0))

    def _count(self, posting: Posting) -> None:
        for ending, times in ((OFTEN, TWICE), (VERY_OFTEN, FOUR_TIMES)):
            forms = [form + ending for form in posting.ask.forms]
            rows = self._rows(_any(forms), PROBE)
            if not rows:
                return
            for row in rows:
                if row in posting.rows:
                    posting.rows[row] = float(times)

    def _rows(self, match: str, most: int) -> list[int]:
        query = f"({match}){self._narrowed}" if self._narrowed else match
        return _read(self._connection, _NEWEST, query, most)


def _read(connection: sqlite3.Connection, sql: str, *values: object) -> list[int]:
    rows: list[int] = json.loads(connection.execute(sql, values).fetchone()[0])
    return rows


def is_selective(connection: sqlite3.Connection, terms: Sequence[str]) -> bool:
    """Whether few memories hold one of the terms."""
    return len(_read(connection, _NEWEST, _any(terms), SELECTIVE)) < SELECTIVE


def _any(forms: Iterable[str]) -> str:
    return " OR ".join(f'"{form}"' for form in forms)


@dataclass(frozen=True, slots=True)
class Filters:
    """What a row of `facet` (named `f`) must be."""

    condition: str  # SQL
    values: tuple[object, ...]  # What stands for its question marks


def filters_of(query: Query, now: int) -> Filters:
    """The conditions of a question at a moment, in microseconds."""
    parts: list[str] = ["NOT f.hidden", "(f.expires_at IS NULL OR f.expires_at > ?)"]
    values: list[object] = [now]
    if query.tier is not None:
        parts.append("f.tier = ?")
        values.append(query.tier.value)
    for column, chosen in (("type", query.types), ("scope", query.scopes)):
        if chosen or (column == "scope" and chosen is not None):
            parts.append(f"f.{column} IN ({placeholders(chosen)})")
            values += chosen
    if query.tags:
        tags = tuple(dict.fromkeys(query.tags))
        least = len(tags) if query.all_tags else 1
        parts.append(f"(SELECT count(*) FROM json_each(f.tags) WHERE value IN ({placeholders(tags)})) >= {least}")  # noqa: S608 - marks
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


CANDIDATES = 100
"""Memories that are ranked with their neighbours; more where more are asked for."""
LOOKED_AT = 25
"""Of them, those that are searched for the words that very many memories have."""
ENOUGH = 1_000
"""Rows that are compared; when rare words gave so many, common ones add no others."""
READ = 2_000
"""Characters of a candidate's text that are searched for common words."""
TOO_COMMON = 0.5
"""A word that is in a larger part of all memories is not worth looking for."""
MOST_TERMS = 64

_FACETS = "SELECT n, prev, next, session, turn, length, at, importance, bias FROM facet f"


class Similarities(Protocol):
    """How near memories are to a question in their meaning."""

    def nearest(self, most: int) -> Sequence[int]:
        """The rows that are nearest."""
        ...

    def of(self, rows: Sequence[int]) -> dict[int, float]:
        """How near each of these rows is, of those that have a vector."""
        ...


def newest(connection: sqlite3.Connection, query: Query, now: int) -> list[int]:
    """The newest rows that pass the filters."""
    wanted = filters_of(query, now)
    order = "ORDER BY m.at DESC, m.n DESC LIMIT ?"
    joined = "memory m JOIN facet f ON f.n = m.n"
    sql = f"SELECT m.n FROM {joined} WHERE m.forgotten_at IS NULL AND {wanted.condition} {order}"  # noqa: S608 - ours
    return [row for (row,) in connection.execute(sql, (*wanted.values, query.k))]


def search(
    connection: sqlite3.Connection,
    query: Query,
    now: int,
    broad: set[str],
    similarities: Similarities | None = None,
) -> list[Scored]:
    """The rows that fit best, at most `query.k`; `broad` is what `narrowing` learnt of this file so far."""
    total = connection.execute("SELECT coalesce(max(n), 0) FROM facet").fetchone()[0]
    index = Postings(connection, total, narrowing(connection, query, broad))
    postings = index.read(_asks(query.text))
    wanted = filters_of(query, now)
    rows = _first_look(postings, total)
    places = _candidates(connection, rows, wanted, max(CANDIDATES, 2 * query.k))
    _look_into(connection, postings, list(places)[: max(LOOKED_AT, query.k)], total)
    _add_neighbours(connection, places, wanted)
    most = query.k if similarities is None else None
    scored = rank(_wanted(postings, total), places, most)
    if similarities is not None:
        scored = _with_meaning(connection, scored, similarities, wanted, query.k)
    return scored[: query.k]


def _asks(text: str) -> list[Ask]:
    marks = marks_in(fold(text))
    asks = [Ask(f"date: {mark[1:]}", (date_mark(mark),), Weights.date, "date") for mark in marks]
    for term in query_terms(text)[:MOST_TERMS]:
        dated = Weights.dated if marks and names_date(term.label) else 1.0
        asks.append(Ask(term.label, term.forms, term.weight * dated))
        named = tuple(speaker_mark(form) for form in term.forms)
        asks.append(Ask(term.label, named, term.weight * Weights.speaker, "speaker"))
    return asks


def _wanted(postings: Sequence[Posting], total: int) -> list[Wanted]:
    names = {posting.ask.label for posting in postings if posting.ask.kind == "speaker"}
    return [
        posting.wanted(total, Weights.mention if posting.ask.kind == "word" and posting.ask.label in names else 1.0)
        for posting in postings
    ]


def _first_look(postings: Iterable[Posting], total: int) -> dict[int, float]:
    """What each row is worth by its words alone; once there are many rows, common words add no further ones."""
    rows: defaultdict[int, float] = defaultdict(float)
    for posting in sorted(postings, key=lambda one: one.found):
        worth = posting.wanted(total).worth
        for row in rows.keys() & posting.rows.keys() if len(rows) >= ENOUGH else posting.rows:
            rows[row] += worth
    return rows


def _candidates(connection: sqlite3.Connection, rows: dict[int, float], wanted: Filters, most: int) -> dict[int, Place]:
    """The places of the best rows that pass the filters, until there are enough or no more."""
    places: dict[int, Place] = {}
    ordered = sorted(rows, key=rows.__getitem__, reverse=True)
    taken, size = 0, most
    while taken < len(ordered) and len(places) < most:
        best = ordered[taken : taken + size]
        passed = _places(connection, best, wanted)
        places.update(passed)
        taken += size
        size = min(size * 4, round(1.2 * (most - len(places)) * len(best) / max(1, len(passed))) + 1)
    return places


def _look_into(connection: sqlite3.Connection, postings: Iterable[Posting], rows: Sequence[int], total: int) -> None:
    """Look in the texts of these rows for the words whose rows were not all read."""
    partial = [posting for posting in postings if not posting.whole and posting.ask.kind == "word"]
    partial = [posting for posting in partial if posting.found < total * TOO_COMMON]
    if not partial or not rows:
        return
    sql = f"SELECT n, substr(text, 1, {READ}) FROM memory WHERE n IN ({numbers(rows)})"  # noqa: S608 - numbers
    for row, text in connection.execute(sql):
        terms = set(index_terms(text))
        for posting in partial:
            if not terms.isdisjoint(posting.ask.forms):
                posting.rows.setdefault(row, 1.0)


def _add_neighbours(connection: sqlite3.Connection, places: dict[int, Place], wanted: Filters) -> None:
    beside = {
        row for place in places.values() if place.turn for row in (place.prev, place.after) if row and row not in places
    }
    places.update(_places(connection, sorted(beside), wanted))


def _with_meaning(
    connection: sqlite3.Connection,
    scored: list[Scored],
    similarities: Similarities,
    wanted: Filters,
    k: int,
) -> list[Scored]:
    near = _places(connection, similarities.nearest(max(CANDIDATES, 4 * k)), wanted)
    rows = list(dict.fromkeys([*(found.number for found in scored), *near]))
    return fused(scored, similarities.of(rows), Weights.meaning)


def _places(connection: sqlite3.Connection, rows: Sequence[int], wanted: Filters) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for some in chunks(rows):
        sql = f"{_FACETS} WHERE f.n IN ({numbers(some)}) AND {wanted.condition}"
        found.update((row[0], Place._make(row)) for row in connection.execute(sql, wanted.values))
    # In the order that was asked for: the best come first.
    return {row: found[row] for row in rows if row in found}
