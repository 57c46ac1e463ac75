"""The embedded memory: one file, nothing to set up.

What was remembered is on the disk when the call returns; many at once are there all or not at all, whenever the process
or the machine dies. Any thread may use it, and any number of processes may have the same file open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnknown
from kagura_kernel.domain.memory import (
    EDGE_TYPES,
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
from kagura_kernel.memory.closing import Closing
from kagura_kernel.memory.drafts import check_edge, check_named, check_query, memories_of, memory_of
from kagura_kernel.memory.ranking import Weights
from kagura_kernel.memory.sqlite import graph, schema, writing
from kagura_kernel.memory.sqlite.connections import Connections
from kagura_kernel.memory.sqlite.meanings import Meanings, TextEncoder
from kagura_kernel.memory.sqlite.rows import COLUMNS, memory_of_row, micros
from kagura_kernel.memory.sqlite.search import newest, search

MOST_EXPLORED = 1_000
DEEPEST = 32

_CHUNK = 400
_SYSTEM = SystemClock()
_WEIGHTS = Weights()


class SqliteMemory(Closing):
    """Memories in a file.

    Args:
        path: The file; it and its directory are made, for their owner alone, when they are missing.
        clock: What says when something is remembered, and what has expired.
        weights: What counts how much in `recall`.
        encoder: What knows the meaning of texts; None for words alone. See `Meanings` for when it is asked.

    Raises:
        MemoryUnavailable: the file cannot be made, opened or understood.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock = _SYSTEM,
        weights: Weights = _WEIGHTS,
        encoder: TextEncoder | None = None,
    ) -> None:
        self.path = Path(path).expanduser().absolute()
        self._clock = clock
        self._weights = weights
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
            schema.is_current(connection, self.where)
            connection.execute("INSERT OR REPLACE INTO setting VALUES ('checked', ?)", (str(self._now()),))

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is on the disk when this returns. A draft whose id is there already changes nothing."""
        memory = memory_of(draft, self._clock.now())
        with self._connections.writing() as connection:
            if draft.id and (known := _find(connection, draft.id)) is not None:
                return known[1]
            writing.insert(connection, [memory])
        self._encode_later()
        return memory

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many, all or none, in one transaction; their ids in the same order."""
        memories = memories_of(drafts, self._clock.now())
        if not memories:
            return ()
        with self._connections.writing() as connection:
            known = writing.known_ids(connection, (memory.id for memory in memories))
            new = {memory.id: memory for memory in reversed(memories) if memory.id not in known}
            writing.insert(connection, list(reversed(new.values())))
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
            found = search(connection, query, self._now(), self._weights, self._broad, similarities)
            memories = _memories(connection, [one.number for one in found])
        return tuple(_recalled(memories[one.number], one.score, one.why, query) for one in found)

    def reference(self, memory_id: str) -> Memory:
        """One memory by its id, a forgotten one too."""
        with self._connections.reading() as connection:
            return _known(connection, memory_id)[1]

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What every run in these scopes starts with, the most important first."""
        marks = ", ".join("?" * len(scopes))
        sql = f"""SELECT {COLUMNS} FROM memory WHERE pinned AND forgotten_at IS NULL AND scope IN ({marks})
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
        """What is joined to a memory, the nearest first; at most `DEEPEST` away and `MOST_EXPLORED` memories.

        Raises:
            MemoryInvalid: the depth, a type or the number is wrong.
        """
        problems = [f"{type_!r} is no type of edge; there are {', '.join(EDGE_TYPES)}" for type_ in types]
        problems = [problem for problem, type_ in zip(problems, types, strict=True) if type_ not in EDGE_TYPES]
        if not 0 <= depth <= DEEPEST:
            problems.append(f"the depth is not between 0 and {DEEPEST}")
        if not 1 <= most <= MOST_EXPLORED:
            problems.append(f"the number is not between 1 and {MOST_EXPLORED:,}")
        if problems:
            raise MemoryInvalid("What is to be explored", problems)
        with self._connections.reading() as connection:
            start, _ = _known(connection, memory_id)
            rows = graph.around(connection, start, graph.Reach(depth, types, most, self._now()))
            return Neighbourhood(
                tuple(_memories(connection, rows).values()), tuple(graph.edges_between(connection, rows, types))
            )

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled; it stays until it is erased. Twice is once."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            if memory.forgotten_at is not None:
                return memory
            now = self._clock.now()
            writing.unindex(connection, number, memory)
            connection.execute("UPDATE memory SET forgotten_at = ? WHERE n = ?", (micros(now), number))
        return replace(memory, forgotten_at=now)

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            if memory.forgotten_at is None:
                return memory
            connection.execute("UPDATE memory SET forgotten_at = NULL WHERE n = ?", (number,))
            writing.index_again(connection, number, memory)
        return replace(memory, forgotten_at=None)

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it with its edges for good; with `cascade`, everything that came from it too.

        Nothing of the texts stays in the file. With more than `writing.MOST_SWEPT` memories the index is not made
        anew at once, so that single words may stay in it for a while.
        """
        with self._connections.writing() as connection:
            connection.execute("PRAGMA secure_delete=ON")
            number, _ = _known(connection, memory_id)
            rows = graph.grown_from(connection, number) if cascade else [number]
            memories = _memories(connection, rows)
            edges = 0
            for row, memory in memories.items():
                edges += connection.execute("DELETE FROM edge WHERE source = ? OR target = ?", (row, row)).rowcount
                writing.remove(connection, row, memory)
            writing.sweep(connection)
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
            AND (expires_at IS NULL OR expires_at > ?) ORDER BY n LIMIT {_CHUNK}"""  # noqa: S608 - no value is in it
        now, after = self._now(), 0
        rows: list[int] = []
        with self._connections.reading() as connection:
            while some := connection.execute(sql, (after, now)).fetchall():
                yield from (memory_of_row(row[1:]) for row in some)
                rows += [row[0] for row in some]
                after = rows[-1]
            yield from graph.edges_between(connection, rows)

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
            if schema.is_current(connection, self.where):
                return
        with self._connections.writing() as connection:
            # Another process may have done it while this one waited.
            if not schema.is_current(connection, self.where) and schema.migrate(connection):
                writing.rebuild(connection)

    def _retier(self, memory_id: str, tier: Tier, by: str) -> Memory:
        with self._connections.writing() as connection:
            number, memory = _known(connection, memory_id)
            changed = replace(memory, tier=tier, promoted_by=by)
            writing.retiered(connection, number, memory, changed)
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
    for start in range(0, len(rows), _CHUNK):
        numbers = ",".join(map(str, rows[start : start + _CHUNK]))
        sql = f"SELECT n, {COLUMNS} FROM memory WHERE n IN ({numbers})"  # noqa: S608 - numbers
        found.update((row[0], memory_of_row(row[1:])) for row in connection.execute(sql))
    return {row: found[row] for row in rows if row in found}
