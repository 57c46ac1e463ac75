"""Finds the rows that fit a question, with every filter inside the search."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Protocol

from kagura_kernel.domain.memory import Query
from kagura_kernel.memory.dates import marks_in, names_date
from kagura_kernel.memory.folding import fold
from kagura_kernel.memory.ranking import Place, Scored, Wanted, Weights, fused, rank
from kagura_kernel.memory.sqlite.filters import Filters, filters_of, narrowing
from kagura_kernel.memory.sqlite.marks import date_mark, speaker_mark
from kagura_kernel.memory.sqlite.postings import Ask, Posting, Postings
from kagura_kernel.memory.words import index_terms, query_terms

CANDIDATES = 200
"""Memories that are ranked with their neighbours; more where more are asked for."""
LOOKED_AT = 50
"""Of them, those that are searched for the words that very many memories have."""
ENOUGH = 2_000
"""Rows that are compared; when rare words gave so many, common ones add no others."""
READ = 2_000
"""Characters of a candidate's text that are searched for common words."""
TOO_COMMON = 0.5
"""A word that is in a larger part of all memories is not worth looking for."""
MOST_TERMS = 64

_FACETS = "SELECT n, prev, next, session, turn, length, at, importance, bias FROM facet f"
_CHUNK = 400


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
    weights: Weights,
    broad: set[str],
    similarities: Similarities | None = None,
) -> list[Scored]:
    """The rows that fit best, at most `query.k`; `broad` is what `narrowing` learnt of this file so far."""
    total = connection.execute("SELECT coalesce(max(n), 0) FROM facet").fetchone()[0]
    index = Postings(connection, total, narrowing(connection, query, broad))
    postings = index.read(_asks(query.text, weights))
    wanted = filters_of(query, now)
    rows = _first_look(postings, total)
    places = _candidates(connection, rows, wanted, max(CANDIDATES, 2 * query.k))
    _look_into(connection, postings, list(places)[: max(LOOKED_AT, query.k)], total)
    _add_neighbours(connection, places, wanted)
    scored = rank(_wanted(postings, total, weights), places, weights)
    if similarities is not None:
        scored = _with_meaning(connection, scored, similarities, wanted, query.k, weights)
    return scored[: query.k]


def _asks(text: str, weights: Weights) -> list[Ask]:
    marks = marks_in(fold(text))
    asks = [Ask(f"date: {mark[1:]}", (date_mark(mark),), weights.date, "date") for mark in marks]
    for term in query_terms(text)[:MOST_TERMS]:
        dated = weights.dated if marks and names_date(term.label) else 1.0
        asks.append(Ask(term.label, term.forms, term.weight * dated))
        named = tuple(speaker_mark(form) for form in term.forms)
        asks.append(Ask(term.label, named, term.weight * weights.speaker, "speaker"))
    return asks


def _wanted(postings: Sequence[Posting], total: int, weights: Weights) -> list[Wanted]:
    names = {posting.ask.label for posting in postings if posting.ask.kind == "speaker"}
    return [
        posting.wanted(total, weights.mention if posting.ask.kind == "word" and posting.ask.label in names else 1.0)
        for posting in postings
    ]


def _first_look(postings: Iterable[Posting], total: int) -> dict[int, float]:
    """What each row is worth by its words alone; once there are many rows, common words add no further ones."""
    rows: dict[int, float] = {}
    for posting in sorted(postings, key=lambda one: one.found):
        worth = posting.wanted(total).worth
        if len(rows) >= ENOUGH:
            for row in rows.keys() & posting.rows.keys():
                rows[row] += worth
        else:
            for row in posting.rows:
                rows[row] = rows.get(row, 0.0) + worth
    return rows


def _candidates(connection: sqlite3.Connection, rows: dict[int, float], wanted: Filters, most: int) -> dict[int, Place]:
    """The places of the best rows that pass the filters, until there are enough or no more."""
    places: dict[int, Place] = {}
    taken, size = 0, most
    while taken < len(rows) and len(places) < most:
        best = heapq.nlargest(taken + size, rows, key=rows.__getitem__)[taken:]
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
    numbers = ",".join(map(str, rows))
    sql = f"SELECT n, substr(text, 1, {READ}) FROM memory WHERE n IN ({numbers})"  # noqa: S608 - numbers
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
    weights: Weights,
) -> list[Scored]:
    near = _places(connection, similarities.nearest(max(CANDIDATES, 4 * k)), wanted)
    rows = list(dict.fromkeys([*(found.number for found in scored), *near]))
    return fused(scored, similarities.of(rows), weights.meaning)


def _places(connection: sqlite3.Connection, rows: Sequence[int], wanted: Filters) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for start in range(0, len(rows), _CHUNK):
        numbers = ",".join(map(str, rows[start : start + _CHUNK]))
        sql = f"{_FACETS} WHERE f.n IN ({numbers}) AND {wanted.condition}"
        for number, prev, after, session, turn, *rest in connection.execute(sql, wanted.values):
            found[number] = Place(number, prev, after, session, bool(turn), *rest)
    # In the order that was asked for: the best come first.
    return {row: found[row] for row in rows if row in found}
