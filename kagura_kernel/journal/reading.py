"""How a journal's file is read where it cannot be written: on a full disk, on read-only media, in somebody's copy.

In WAL mode even a reader wants to make files beside it. Where that cannot be, a file without a log is read as one that
nobody changes; one with rows in its log, which nobody has merged, is copied aside and read there.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

_READ_ONLY = "mode=ro"
_UNCHANGED = "mode=ro&immutable=1"
_NO_ROOM = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
"""What SQLite says where it cannot make its files; a process that uses them has made them, and is never passed by."""


class Readable:
    """A file that is only read.

    Attributes:
        uri: Where SQLite reads it; nothing can be written there.

    Args:
        path: The file.
        timeout: Seconds to wait for others.

    Raises:
        sqlite3.Error: it cannot be read.
        OSError: it would have to be copied aside, and cannot be.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._timeout = timeout
        self._aside: tempfile.TemporaryDirectory[str] | None = None
        self.uri = f"{path.as_uri()}?{_READ_ONLY}"
        try:
            self._try()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _NO_ROOM:
                raise
            if _has_rows(_log_of(path)):
                path = self._copied(path)
            self.uri = f"{path.as_uri()}?{_UNCHANGED}"
            try:
                self._try()
            except sqlite3.Error:
                self.close()
                raise

    def connect(self) -> sqlite3.Connection:
        """A connection that only reads; for any thread."""
        return sqlite3.connect(self.uri, uri=True, timeout=self._timeout, check_same_thread=False)

    def close(self) -> None:
        """Remove what was copied aside; may be called twice."""
        if self._aside is not None:
            self._aside.cleanup()
            self._aside = None

    def _try(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _copied(self, path: Path) -> Path:
        """A copy with the rows of its log in it, which only we may read."""
        self._aside = tempfile.TemporaryDirectory(prefix="kagura-journal-")
        copy = Path(self._aside.name) / path.name
        try:
            shutil.copyfile(path, copy)
            with suppress(FileNotFoundError):
                shutil.copyfile(_log_of(path), _log_of(copy))
            with closing(sqlite3.connect(copy)) as connection:
                connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        except BaseException:
            self.close()
            raise
        return copy


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _has_rows(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False
