"""The connections to one file: any thread borrows one, and gives it back when it has finished."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kagura_kernel.memory.sqlite import place, schema

_SETTINGS = "PRAGMA synchronous=FULL; PRAGMA cache_size=-32000; PRAGMA mmap_size=268435456; PRAGMA temp_store=MEMORY;"


class Connections:
    """Open connections to a file that is in WAL mode.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        place.prepare(path)
        self._identity = place.identity(path)
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
            raise place.trouble(self.path, error) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise place.closed(self.path)
            found = self._idle.pop() if self._idle else None
        # A connection goes on using a file that has lost its name; what it writes there, nobody ever reads.
        if place.identity(self.path) != self._identity:
            if found is not None:
                found.close()
            raise place.moved(self.path)
        return found or self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=place.BUSY_SECONDS, check_same_thread=False, isolation_level=None, cached_statements=256
        )
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                schema.check_owner(connection, str(self.path))
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
    end = time.monotonic() + place.BUSY_SECONDS
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
