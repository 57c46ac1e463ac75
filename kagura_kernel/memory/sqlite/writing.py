"""Puts memories into the tables and the index, joined to their neighbours, and takes them out again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kagura_kernel.domain.memory import Memory
from kagura_kernel.memory.sqlite.marks import indexed, is_turn
from kagura_kernel.memory.sqlite.rows import COLUMNS, INSERT, memory_of_row, micros, row_of

NEARBY_MICROS = 120 * 1_000_000
"""Two memories without a thread are neighbours when they were remembered within this time."""
SESSION_MICROS = 3600 * 1_000_000
"""A silence that is longer begins another session of the same thread."""

MOST_SWEPT = 50_000
"""Memories whose index is made anew when one of them is removed."""

_CHUNK = 500
_PUT_TERM = "INSERT INTO term (rowid, terms) VALUES (?, ?)"
_TAKE_TERM = "INSERT INTO term (term, rowid, terms) VALUES ('delete', ?, ?)"
_PUT_FACET = f"INSERT INTO facet VALUES ({', '.join('?' * 15)})"  # noqa: S608 - no value is in it
_PUT_TAIL = "INSERT OR REPLACE INTO tail VALUES (?, ?, ?)"
_LAST = """SELECT m.n, f.session, f.turn, m.at, m.created_at FROM tail t JOIN memory m ON m.n = t.n
    JOIN facet f ON f.n = t.n WHERE t.scope = ? AND t.thread = ?"""


@dataclass(frozen=True, slots=True)
class _Tail:
    number: int
    session: int
    turn: int
    at: int
    created_at: int


@dataclass(slots=True)
class _Facet:
    number: int
    prev: int
    session: int
    turn: int
    length: int
    memory: Memory
    next: int = 0

    def row(self) -> tuple[object, ...]:
        memory = self.memory
        expires = None if memory.expires_at is None else micros(memory.expires_at)
        bias = memory.helped - memory.misled
        place = (self.number, self.prev, self.next, self.session, self.turn, self.length, micros(memory.at))
        kind = (memory.tier.value, memory.type, memory.scope, json.dumps(memory.tags))
        return (*place, expires, memory.importance, bias, int(memory.forgotten_at is not None), *kind)


def known_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Which of the ids are there already."""
    asked = [id_ for id_ in ids if id_]
    found: set[str] = set()
    for start in range(0, len(asked), _CHUNK):
        some = asked[start : start + _CHUNK]
        query = f"SELECT id FROM memory WHERE id IN ({', '.join('?' * len(some))})"  # noqa: S608 - no value is in it
        found.update(row[0] for row in connection.execute(query, some))
    return found


def insert(connection: sqlite3.Connection, memories: Sequence[Memory]) -> None:
    """Put in memories whose ids are new, in their order."""
    first = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'memory'").fetchone()[0]
    numbered = list(enumerate(memories, first + 1))
    connection.executemany(INSERT, (row_of(number, memory) for number, memory in numbered))
    _index(connection, numbered)


def rebuild(connection: sqlite3.Connection) -> None:
    """Make the index and what is known of neighbours anew from the memories."""
    connection.execute("INSERT INTO term (term) VALUES ('delete-all')")
    connection.execute("DELETE FROM facet")
    connection.execute("DELETE FROM tail")
    for some in _all(connection):
        _index(connection, some)


def unindex(connection: sqlite3.Connection, number: int, memory: Memory) -> None:
    """Let a memory be found by its id alone."""
    connection.execute(_TAKE_TERM, (number, indexed(memory)[0]))
    connection.execute("UPDATE facet SET hidden = 1 WHERE n = ?", (number,))


def index_again(connection: sqlite3.Connection, number: int, memory: Memory) -> None:
    """Let a memory be found again that was taken out of the index."""
    connection.execute(_PUT_TERM, (number, indexed(memory)[0]))
    connection.execute("UPDATE facet SET hidden = 0 WHERE n = ?", (number,))


def remove(connection: sqlite3.Connection, number: int, memory: Memory) -> None:
    """Take a memory out for good and join its neighbours to each other."""
    if memory.forgotten_at is None:
        unindex(connection, number, memory)
    prev, after = connection.execute("SELECT prev, next FROM facet WHERE n = ?", (number,)).fetchone()
    connection.execute("UPDATE facet SET next = ? WHERE n = ?", (after, prev))
    connection.execute("UPDATE facet SET prev = ? WHERE n = ?", (prev, after))
    if prev:
        connection.execute("UPDATE tail SET n = ? WHERE n = ? AND scope = ?", (prev, number, memory.scope))
    else:
        connection.execute("DELETE FROM tail WHERE n = ? AND scope = ?", (number, memory.scope))
    for table in ("facet", "memory", "meaning"):
        connection.execute(f"DELETE FROM {table} WHERE n = ?", (number,))  # noqa: S608 - a name from the line above


def sweep(connection: sqlite3.Connection) -> None:
    """Take the words of what was removed out of the index, where that does not take long."""
    if connection.execute("SELECT count(*) FROM facet").fetchone()[0] <= MOST_SWEPT:
        connection.execute("INSERT INTO term (term) VALUES ('optimize')")


def retiered(connection: sqlite3.Connection, number: int, memory: Memory, changed: Memory) -> None:
    """Note that a memory is trusted otherwise than it was."""
    connection.execute(
        "UPDATE memory SET tier = ?, promoted_by = ? WHERE n = ?", (changed.tier.value, changed.promoted_by, number)
    )
    connection.execute("UPDATE facet SET tier = ? WHERE n = ?", (changed.tier.value, number))
    if memory.forgotten_at is None and memory.tier is not changed.tier:
        connection.execute(_TAKE_TERM, (number, indexed(memory)[0]))
        connection.execute(_PUT_TERM, (number, indexed(replace(memory, tier=changed.tier))[0]))


def _index(connection: sqlite3.Connection, numbered: Sequence[tuple[int, Memory]]) -> None:
    tails: dict[tuple[str, str], _Tail | None] = {}
    facets: dict[int, _Facet] = {}
    before: list[tuple[int, int]] = []
    terms: list[tuple[int, str]] = []
    for number, memory in numbered:
        line = (memory.scope, memory.thread)
        if line not in tails:
            found = connection.execute(_LAST, line).fetchone()
            tails[line] = _Tail(*found) if found else None
        text, length = indexed(memory)
        facet, tails[line] = _joined(number, memory, tails[line], length)
        facets[number] = facet
        if memory.forgotten_at is None:
            terms.append((number, text))
        if facet.prev in facets:
            facets[facet.prev].next = number
        elif facet.prev:
            before.append((number, facet.prev))
    connection.executemany(_PUT_TERM, terms)
    connection.executemany(_PUT_FACET, (facet.row() for facet in facets.values()))
    connection.executemany("UPDATE facet SET next = ? WHERE n = ?", before)
    connection.executemany(_PUT_TAIL, ((*line, tail.number) for line, tail in tails.items() if tail))


def _joined(number: int, memory: Memory, last: _Tail | None, length: int) -> tuple[_Facet, _Tail]:
    at, created_at, turn = micros(memory.at), micros(memory.created_at), int(is_turn(memory))
    prev, session = 0, number
    if last is not None and (memory.thread or _belong_together(last, turn, created_at)):
        prev = last.number
        session = last.session if abs(at - last.at) <= SESSION_MICROS else number
    return _Facet(number, prev, session, turn, length, memory), _Tail(number, session, turn, at, created_at)


def _belong_together(last: _Tail, turn: int, created_at: int) -> bool:
    return last.turn == turn and abs(created_at - last.created_at) <= NEARBY_MICROS


def _all(connection: sqlite3.Connection) -> Iterator[list[tuple[int, Memory]]]:
    after = 0
    query = f"SELECT n, {COLUMNS} FROM memory WHERE n > ? ORDER BY n LIMIT {_CHUNK}"  # noqa: S608 - no value is in it
    while rows := connection.execute(query, (after,)).fetchall():
        yield [(row[0], memory_of_row(row[1:])) for row in rows]
        after = rows[-1][0]
