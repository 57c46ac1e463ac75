"""The tables of a memory in a file, and how an older file is brought up to date."""

from __future__ import annotations

import sqlite3

from kagura_kernel.domain.errors.memory import MemoryUnavailable

APPLICATION_ID = 0x6B616D65
"""Marks the file as a memory of this package: `kame`."""

INDEX_VERSION = 2
"""Changes whenever the same text is found by other terms; the index is then made anew."""

_FIRST = """
CREATE TABLE memory (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    author TEXT NOT NULL,
    by_name TEXT NOT NULL,
    run_id TEXT NOT NULL,
    uri TEXT NOT NULL,
    tier TEXT NOT NULL,
    type TEXT NOT NULL,
    summary TEXT NOT NULL,
    tags TEXT NOT NULL,
    importance REAL NOT NULL,
    scope TEXT NOT NULL,
    thread TEXT NOT NULL,
    speaker TEXT NOT NULL,
    at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    pinned INTEGER NOT NULL,
    data TEXT NOT NULL,
    promoted_by TEXT NOT NULL DEFAULT '',
    helped INTEGER NOT NULL DEFAULT 0,
    misled INTEGER NOT NULL DEFAULT 0,
    forgotten_at INTEGER
) STRICT;
CREATE INDEX memory_by_time ON memory(at DESC, n DESC) WHERE forgotten_at IS NULL;
CREATE INDEX memory_pinned ON memory(importance DESC) WHERE pinned AND forgotten_at IS NULL;

CREATE TABLE facet (
    n INTEGER PRIMARY KEY,
    prev INTEGER NOT NULL,
    next INTEGER NOT NULL,
    session INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    length INTEGER NOT NULL,
    at INTEGER NOT NULL,
    expires_at INTEGER,
    importance REAL NOT NULL,
    bias INTEGER NOT NULL,
    hidden INTEGER NOT NULL,
    tier TEXT NOT NULL,
    type TEXT NOT NULL,
    scope TEXT NOT NULL,
    tags TEXT NOT NULL
) STRICT;

CREATE TABLE tail (
    scope TEXT NOT NULL,
    thread TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (scope, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE edge (
    source INTEGER NOT NULL,
    target INTEGER NOT NULL,
    type TEXT NOT NULL,
    weight REAL NOT NULL,
    PRIMARY KEY (source, target, type)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_back ON edge(target);

CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE term USING fts5(
    terms, content='', columnsize=0, detail=full, tokenize="unicode61 remove_diacritics 0"
);
"""

_SECOND = """
CREATE TABLE meaning (n INTEGER NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (n, model)) STRICT;
"""

MIGRATIONS = (_FIRST, _SECOND)


def check_owner(connection: sqlite3.Connection, where: str) -> None:
    """Return when the database is empty or a memory.

    Raises:
        MemoryUnavailable: it holds something else.
    """
    mark: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if mark != APPLICATION_ID and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise MemoryUnavailable(where, "it is a database of something else", "Name another place for it.")


def is_current(connection: sqlite3.Connection, where: str) -> bool:
    """Whether nothing is to be done before the file is used.

    Raises:
        MemoryUnavailable: it holds something else, or a newer version of the package wrote it.
    """
    check_owner(connection, where)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise MemoryUnavailable(where, "a newer version of kagura-kernel wrote it", "Upgrade kagura-kernel.")
    return version == len(MIGRATIONS) and _index_version(connection) == INDEX_VERSION


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring the tables up to date, within the transaction that is open; whether the index must be made anew."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for script in MIGRATIONS[version:]:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    stale = _index_version(connection) != INDEX_VERSION
    connection.execute("INSERT OR REPLACE INTO setting VALUES ('index', ?)", (str(INDEX_VERSION),))
    return stale


def _index_version(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT value FROM setting WHERE name = 'index'").fetchone()
    return int(found[0]) if found else 0
