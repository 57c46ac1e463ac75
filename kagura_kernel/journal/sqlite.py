"""A journal in a file: SQLite in WAL mode, in a directory that only its owner may enter.

Durability: a row survives the death of the process, whenever it comes. Rows that give power or tell what was done to
the project (`flush`) also survive a power cut, because their commit waits for the disk, and with them all rows before
them; of other rows a power cut may take the last few, whole ones only, and the chain still holds.

How a journal's file is read where it cannot be written: on a full disk, on read-only media, in somebody's copy.

In WAL mode even a reader wants to make files beside it. Where that cannot be, a file without a log is read as one that
nobody changes; one with rows in its log, which nobody has merged, is copied aside and read there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from kagura_kernel.domain.errors import JournalUnreadable, JournalUnwritable
from kagura_kernel.journal.chain import Chain, ChainInFile
from kagura_kernel.journal.database import Place
from kagura_kernel.journal.place import FILE_NAME, no_journal
from kagura_kernel.journal.statements import run_text

_READ_ONLY = "mode=ro"
_UNCHANGED = "mode=ro&immutable=1"
_NO_ROOM = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
"""What SQLite says where it cannot make its files; a process that uses them has made them, and is never passed by."""


class Readable:
    """A file that is only read.

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
        self.uri = f"{path.as_uri()}?{_READ_ONLY}"  # Where SQLite reads it; nothing can be written there
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


BUSY_SECONDS = 5.0
_HEADER = 100
_NEARLY_NOTHING = 64 * 1024
_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_BUSY: f"another process has been writing to it for more than {BUSY_SECONDS:g} s",
    sqlite3.SQLITE_LOCKED: f"another process has been writing to it for more than {BUSY_SECONDS:g} s",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened or created",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_PERM: "permission denied",
}
_creating = threading.Lock()


class SqliteFile(Place):
    """The journal file of one directory.

    Args:
        directory: Where it lies.
        create: Make both when they are missing.
        reading: Only read it, and change nothing, not even beside it: it may lie on a full disk or a read-only one.
    """

    errors = (SQLAlchemyError, sqlite3.Error)

    def __init__(self, directory: Path, *, create: bool = True, reading: bool = False) -> None:
        self.directory = directory
        self.path = directory / FILE_NAME
        self.where = str(self.path)
        self._prepare(create=create and not reading, reading=reading)
        self._identity = _identity(self.path)
        self._readable = self._only_read() if reading else None
        self._engine = create_engine("sqlite://", creator=self._open, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def connect(self, *, odd_bytes: bool = False) -> Connection:
        """A fresh connection; the file is in WAL mode afterwards, unless it is only read."""
        connection = self._engine.connect()
        if self._readable is None:
            self._prepare_writing(connection)
        if odd_bytes:
            _driver(connection).text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        return connection

    def _prepare_writing(self, connection: Connection) -> None:
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() != "wal":
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.exec_driver_sql("PRAGMA synchronous=NORMAL")
        # Only checkpoints are ever deleted, and what is erased has to be gone.
        connection.exec_driver_sql("PRAGMA secure_delete=ON")

    def begin(self, connection: Connection, *, flush: bool, wait: bool = True) -> None:
        """Wait for the write lock, at most `BUSY_SECONDS`."""
        if connection.info.get("flush", False) is not flush:
            run_text(connection, f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
            connection.info["flush"] = flush
        if wait:
            run_text(connection, "BEGIN IMMEDIATE")
            return
        connection.exec_driver_sql("PRAGMA busy_timeout=0")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")

    def chain(self, connection: Connection) -> Chain:
        """In this process; SQLite has no hash."""
        del connection
        return ChainInFile(self.where)

    def begin_reading(self, connection: Connection) -> None:
        """Start a transaction; its moment is that of the first read."""
        connection.exec_driver_sql("BEGIN")

    def in_transaction(self, connection: Connection) -> bool:
        """Whether a transaction is open."""
        return _driver(connection).in_transaction

    def mark(self, connection: Connection) -> str:
        """A number of SQLite's that changes with every commit of another connection."""
        return str(connection.exec_driver_sql("PRAGMA data_version").scalar_one())

    def scour(self, connection: Connection) -> None:
        """Merge the log into the file, and empty it: what was deleted since stands in it until then."""
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def why_gone(self) -> str:
        """The file may have been moved or deleted while it was open; rows would then go to a file without a name.

        One that is only read is over, too, when it can be written again.
        """
        if self._readable is not None and os.access(self.path, os.W_OK) and not _state_of_disk(self.directory):
            return "it was opened when it could not be written; open it again"
        return "" if _identity(self.path) == self._identity else "its file was moved or deleted; restart the kernel"

    def why(self, error: Exception) -> str:
        """The reason in words; a vague one of SQLite's is made clear by a look at the disk."""
        code = _code(error)
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY} and (
            seen := _state_of_disk(self.directory)
        ):
            return seen
        return _WORDS.get(code, str(getattr(error, "orig", None) or error))

    def is_busy(self, error: Exception) -> bool:
        """Whether another connection holds the lock."""
        return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

    def is_damage(self, error: Exception) -> bool:
        """Whether the file is no database, or a broken one."""
        return _code(error) in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}

    def close(self) -> None:
        """Beside the connections there is at most a copy to be removed."""
        self._engine.dispose()
        if self._readable is not None:
            self._readable.close()

    def _open(self) -> sqlite3.Connection:
        if self._readable is not None:
            return self._readable.connect()
        return sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False)

    def _only_read(self) -> Readable:
        try:
            return Readable(self.path, BUSY_SECONDS)
        except sqlite3.Error as error:
            raise JournalUnreadable(self.where, self.why(error)) from error
        except OSError as error:
            why = f"the latest rows would have to be copied aside: {(error.strerror or str(error)).lower()}"
            raise JournalUnreadable(self.where, why) from error

    def _prepare(self, *, create: bool, reading: bool) -> None:
        """Make the file if it is to be made, and refuse what is none.

        A file that is there is never opened here. Closing it again would drop the locks of every connection that this
        process has on it, as POSIX has it; the next process to leave would then take the log of unmerged rows away.
        """
        try:
            if create:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._create()
            found = self.path.lstat()
        except FileNotFoundError as error:
            raise no_journal(self.where) from error
        except (FileExistsError, NotADirectoryError) as error:
            raise JournalUnwritable(self.where, "a file stands where its directory should be") from error
        except OSError as error:
            raise JournalUnwritable(self.where, (error.strerror or str(error)).lower()) from error
        if stat.S_ISLNK(found.st_mode):
            raise JournalUnreadable(self.where, "it is a link, which is not followed")
        if not stat.S_ISREG(found.st_mode):
            raise JournalUnreadable(self.where, "it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no file")
        if why := _kept_from(self.path, os.R_OK if reading else os.R_OK | os.W_OK):
            raise JournalUnreadable(self.where, why) if reading else JournalUnwritable(self.where, why)
        # SQLite itself refuses what is larger and no database; a scrap it would take for an empty one.
        if 0 < found.st_size < _HEADER:
            raise JournalUnreadable(self.where, "it is no SQLite database")
        if not reading:
            with suppress(PermissionError):
                self.path.chmod(0o600)

    def _create(self) -> None:
        # Nobody in this process connects to the new file before it is closed here: they come this way first.
        with _creating, suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _kept_from(path: Path, mode: int) -> str:
    """Why a file cannot be used so; empty when it can."""
    if os.access(path, mode):
        return ""
    return "read-only file system" if os.statvfs(path.parent).f_flag & os.ST_RDONLY else "permission denied"


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the creator above makes nothing else
    return driver


def _code(error: Exception) -> int:
    cause = error.orig if isinstance(error, DBAPIError) else error
    # The upper bits only say more about the same thing.
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _state_of_disk(directory: Path) -> str:
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"its directory cannot be reached ({error.strerror})"
    if disk.f_flag & os.ST_RDONLY:
        return "the file system is read-only"
    if disk.f_bavail * disk.f_frsize < _NEARLY_NOTHING:
        return "the disk is full"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "its directory may not be written"
    return ""
