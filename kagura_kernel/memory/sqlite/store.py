"""The embedded memory: one file, nothing to set up.

What was remembered is on the disk when the call returns; many at once are there all or not at all, whenever the process
or the machine dies. Any thread may use it, and any number of processes may have the same file open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.late_dataclass import replace
from kagura_kernel.domain.memory import (
    CAME_FROM,
    Draft,
    Edge,
    Erased,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Tier,
)
from kagura_kernel.journal.place import expanded
from kagura_kernel.memory.sqlite import connections
from kagura_kernel.memory.sqlite.connections import Connections
from kagura_kernel.memory.sqlite.meanings import Meanings, TextEncoder
from kagura_kernel.memory.sqlite.search import (
    CHUNK,
    COLUMNS,
    INSERT,
    as_json,
    chunks,
    indexed,
    is_turn,
    memory_of_row,
    micros,
    newest,
    numbers,
    placeholders,
    row_of,
    search,
)
from kagura_kernel.memory.store import (
    Closing,
    check_edge,
    check_named,
    check_query,
    check_walk,
    descendants,
    memories_of,
    memory_of,
    walk,
)


def edges_of(connection: sqlite3.Connection, ids: Sequence[str], types: Sequence[str] = ()) -> list[Edge]:
    """The edges that begin or end at any of these."""
    typed = f" AND e.type IN ({placeholders(types)})" if types else ""
    joined = "edge e JOIN memory s ON s.n = e.source JOIN memory t ON t.n = e.target"
    found = []
    for some in chunks(ids):
        for end in ("s", "t"):
            sql = f"SELECT s.id, t.id, e.type, e.weight FROM {joined} WHERE {end}.id IN ({placeholders(some)}){typed}"  # noqa: S608 - marks
            found += [Edge(*row) for row in connection.execute(sql, (*some, *types))]
    return found


def visible(connection: sqlite3.Connection, ids: Sequence[str], now: int) -> set[str]:
    """Which of these can be recalled."""
    fresh = "forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    seen: set[str] = set()
    for some in chunks(ids):
        sql = f"SELECT id FROM memory WHERE id IN ({placeholders(some)}) AND {fresh}"  # noqa: S608 - marks
        seen.update(row[0] for row in connection.execute(sql, (*some, now)))
    return seen


def edges_between(connection: sqlite3.Connection, rows: Sequence[int]) -> Iterator[Edge]:
    """The edges whose both ends are among these rows."""
    inside = set(rows)
    for some in chunks(rows):
        sql = f"""SELECT e.target, s.id, t.id, e.type, e.weight FROM edge e JOIN memory s ON s.n = e.source
            JOIN memory t ON t.n = e.target WHERE e.source IN ({numbers(some)}) ORDER BY e.source, e.target, e.type"""  # noqa: S608 - numbers
        for target, *edge in connection.execute(sql):
            if target in inside:
                yield Edge(*edge)


def children_of(connection: sqlite3.Connection, rows: Sequence[int]) -> list[int]:
    """The rows that came from any of these."""
    sql = "SELECT source FROM edge WHERE target IN ({}) AND type = ?"
    return [row for some in chunks(rows) for (row,) in connection.execute(sql.format(numbers(some)), (CAME_FROM,))]


NEARBY_MICROS = 120 * 1_000_000
"""Two memories without a thread are neighbours when they were remembered within this time."""
SESSION_MICROS = 3600 * 1_000_000
"""A silence that is longer begins another session of the same thread."""

MOST_SWEPT = 50_000
"""Memories whose index is made anew when one of them is removed."""

_PUT_TERM = "INSERT INTO term (rowid, terms) VALUES (?, ?)"
_TAKE_TERM = "INSERT INTO term (term, rowid, terms) VALUES ('delete', ?, ?)"
_NEXT = 2
"""The column of `facet` that leads to the neighbour which came after."""
_PUT_FACET = f"INSERT INTO facet VALUES ({', '.join('?' * 15)})"  # noqa: S608 - no value is in it
_PUT_TAIL = "INSERT OR REPLACE INTO tail VALUES (?, ?, ?)"
_LAST = """SELECT m.n, f.session, f.turn, m.at, m.created_at FROM tail t JOIN memory m ON m.n = t.n
    JOIN facet f ON f.n = t.n WHERE t.scope = ? AND t.thread = ?"""


class _Tail(NamedTuple):
    """The last memory of a thread, or of those of a scope without one."""

    number: int
    session: int
    turn: int
    at: int
    created_at: int


def _facet(tail: _Tail, prev: int, length: int, memory: Memory) -> list[object]:
    """A row of `facet` for a memory that is the last one of its line."""
    expires = None if memory.expires_at is None else micros(memory.expires_at)
    return [
        *(tail.number, prev, 0, tail.session, tail.turn, length, tail.at, expires, memory.importance),
        *(memory.helped - memory.misled, int(memory.forgotten_at is not None), str(memory.tier), memory.type),
        *(memory.scope, as_json(memory.tags)),
    ]


def known_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Which of the ids are there already."""
    asked = [id_ for id_ in ids if id_]
    found: set[str] = set()
    for some in chunks(asked):
        query = f"SELECT id FROM memory WHERE id IN ({placeholders(some)})"  # noqa: S608 - marks
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
    facets: dict[int, list[object]] = {}
    before: list[tuple[int, int]] = []
    terms: list[tuple[int, str]] = []
    for number, memory in numbered:
        line = (memory.scope, memory.thread)
        if line not in tails:
            found = connection.execute(_LAST, line).fetchone()
            tails[line] = _Tail(*found) if found else None
        text, length = indexed(memory)
        tail, prev = _joined(number, memory, tails[line])
        tails[line] = tail
        facets[number] = _facet(tail, prev, length, memory)
        if memory.forgotten_at is None:
            terms.append((number, text))
        if prev in facets:
            facets[prev][_NEXT] = number
        elif prev:
            before.append((number, prev))
    connection.executemany(_PUT_TERM, terms)
    connection.executemany(_PUT_FACET, facets.values())
    connection.executemany("UPDATE facet SET next = ? WHERE n = ?", before)
    connection.executemany(_PUT_TAIL, ((*line, tail.number) for line, tail in tails.items() if tail))


def _joined(number: int, memory: Memory, last: _Tail | None) -> tuple[_Tail, int]:
    at, created_at, turn = micros(memory.at), micros(memory.created_at), int(is_turn(memory))
    prev, session = 0, number
    if last is not None and (memory.thread or _belong_together(last, turn, created_at)):
        prev = last.number
        session = last.session if abs(at - last.at) <= SESSION_MICROS else number
    return _Tail(number, session, turn, at, created_at), prev


def _belong_together(last: _Tail, turn: int, created_at: int) -> bool:
    return last.turn == turn and abs(created_at - last.created_at) <= NEARBY_MICROS


def _all(connection: sqlite3.Connection) -> Iterator[list[tuple[int, Memory]]]:
    after = 0
    query = f"SELECT n, {COLUMNS} FROM memory WHERE n > ? ORDER BY n LIMIT {CHUNK}"  # noqa: S608 - no value is in it
    while rows := connection.execute(query, (after,)).fetchall():
        yield [(row[0], memory_of_row(row[1:])) for row in rows]
        after = rows[-1][0]


_SYSTEM = SystemClock()


class SqliteMemory(Closing):
    """Memories in a file.

    Args:
        path: The file; it and its directory are made, for their owner alone, when they are missing.
        clock: What says when something is remembered, and what has expired.
        encoder: What knows the meaning of texts; None for words alone. See `Meanings` for when it is asked.

    Raises:
        MemoryUnavailable: the file cannot be made, opened or understood.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock = _SYSTEM,
        encoder: TextEncoder | None = None,
    ) -> None:
        self.path = expanded(path).absolute()
        self._clock = clock
        self._broad: set[str] = set()
        self._connections = Connections(self.path)
        try:
            self._bring_up_to_date()
        except BaseException:
            self._connections.close()
            raise
        self._meanings = Meanings(self._connections, encoder) if encoder is not None else None

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self.path)

    def check(self) -> None:
        """Return when it can be read and written: something is really written.

        Raises:
            MemoryUnavailable: it cannot.
        """
        with self._connections.writing() as connection:
            # Another process may have brought it to a schema that this one does not know.
            connections.is_current(connection, self.where)
            connection.execute("INSERT OR REPLACE INTO setting VALUES ('checked', ?)", (str(self._now()),))

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is on the disk when this returns. A draft whose id is there already changes nothing."""
        memory = memory_of(draft, self._clock.now())
        with self._connections.writing() as connection:
            if draft.id and (known := _find(connection, draft.id)) is not None:
                return known[1]
            insert(connection, [memory])
        self._encode_later()
        return memory

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, all or none, in one transaction; their ids in the same order."""
        memories = memories_of(drafts, self._clock.now())
        if not memories:
            return ()
        with self._connections.writing() as connection:
            known = known_ids(connection, (memory.id for memory in memories))
            new = {memory.id: memory for memory in reversed(memories) if memory.id not in known}
            insert(connection, list(reversed(new.values())))
        self._encode_later()
        return tuple(memory.id for memory in memories)

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits a question best, the best first; an empty one lists the newest."""
        check_query(query)
        similarities = self._meanings.similarities(query.text) if self._meanings and query.text.strip() else None
        with self._connections.reading() as connection:
            if not query.text.strip():
                listed = _memories(connection, newest(connection, query, self._now()))
                return tuple(Recalled(memory, 0.0) for memory in listed.values())
            found = search(connection, query, self._now(), self._broad, similarities)
            memories = _memories(connection, [one.number for one in found])
        return tuple(_recalled(memories[one.number], one.score, one.why, query) for one in found)

    def reference(self, memory_id: str) -> Memory:
        """One memory by its id, a forgotten one too."""
        with self._connections.reading() as connection:
            return _known(connection, memory_id)[1]

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What every run in these scopes starts with, the most important first."""
        sql = f"""SELECT {COLUMNS} FROM memory
            WHERE pinned AND forgotten_at IS NULL AND scope IN ({placeholders(scopes)})
            AND (expires_at IS NULL OR expires_at > ?) AND (? IS NULL OR tier = ?)
            ORDER BY importance DESC, at DESC, n DESC"""  # noqa: S608 - no value is in it
        with self._connections.reading() as connection:
            rows = connection.execute(sql, (*scopes, self._now(), tier, tier)).fetchall()
        return tuple(memory_of_row(row) for row in rows)

    def create_edge(self, edge: Edge) -> None:
        """Join two memories; an edge that is there gets the new weight."""
        check_edge(edge)
        with self._connections.writing() as connection:
            ends = (_known(connection, edge.source)[0], _known(connection, edge.target)[0])
            connection.execute("INSERT OR REPLACE INTO edge VALUES (?, ?, ?, ?)", (*ends, edge.type, edge.weight))

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What is joined to a memory, the nearest first."""
        check_walk(depth, types, most)
        now = self._now()
        with self._connections.reading() as connection:
            _known(connection, memory_id)
            walked = walk(
                memory_id,
                lambda ids: edges_of(connection, ids, types),
                lambda ids: visible(connection, ids, now),
                depth=depth,
                most=most,
            )
            return Neighbourhood(tuple(_known(connection, one)[1] for one in walked.ids), walked.edges)

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled; it stays until it is erased. Twice is once."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            if memory.forgotten_at is not None:
                return memory
            now = self._clock.now()
            unindex(connection, number, memory)
            connection.execute("UPDATE memory SET forgotten_at = ? WHERE n = ?", (micros(now), number))
        return replace(memory, forgotten_at=now)

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            if memory.forgotten_at is None:
                return memory
            connection.execute("UPDATE memory SET forgotten_at = NULL WHERE n = ?", (number,))
            index_again(connection, number, memory)
        return replace(memory, forgotten_at=None)

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it with its edges for good; with `cascade`, everything that came from it too.

        Nothing of the texts stays in the file. With more than `MOST_SWEPT` memories the index is not made
        anew at once, so that single words may stay in it for a while.
        """
        with self._connections.writing() as connection:
            connection.execute("PRAGMA secure_delete=ON")
            number, _ = _known(connection, memory_id)
            rows = descendants(number, lambda rows: children_of(connection, rows)) if cascade else (number,)
            memories = _memories(connection, rows)
            edges = 0
            for row, memory in memories.items():
                edges += connection.execute("DELETE FROM edge WHERE source = ? OR target = ?", (row, row)).rowcount
                remove(connection, row, memory)
            sweep(connection)
        self._connections.merge_log()
        if self._meanings:
            self._meanings.drop(rows)
        return Erased(tuple(memory.id for memory in memories.values()), edges)

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or not."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            connection.execute("UPDATE memory SET pinned = ? WHERE n = ?", (int(on), number))
        return replace(memory, pinned=on)

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled somebody; it is found a little earlier or later from then on."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            changed = replace(memory, helped=memory.helped + helped, misled=memory.misled + (not helped))
            counts = (changed.helped, changed.misled, number)
            connection.execute("UPDATE memory SET helped = ?, misled = ? WHERE n = ?", counts)
            connection.execute("UPDATE facet SET bias = ? WHERE n = ?", (changed.helped - changed.misled, number))
        return changed

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """A person says that it may be trusted."""
        check_named("person's name", by)
        return self._retier(memory_id, Tier.TRUSTED, by)

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted any more."""
        return self._retier(memory_id, Tier.QUARANTINE, "")

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        sql = """SELECT coalesce(sum(NOT hidden AND fresh), 0), coalesce(sum(NOT hidden AND fresh AND tier = ?), 0),
            coalesce(sum(hidden), 0), (SELECT count(*) FROM edge)
            FROM (SELECT hidden, tier, expires_at IS NULL OR expires_at > ? AS fresh FROM facet)"""
        with self._connections.reading() as connection:
            return MemoryCounts(*connection.execute(sql, (Tier.QUARANTINE, self._now())).fetchone())

    def export(self) -> Iterator[Memory | Edge]:
        """Everything that can be recalled in the order in which it was remembered, then the edges between it."""
        sql = f"""SELECT n, {COLUMNS} FROM memory WHERE n > ? AND forgotten_at IS NULL
            AND (expires_at IS NULL OR expires_at > ?) ORDER BY n LIMIT {CHUNK}"""  # noqa: S608 - no value is in it
        now, after = self._now(), 0
        rows: list[int] = []
        with self._connections.reading() as connection:
            while some := connection.execute(sql, (after, now)).fetchall():
                yield from (memory_of_row(row[1:]) for row in some)
                rows += [row[0] for row in some]
                after = rows[-1]
            yield from edges_between(connection, rows)

    def encode_now(self) -> int:
        """Make the vectors that are missing and return when they are there; how many that were, 0 without a model.

        They are made in the background by themselves; whoever is about to compare answers calls this.
        """
        return self._meanings.fill() if self._meanings else 0

    def close(self) -> None:
        """Close the file; may be called twice. Whoever uses it afterwards gets `MemoryUnavailable`."""
        if self._meanings:
            self._meanings.close()
        self._connections.close()

    def _bring_up_to_date(self) -> None:
        with self._connections.reading() as connection:
            if connections.is_current(connection, self.where):
                return
        with self._connections.writing() as connection:
            # Another process may have done it while this one waited.
            if not connections.is_current(connection, self.where) and connections.migrate(connection):
                rebuild(connection)

    def _retier(self, memory_id: str, tier: Tier, by: str) -> Memory:
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            changed = replace(memory, tier=tier, promoted_by=by)
            retiered(connection, number, memory, changed)
        return changed

    def _encode_later(self) -> None:
        if self._meanings:
            self._meanings.wake()

    def _now(self) -> int:
        return micros(self._clock.now())


def _recalled(memory: Memory, score: float, why: Sequence[str], query: Query) -> Recalled:
    tags = [f"tag: {tag}" for tag in memory.tags if tag in query.tags or tag in why]
    return Recalled(memory, score, tuple(dict.fromkeys([*why, *tags])))


def _find(connection: sqlite3.Connection, memory_id: str) -> tuple[int, Memory] | None:
    row = connection.execute(f"SELECT n, {COLUMNS} FROM memory WHERE id = ?", (memory_id,)).fetchone()  # noqa: S608 - columns
    return None if row is None else (row[0], memory_of_row(row[1:]))


def _known(connection: sqlite3.Connection, memory_id: str) -> tuple[int, Memory]:
    try:
        found = _find(connection, memory_id)
    except UnicodeEncodeError:
        found = None
    if found is None:
        raise MemoryUnknown(memory_id)
    return found


def _memories(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Memory]:
    """The memories of rows, in their order."""
    found: dict[int, Memory] = {}
    for some in chunks(rows):
        sql = f"SELECT n, {COLUMNS} FROM memory WHERE n IN ({numbers(some)})"  # noqa: S608 - numbers
        found.update((row[0], memory_of_row(row[1:])) for row in connection.execute(sql))
    return {row: found[row] for row in rows if row in found}
