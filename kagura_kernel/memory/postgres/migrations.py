"""How a database comes to today's tables: numbered steps, forward only, behind a lock that all processes share.

A step is never edited once it has been released; a change of the tables is a new step at the end.
"""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from kagura_kernel.memory.postgres.server import Server

# One number for all memories of a database: those in other schemas wait a little, and nothing worse.
_LOCK = 0x6B61677572610002

_STEP_1 = (
    "CREATE TABLE kagura_memory_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())",
    """CREATE TABLE kagura_memories (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
        author TEXT NOT NULL, by_name TEXT NOT NULL, run_id TEXT NOT NULL, uri TEXT NOT NULL, tier TEXT NOT NULL,
        type TEXT NOT NULL, summary TEXT NOT NULL, tags TEXT[] NOT NULL, importance DOUBLE PRECISION NOT NULL,
        scope TEXT NOT NULL, thread TEXT NOT NULL, speaker TEXT NOT NULL, at TIMESTAMPTZ NOT NULL,
        created_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ, pinned BOOLEAN NOT NULL, data TEXT NOT NULL,
        promoted_by TEXT NOT NULL DEFAULT '', helped INTEGER NOT NULL DEFAULT 0, misled INTEGER NOT NULL DEFAULT 0,
        forgotten_at TIMESTAMPTZ, own TSVECTOR NOT NULL, search TSVECTOR NOT NULL, folded TEXT NOT NULL)""",
    "CREATE INDEX kagura_memories_search ON kagura_memories USING gin (search)",
    "CREATE INDEX kagura_memories_at ON kagura_memories (at DESC, seq DESC) WHERE forgotten_at IS NULL",
    "CREATE INDEX kagura_memories_thread ON kagura_memories (scope, thread, at, seq) WHERE thread <> ''",
    "CREATE INDEX kagura_memories_pinned ON kagura_memories (scope) WHERE pinned",
    # Words of which every row has one cost nothing to leave out, once the server knows which they are.
    "ALTER TABLE kagura_memories ALTER COLUMN search SET STATISTICS 200",
    """CREATE TABLE kagura_memory_edges (
        source TEXT NOT NULL REFERENCES kagura_memories (id) ON DELETE CASCADE,
        target TEXT NOT NULL REFERENCES kagura_memories (id) ON DELETE CASCADE,
        type TEXT NOT NULL, weight DOUBLE PRECISION NOT NULL, PRIMARY KEY (source, target, type))""",
    "CREATE INDEX kagura_memory_edges_target ON kagura_memory_edges (target)",
)
_STEPS = (_STEP_1,)
KNOWN_VERSION = len(_STEPS)
"""The newest tables that this version of the package can use."""

_TRIGRAMS = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX IF NOT EXISTS kagura_memories_folded ON kagura_memories USING gin (folded gin_trgm_ops)",
)
_NO_RIGHT = frozenset({"42501", "58P01", "0A000", "42704"})
"""No right to make the extension or the index, the extension is not on the server, or not in this schema's reach."""


def migrate(server: Server) -> bool:
    """Bring the database to `KNOWN_VERSION`; several processes may do it at once.

    Returns:
        Whether words with a slip can be found too: by trigrams, where the extension `pg_trgm` may be made.

    Raises:
        MemoryUnavailable: it cannot be reached or written, or a newer version of the package wrote it.
    """
    with server.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise server.unavailable(f"its encoding is {encoding}", "Create the database with `createdb -E UTF8`")
        found = _version(connection)
        if found > KNOWN_VERSION:
            why = f"its tables have version {found}, and this package knows {KNOWN_VERSION}"
            raise server.unavailable(why, "Upgrade kagura-kernel")
        for number in range(found, KNOWN_VERSION):
            for statement in _STEPS[number]:
                connection.execute(text(statement))
            connection.execute(text("INSERT INTO kagura_memory_version (version) VALUES (:n)"), {"n": number + 1})
        return _trigrams(connection)


def _version(connection: Connection) -> int:
    if connection.execute(text("SELECT to_regclass('kagura_memory_version')")).scalar_one() is None:
        return 0
    return int(connection.execute(text("SELECT max(version) FROM kagura_memory_version")).scalar_one() or 0)


def _trigrams(connection: Connection) -> bool:
    """Whether there are trigrams; made where they can be, and done without where they cannot."""
    ready = text(
        "SELECT to_regclass('kagura_memories_folded') IS NOT NULL"
        " AND to_regprocedure('word_similarity(text, text)') IS NOT NULL"
    )
    if connection.execute(ready).scalar_one():
        return True
    for statement in _TRIGRAMS:
        try:
            with connection.begin_nested():
                connection.execute(text(statement))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _NO_RIGHT:
                raise
            return False
    return bool(connection.execute(ready).scalar_one())
