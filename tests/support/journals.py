"""Journals of tests, opened for a third of the work: their tables are made, and their statements compiled, once.

Thousands of tests open a journal of their own. Each would lay out the same tables, and SQLAlchemy compiles what it is
asked anew for each engine. What a journal is asked and how it is stored stays as it is.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from kagura_kernel.journal import schema, sqlite, store
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.place import FILE_NAME

_migrate = schema.migrate
_lock = threading.RLock()
_engines: dict[str, Engine] = {}
_empty: list[bytes] = []


class Journals:
    """Says how those of the running test begin."""

    anew = False  # Whether each makes its tables itself, as it does for a person


def touch(file: Path, statement: str) -> None:
    """Change a journal as somebody does who goes by none of its rules."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def prepare() -> None:
    """From now on, the journals of this process begin so."""
    vars(sqlite)["create_engine"] = _engine
    vars(store)["migrate"] = _migrated


def _engine(url: str, *, creator: Callable[[], Any], **options: Any) -> Engine:
    """An engine that has the dialect and the compiled statements of the first one."""
    with _lock:
        if url not in _engines:
            _engines[url] = create_engine(url, creator=creator, **options)
    first = _engines[url]
    pool: Pool = first.pool.recreate()
    pool._creator = creator
    engine = Engine(pool, first.dialect, first.url)
    engine._compiled_cache = first._compiled_cache
    return engine


def _migrated(database: Database, now: datetime, then: schema.Then, *, create: bool = True) -> None:
    """Lay a copy of an empty journal into a new file; a file with anything in it is brought up as always."""
    place = database.place
    if create and not Journals.anew and isinstance(place, sqlite.SqliteFile):
        with _lock:
            if not place.path.stat().st_size:
                place.path.write_bytes(_empty_journal())
    _migrate(database, now, then, create=create)


def _empty_journal() -> bytes:
    if not _empty:
        with tempfile.TemporaryDirectory() as folder:
            made = Database(sqlite.SqliteFile(Path(folder)))
            _migrate(made, datetime.now(UTC), lambda *_: None)
            made.scour()
            made.close()
            _empty.append((Path(folder) / FILE_NAME).read_bytes())
    return _empty[0]
