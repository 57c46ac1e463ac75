"""The connections to one file: any thread borrows one, and gives it back when it has finished."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kagura_kernel.domain.errors.memory import MemoryUnavailable

APPLICATION_ID = 0x6B616D65
"""Marks the file as a memory of this package: `kame`."""

INDEX_VERSION = 3
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

# Terms are asked for one by one and come folded, so that neither their places nor a tokenizer's folding is needed.
# What is remembered is mostly the newest, and an index grows fastest at its end.
_THIRD = """
DROP INDEX memory_by_time;
CREATE INDEX memory_by_time ON memory(at, n) WHERE forgotten_at IS NULL;
DROP TABLE term;
CREATE VIRTUAL TABLE term USING fts5(terms, content='', columnsize=0, detail=none, tokenize="ascii");
"""

MIGRATIONS = (_FIRST, _SECOND, _THIRD)


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


BUSY_SECONDS = 5.0
_NEARLY_NOTHING = 64 * 1024
_HEADER = 100
_FREE = "Free some space, or name another place for it"
_OTHER_PLACE = "Give yourself the right to write there, or name another place for it"
_DAMAGED = "Move the file away and import what you exported; a new one is made by itself"
_BUSY = (f"another process has been writing to it for more than {BUSY_SECONDS:g} s", "Try again when it has finished")
_WORDS = {
    sqlite3.SQLITE_FULL: ("the disk is full", _FREE),
    sqlite3.SQLITE_READONLY: ("it is read-only", _OTHER_PLACE),
    sqlite3.SQLITE_PERM: ("permission denied", _OTHER_PLACE),
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: ("its file cannot be opened or created", _OTHER_PLACE),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "Look at the disk, or name another place for it"),
    sqlite3.SQLITE_NOTADB: ("it is no SQLite database", _DAMAGED),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", _DAMAGED),
}
_VAGUE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


def prepare(path: Path) -> None:
    """Make the directory and the file, for their owner alone, where they are missing; refuse what is no such file.

    A file that is there is not opened: closing it again would drop the locks of this process's connections to it.

    Raises:
        MemoryUnavailable: it can be neither made nor used.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        found = path.lstat()
    except (FileExistsError, NotADirectoryError) as error:
        raise _unavailable(path, "a file stands where its directory should be", "Name another place for it") from error
    except OSError as error:
        raise _unavailable(path, (error.strerror or str(error)).lower(), _OTHER_PLACE) from error
    if not stat.S_ISREG(found.st_mode):
        what = "a link, which is not followed" if stat.S_ISLNK(found.st_mode) else "no file"
        raise _unavailable(path, f"it is {what}", "Name another place for it")
    # SQLite takes a scrap that is shorter than a header for an empty database.
    if 0 < found.st_size < _HEADER:
        raise _unavailable(path, *_WORDS[sqlite3.SQLITE_NOTADB])
    if not os.access(path, os.R_OK | os.W_OK):
        raise _unavailable(path, "permission denied", _OTHER_PLACE)
    with suppress(PermissionError):
        path.chmod(0o600)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file it is; None when there is none."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trouble(path: Path, error: sqlite3.Error) -> MemoryUnavailable:
    """What an error of SQLite's means; a vague one is made clear by a look at the disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _VAGUE and (seen := _state_of_disk(path.parent)):
        return _unavailable(path, *seen)
    why, advice = _WORDS.get(code, (str(error), "If it stays so, name another place for it"))
    return _unavailable(path, why, advice)


def moved(path: Path) -> MemoryUnavailable:
    """What is said when the file is not there any more, or another one is."""
    return _unavailable(path, "its file was moved or deleted while it was open", "Open it again")


def closed(path: Path) -> MemoryUnavailable:
    """What is said to whoever uses it after it was closed."""
    return _unavailable(path, "it was closed", "Open it again")


def _unavailable(path: Path, why: str, advice: str) -> MemoryUnavailable:
    return MemoryUnavailable(str(path), why, f"{advice}.")


def _state_of_disk(directory: Path) -> tuple[str, str] | None:
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"its directory cannot be reached ({error.strerror})", "Look at the disk"
    if disk.f_flag & os.ST_RDONLY:
        return "the file system is read-only", "Name another place for it"
    if disk.f_bavail * disk.f_frsize < _NEARLY_NOTHING:
        return _WORDS[sqlite3.SQLITE_FULL]
    if not os.access(directory, os.W_OK | os.X_OK):
        return "its directory may not be written", _OTHER_PLACE
    return None


_SETTINGS = "PRAGMA synchronous=FULL; PRAGMA cache_size=-32000; PRAGMA mmap_size=268435456; PRAGMA temp_store=MEMORY;"


class Connections:
    """Open connections to a file that is in WAL mode."""

    def __init__(self, path: Path) -> None:
        self.path = path  # The file
        prepare(path)
        self._identity = identity(path)
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection whose reads are of one moment.

        Raises:
            MemoryUnavailable: the file cannot be read.
        """
        with self._borrowed() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write; everything is on the disk when it ends well, and nothing otherwise.

        Raises:
            MemoryUnavailable: the file cannot be written, or others were writing for too long.
        """
        with self._borrowed() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def merge_log(self) -> None:
        """Bring what was written into the file itself, if nobody is reading; the log then holds nothing older."""
        with self._borrowed() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close what is idle now, and what is borrowed as soon as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        connection = None
        try:
            connection = self._take()
            yield connection
        except sqlite3.Error as error:
            raise trouble(self.path, error) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise closed(self.path)
            found = self._idle.pop() if self._idle else None
        # A connection goes on using a file that has lost its name; what it writes there, nobody ever reads.
        if identity(self.path) != self._identity:
            if found is not None:
                found.close()
            raise moved(self.path)
        return found or self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None, cached_statements=256
        )
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                check_owner(connection, str(self.path))
                _log_ahead(connection)
            connection.executescript(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        with self._lock:
            keep = not self._closed and not connection.in_transaction
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Bring a file into WAL mode; SQLite does not wait where another process does the same at this moment."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return
