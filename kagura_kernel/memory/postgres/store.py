"""Memories in a database that several machines share. Its tables begin with `kagura_memor`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, text

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import Draft, Edge, Erased, Memory, MemoryCounts, Neighbourhood, Query, Recalled, Tier
from kagura_kernel.memory.closing import Closing
from kagura_kernel.memory.drafts import MEMORY_ID, check_edge, check_named, check_query, memories_of, memory_of
from kagura_kernel.memory.postgres import graph
from kagura_kernel.memory.postgres.migrations import migrate
from kagura_kernel.memory.postgres.rows import COLUMNS, INSERT, memory_of_row, row_of
from kagura_kernel.memory.postgres.search import alive, newest, search
from kagura_kernel.memory.postgres.server import Server
from kagura_kernel.memory.walking import check_walk, descendants, walk

_BATCH = 500
_WORTH_ANALYSING = 1_000
_MAY_WRITE = """SELECT bool_and(has_table_privilege(place, may))
    FROM unnest(ARRAY['kagura_memories', 'kagura_memory_edges']) AS place,
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS may"""
_TIDY = """SELECT gin_clean_pending_list(oid) FROM pg_class
    WHERE oid = to_regclass('kagura_memories_search') AND pg_has_role(relowner, 'USAGE')"""
_SYSTEM = SystemClock()


class PostgresMemory(Closing):
    """`MemoryStore` in the database that a URL names; its tables are made when it is first used.

    Any thread may use it. Words with a slip are found too where the extension `pg_trgm` is there or may be made;
    `finds_slips` says so after `check`.

    Attributes:
        where: Its URL without a password.
        finds_slips: Whether they are; None before it was first used.
    """

    def __init__(self, url: str, *, clock: Clock = _SYSTEM) -> None:
        """Nothing is connected.

        Args:
            url: Such as `postgresql://user@host/database`.
            clock: The time of its memories.

        Raises:
            MemoryUnavailable: it is no URL of PostgreSQL, or the driver is not installed.
        """
        self._server = Server(url)
        self.where = self._server.where
        self.finds_slips: bool | None = None
        self._clock = clock
        self._opening = threading.Lock()

    def check(self) -> None:
        """Return when it can be read and written."""
        asked = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
        with self._server.transaction() as connection:
            if connection.execute(text(asked)).scalar_one():
                raise self._server.unavailable("it is read-only", "Name the primary server, not a replica")
        with self._transaction() as connection:
            if not connection.execute(text(_MAY_WRITE)).scalar_one():
                advice = "Grant it SELECT, INSERT, UPDATE and DELETE on kagura_memories and kagura_memory_edges"
                raise self._server.unavailable("this user may not write its tables", advice)

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is durable as far as the server's `synchronous_commit` is."""
        memory = memory_of(draft, self._clock.now())
        with self._transaction() as connection:
            self._insert(connection, [memory])
            return self._one(connection, memory.id)

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many in one transaction."""
        memories = memories_of(drafts, self._clock.now())
        if not memories:
            return []
        with self._transaction() as connection:
            for start in range(0, len(memories), _BATCH):
                self._insert(connection, memories[start : start + _BATCH])
        if len(memories) >= _WORTH_ANALYSING:
            self._settle()
        return [memory.id for memory in memories]

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits best."""
        check_query(query)
        with self._transaction() as connection:
            if not query.text.strip():
                return newest(connection, query, self._clock.now())
            return search(connection, query, self._clock.now(), trigrams=bool(self.finds_slips))

    def reference(self, memory_id: str) -> Memory:
        """One by its id."""
        with self._transaction() as connection:
            return self._one(connection, memory_id)

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What runs in these scopes start with."""
        where, values = alive(self._clock.now())
        values["scopes"] = [scope for scope in scopes if _is_text(scope)]
        if tier is not None:
            where += " AND tier = :tier"
            values["tier"] = tier.value
        sql = f"""SELECT {COLUMNS} FROM kagura_memories WHERE pinned AND {where}
            AND scope = ANY(CAST(:scopes AS text[])) ORDER BY importance DESC, at DESC, seq"""  # noqa: S608 - conditions of ours
        with self._transaction() as connection:
            return [memory_of_row(row) for row in connection.execute(text(sql), values)]

    def create_edge(self, edge: Edge) -> None:
        """Join two memories."""
        check_edge(edge)
        sql = """INSERT INTO kagura_memory_edges (source, target, type, weight)
            VALUES (:source, :target, :type, :weight)
            ON CONFLICT (source, target, type) DO UPDATE SET weight = excluded.weight"""
        with self._transaction() as connection:
            # Held in one order by everybody, so that nobody erases either end meanwhile and nobody waits crosswise.
            for end in sorted((edge.source, edge.target)):
                self._row(connection, end, "FOR KEY SHARE")
            values = {"source": edge.source, "target": edge.target, "type": edge.type, "weight": edge.weight}
            connection.execute(text(sql), values)

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What lies around."""
        check_walk(depth, types, most)
        now = self._clock.now()
        with self._transaction() as connection:
            self._one(connection, memory_id)
            walked = walk(
                memory_id,
                lambda ids: graph.edges_of(connection, ids, types),
                lambda ids: graph.visible(connection, ids, now),
                depth=depth,
                most=most,
            )
            sql = f"SELECT {COLUMNS} FROM kagura_memories WHERE id = ANY(:ids)"  # noqa: S608 - names of columns alone
            rows = connection.execute(text(sql), {"ids": list(walked.ids)})
            found = {memory.id: memory for memory in map(memory_of_row, rows)}
            return Neighbourhood(tuple(found[one] for one in walked.ids if one in found), walked.edges)

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled."""
        return self._hide(memory_id, "coalesce(forgotten_at, :now)")

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        return self._hide(memory_id, "NULL")

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it for good; its words leave the rows of its neighbours too."""
        with self._transaction() as connection:
            self._row(connection, memory_id, "FOR UPDATE")
            grown = descendants(memory_id, lambda ids: graph.children_of(connection, ids)) if cascade else ()
            lost = grown or (memory_id,)
            held = "SELECT seq FROM kagura_memories WHERE id = ANY(:ids) ORDER BY seq FOR UPDATE"
            rows = connection.execute(text(held), {"ids": list(lost)}).scalars().all()
            graph.lock_threads(connection, rows)
            edges = len(graph.edges_of(connection, lost))
            hidden = "UPDATE kagura_memories SET forgotten_at = :now WHERE seq = ANY(:rows)"
            connection.execute(text(hidden), {"now": self._clock.now(), "rows": list(rows)})
            graph.join_neighbours(connection, rows)
            connection.execute(text("DELETE FROM kagura_memories WHERE seq = ANY(:rows)"), {"rows": list(rows)})
            return Erased(lost, edges)

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        return self._change(memory_id, "pinned = :on", on=on)

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled."""
        return self._change(memory_id, "helped = helped + 1" if helped else "misled = misled + 1")

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """It may be trusted."""
        check_named("name", by)
        return self._change(memory_id, "tier = :tier, promoted_by = :by", tier=Tier.TRUSTED.value, by=by)

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted."""
        return self._change(memory_id, "tier = :tier, promoted_by = ''", tier=Tier.QUARANTINE.value)

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        where, values = alive(self._clock.now())
        sql = f"""SELECT count(*) FILTER (WHERE {where}), count(*) FILTER (WHERE {where} AND tier = :quarantine),
            count(*) FILTER (WHERE forgotten_at IS NOT NULL), (SELECT count(*) FROM kagura_memory_edges)
            FROM kagura_memories"""  # noqa: S608 - a condition of ours
        with self._transaction() as connection:
            row = connection.execute(text(sql), {**values, "quarantine": Tier.QUARANTINE.value}).one()
            return MemoryCounts(*row)

    def export(self) -> Iterator[Memory | Edge]:
        """What can be recalled at the moment of the first step, then its edges."""
        where, values = alive(self._clock.now())
        ours = f"SELECT {COLUMNS} FROM kagura_memories WHERE {where} ORDER BY seq"  # noqa: S608 - as above
        joined = f"""SELECT e.source, e.target, e.type, e.weight FROM kagura_memory_edges e
            WHERE e.source IN (SELECT id FROM kagura_memories WHERE {where})
            AND e.target IN (SELECT id FROM kagura_memories WHERE {where}) ORDER BY 1, 2, 3"""  # noqa: S608 - as above
        with self._transaction() as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            streamed = connection.execution_options(yield_per=_BATCH)
            for row in streamed.execute(text(ours), values):
                yield memory_of_row(row)
            for row in connection.execute(text(joined), values).all():
                yield Edge(*row)

    def close(self) -> None:
        """Give every connection back; may be called twice."""
        self._server.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self.finds_slips is None:
            with self._opening:
                if self.finds_slips is None:
                    self.finds_slips = migrate(self._server)
        with self._server.transaction() as connection:
            yield connection

    def _settle(self) -> None:
        """Do at once what the server would do within a minute or so, and what slows every recall until then."""
        with self._transaction() as connection:
            # How common each word is has changed.
            connection.execute(text("ANALYZE kagura_memories"))
            # New words wait in a list that is read from end to end; only the owner of the tables may empty it.
            connection.execute(text(_TIDY))

    def _insert(self, connection: Connection, memories: Sequence[Memory]) -> None:
        connection.execute(text(INSERT), [row_of(memory) for memory in memories])
        turns = [memory.id for memory in memories if memory.thread]
        if turns:
            sql = text("SELECT seq FROM kagura_memories WHERE id = ANY(:ids)")
            graph.join_neighbours(connection, connection.execute(sql, {"ids": turns}).scalars().all())

    def _hide(self, memory_id: str, moment: str) -> Memory:
        with self._transaction() as connection:
            rows = [self._row(connection, memory_id, "")]
            graph.lock_threads(connection, rows)
            changed = self._changed(connection, memory_id, f"forgotten_at = {moment}", {"now": self._clock.now()})
            graph.join_neighbours(connection, rows)
            return changed

    def _change(self, memory_id: str, what: str, **values: object) -> Memory:
        with self._transaction() as connection:
            return self._changed(connection, memory_id, what, values)

    def _changed(self, connection: Connection, memory_id: str, what: str, values: dict[str, Any]) -> Memory:
        sql = f"UPDATE kagura_memories SET {what} WHERE id = :id RETURNING {COLUMNS}"  # noqa: S608 - words of ours
        known = values if ":now" in what else {name: value for name, value in values.items() if name != "now"}
        row = connection.execute(text(sql), {**known, "id": _possible(memory_id)}).one_or_none()
        if row is None:
            raise MemoryUnknown(memory_id)
        return memory_of_row(row)

    def _one(self, connection: Connection, memory_id: str) -> Memory:
        sql = text(f"SELECT {COLUMNS} FROM kagura_memories WHERE id = :id")  # noqa: S608 - names of columns alone
        row = connection.execute(sql, {"id": _possible(memory_id)}).one_or_none()
        if row is None:
            raise MemoryUnknown(memory_id)
        return memory_of_row(row)

    def _row(self, connection: Connection, memory_id: str, lock: str) -> int:
        sql = text(f"SELECT seq FROM kagura_memories WHERE id = :id {lock}")  # noqa: S608 - a word of ours
        row = connection.execute(sql, {"id": _possible(memory_id)}).scalar_one_or_none()
        if row is None:
            raise MemoryUnknown(memory_id)
        return int(row)


def _possible(memory_id: str) -> str:
    """An id that the server can be asked for; text that could not be one is not sent there."""
    if not MEMORY_ID.fullmatch(memory_id):
        raise MemoryUnknown(memory_id)
    return memory_id


def _is_text(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
