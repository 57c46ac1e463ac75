"""What is joined to a memory, and what came from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.domain.memory import CAME_FROM, Edge

_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Reach:
    """How far to look around: edges away, of which types (empty for all), how many memories, and at what moment."""

    depth: int
    types: Sequence[str]
    most: int
    now: int


def around(connection: sqlite3.Connection, start: int, reach: Reach) -> list[int]:
    """Rows in either direction, by their distance, the start first; the others are neither forgotten nor expired."""
    found = {start: 0}
    edge = [start]
    for _ in range(reach.depth):
        near: dict[int, None] = {}
        for some in _chunks(edge):
            for row in _beside(connection, some, reach.types):
                if row not in found:
                    near[row] = None
        edge = _visible(connection, list(near), reach.now)[: reach.most - len(found)]
        if not edge:
            break
        found.update(dict.fromkeys(edge, 0))
    return list(found)


def edges_between(connection: sqlite3.Connection, rows: Sequence[int], types: Sequence[str] = ()) -> list[Edge]:
    """The edges whose both ends are among these rows."""
    inside = set(rows)
    edges = []
    for some in _chunks(rows):
        sql = f"""SELECT e.target, s.id, t.id, e.type, e.weight FROM edge e JOIN memory s ON s.n = e.source
            JOIN memory t ON t.n = e.target WHERE e.source IN ({_numbers(some)}) ORDER BY e.source, e.target, e.type"""  # noqa: S608 - numbers
        for target, from_id, to_id, type_, weight in connection.execute(sql):
            if target in inside and (not types or type_ in types):
                edges.append(Edge(from_id, to_id, type_, weight))
    return edges


def grown_from(connection: sqlite3.Connection, start: int) -> list[int]:
    """The start and every row that came from it, over any number of steps, each once."""
    found = {start: 0}
    edge = [start]
    while edge:
        near: dict[int, None] = {}
        for some in _chunks(edge):
            sql = f"SELECT source FROM edge WHERE target IN ({_numbers(some)}) AND type = ?"  # noqa: S608 - numbers
            near.update({row: None for (row,) in connection.execute(sql, (CAME_FROM,)) if row not in found})
        edge = list(near)
        found.update(dict.fromkeys(edge, 0))
    return list(found)


def _beside(connection: sqlite3.Connection, rows: Sequence[int], types: Sequence[str]) -> list[int]:
    typed = f" AND type IN ({', '.join('?' * len(types))})" if types else ""
    numbers = _numbers(rows)
    sql = f"""SELECT target, weight FROM edge WHERE source IN ({numbers}){typed}
        UNION ALL SELECT source, weight FROM edge WHERE target IN ({numbers}){typed}
        ORDER BY weight DESC"""  # noqa: S608 - numbers and marks
    return [row for row, _ in connection.execute(sql, (*types, *types))]


def _visible(connection: sqlite3.Connection, rows: Sequence[int], now: int) -> list[int]:
    seen: set[int] = set()
    for some in _chunks(rows):
        fresh = "NOT hidden AND (expires_at IS NULL OR expires_at > ?)"
        sql = f"SELECT n FROM facet WHERE n IN ({_numbers(some)}) AND {fresh}"  # noqa: S608 - numbers
        seen.update(row for (row,) in connection.execute(sql, (now,)))
    return [row for row in rows if row in seen]


def _chunks(rows: Sequence[int]) -> list[Sequence[int]]:
    return [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]


def _numbers(rows: Sequence[int]) -> str:
    return ",".join(map(str, rows))
