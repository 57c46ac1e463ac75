"""Edges, what came from a memory, and which turns stand beside each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, text

from kagura_kernel.domain.memory import CAME_FROM, Edge
from kagura_kernel.memory.postgres.search import alive

# The server uses the index of threads only where a condition says that there is one.
_BESIDE = """SELECT n.{what} FROM kagura_memories n WHERE n.scope = m.scope AND n.thread = m.thread AND n.thread <> ''
    AND n.forgotten_at IS NULL AND (n.at, n.seq) {side} (m.at, m.seq) ORDER BY n.at {order}, n.seq {order} LIMIT 1"""
_BEFORE, _AFTER = {"side": "<", "order": "DESC"}, {"side": ">", "order": "ASC"}

_TOUCHED = f"""SELECT m.seq FROM kagura_memories m WHERE m.seq = ANY(:rows) AND m.thread <> ''
    UNION SELECT b.seq FROM kagura_memories m, LATERAL ({_BESIDE.format(what="seq", **_BEFORE)}) AS b
        WHERE m.seq = ANY(:rows) AND m.thread <> ''
    UNION SELECT b.seq FROM kagura_memories m, LATERAL ({_BESIDE.format(what="seq", **_AFTER)}) AS b
        WHERE m.seq = ANY(:rows) AND m.thread <> ''"""  # noqa: S608 - words of ours
_JOIN = f"""UPDATE kagura_memories m SET search = m.own
    || coalesce(setweight(({_BESIDE.format(what="own", **_BEFORE)}), 'D'), '')
    || coalesce(setweight(({_BESIDE.format(what="own", **_AFTER)}), 'D'), '')
    WHERE m.seq = ANY(:rows)"""  # noqa: S608 - likewise


def lock_threads(connection: Connection, rows: Sequence[int]) -> None:
    """Let nobody else change which turns stand beside each other in the threads of these rows."""
    connection.execute(
        text(
            """SELECT pg_advisory_xact_lock(hashtextextended(place, 7)) FROM (
                SELECT DISTINCT scope || E'\\n' || thread AS place FROM kagura_memories
                WHERE seq = ANY(:rows) AND thread <> '' ORDER BY 1) AS places"""
        ),
        {"rows": list(rows)},
    )


def join_neighbours(connection: Connection, rows: Sequence[int]) -> None:
    """Let these rows be found by the words of the turns beside them, and those by theirs, as they stand."""
    lock_threads(connection, rows)
    touched = connection.execute(text(_TOUCHED), {"rows": list(rows)}).scalars().all()
    if touched:
        connection.execute(text(_JOIN), {"rows": list(touched)})


def edges_of(connection: Connection, ids: Sequence[str], types: Sequence[str] = ()) -> list[Edge]:
    """The edges that begin or end at any of these."""
    only = "AND type = ANY(:types)" if types else ""
    rows = connection.execute(
        text(
            f"""SELECT source, target, type, weight FROM kagura_memory_edges
            WHERE (source = ANY(:ids) OR target = ANY(:ids)) {only} ORDER BY source, target, type"""  # noqa: S608 - as above
        ),
        {"ids": list(ids), "types": list(types)} if types else {"ids": list(ids)},
    )
    return [Edge(*row) for row in rows]


def children_of(connection: Connection, ids: Sequence[str]) -> list[str]:
    """What came from any of these."""
    sql = text("SELECT source FROM kagura_memory_edges WHERE target = ANY(:ids) AND type = :type ORDER BY source")
    return list(connection.execute(sql, {"ids": list(ids), "type": CAME_FROM}).scalars())


def visible(connection: Connection, ids: Sequence[str], now: datetime) -> Collection[str]:
    """Which of these can be recalled."""
    where, values = alive(now)
    sql = text(f"SELECT id FROM kagura_memories WHERE id = ANY(:ids) AND {where}")  # noqa: S608 - a condition of ours
    return set(connection.execute(sql, {"ids": list(ids), **values}).scalars())
