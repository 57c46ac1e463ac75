"""An SQLite file that can only be read, by four means that do not rely on each other.

It is opened read-only; every access of a statement is put before an authorizer that knows reading alone; another file
cannot be attached; and a statement that runs too long is interrupted, or ended with the process of its own that it runs
in. Values and memory are bounded, and what a schema could smuggle in (functions in views and triggers) is not trusted.

Only the file itself is in the jail. A database with a write-ahead log is therefore read as of its last checkpoint,
which the answer says, and a read during which the file has changed is made again.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from . import faults
from .arguments import shown
from .database import collect
from .faults import DatabaseUnavailable, NotFound, PluginFault, QueryFailed, QueryRefused, QueryTimeout, TooLarge
from .limits import Monotonic

BEHIND = (
    "The database keeps its newest changes in a log beside it, which this plugin does not see: rows are as of its last "
    "checkpoint."
)
"""What an answer says where the file is only a part of the database."""

_MAX_VALUE = 4 * 2**20
_MAX_SQL = 64 * 1024
# Of one statement; a jail carries out four at once.
_MAX_MEMORY = 40 * 2**20
_GRACE = 1.0
_STEPS = 5_000
_TRIES = 4
_WAL = 2
_HEADER = 100
_MODE = slice(18, 20)
_MAGIC = b"SQLite format 3\0"

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_NOT_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_dbpage"})
_TABLES = (
    "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "ORDER BY name"
)

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MAX_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: _MAX_SQL,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_CHUNK = 64 * 1024
# One at a time: a child that had the end of another's pipe would keep that one from being heard to its end.
_FORKING = threading.Lock()


class SqliteDatabase:
    """One SQLite file.

    One statement may take so many seconds. Raises `DatabaseUnavailable`: there is no such file, or it is no SQLite
    database.
    """

    def __init__(self, path: str, *, seconds: float = 10.0, now: Monotonic = time.monotonic) -> None:
        self._path = path
        self._seconds = seconds
        self._now = now
        self._look()

    def query(self, sql: str, parameters: list[Any], most: int) -> dict[str, Any]:
        """See `Database`; placeholders are `?`."""

        def ask(connection: sqlite3.Connection) -> dict[str, Any]:
            cursor = connection.execute(sql, parameters)
            if cursor.description is None:
                raise QueryRefused("The statement gives no rows; only reading statements are taken.")
            return collect([str(column[0]) for column in cursor.description], cursor, most)

        return self._consistently(ask)

    def tables(self) -> dict[str, Any]:
        """See `Database`."""

        def ask(connection: sqlite3.Connection) -> dict[str, Any]:
            found = connection.execute(_TABLES).fetchmany(1_001)
            tables = [{"schema": "main", "name": name, "kind": kind} for kind, name in found[:1_000]]
            return {"tables": tables, "complete": len(found) == len(tables)}

        return self._consistently(ask)

    def columns(self, table: str) -> dict[str, Any]:
        """See `Database`."""
        name = table.removeprefix("main.")

        def ask(connection: sqlite3.Connection) -> dict[str, Any]:
            # The name is a value here and never a part of the statement; so it stands outside of what guest code says.
            connection.set_authorizer(None)
            found = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', [name]).fetchall()
            if not found:
                raise NotFound(f"There is no table {shown(table)}.")
            columns = [
                {"name": column, "type": kind, "nullable": not (required or key), "primary_key": bool(key)}
                for column, kind, required, key in found
            ]
            return {"columns": columns}

        return self._consistently(ask)

    def _consistently(self, ask: Callable[[sqlite3.Connection], dict[str, Any]]) -> dict[str, Any]:
        until = self._now() + self._seconds
        for _ in range(_TRIES):
            before, has_log = self._look()
            try:
                answer = self._once(ask, until, alone=has_log)
            except QueryTimeout:
                raise
            except PluginFault:
                if has_log and self._look()[0] != before:
                    continue
                raise
            if not has_log:
                return answer
            if self._look()[0] == before:
                return answer | {"note": BEHIND}
        raise DatabaseUnavailable("The database is being changed too often to be read. Try again later.")

    def _once(
        self, ask: Callable[[sqlite3.Connection], dict[str, Any]], until: float, *, alone: bool
    ) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            with _translated(), self._opened(alone=alone) as connection:
                connection.set_progress_handler(lambda: self._now() > until, _STEPS)
                return ask(connection)

        # Some functions (`replace`, `trim`, `LIKE`) take hours in one step, and no handler is asked meanwhile.
        return _apart(work, self._seconds + _GRACE)

    @contextmanager
    def _opened(self, *, alone: bool) -> Iterator[sqlite3.Connection]:
        # Locks and a log are files beside it, which are not here. What that costs is made up for by `_consistently`.
        options = "mode=ro&immutable=1" if alone else "mode=ro"
        address = f"file:{quote(self._path)}?{options}"
        connection = sqlite3.connect(
            address, uri=True, timeout=min(self._seconds, 5.0), isolation_level=None, check_same_thread=False
        )
        try:
            for category, most in _LIMITS.items():
                connection.setlimit(category, most)
            for setting in (
                "query_only=ON",
                "trusted_schema=OFF",
                "cell_size_check=ON",
                "mmap_size=0",
                "temp_store=MEMORY",
                f"hard_heap_limit={_MAX_MEMORY}",
            ):
                connection.execute(f"PRAGMA {setting}")
            connection.set_authorizer(_authorize)
            yield connection
        finally:
            connection.close()

    def _look(self) -> tuple[tuple[int, int, bytes], bool]:
        """What tells one state of the file from another, and whether it has a log beside it."""
        try:
            # It could be a FIFO, which would hold whoever opens it.
            if not stat.S_ISREG(Path(self._path).stat().st_mode):
                raise DatabaseUnavailable("The configured database is no file.")
            with Path(self._path).open("rb", buffering=0) as file:
                head = file.read(_HEADER)
                found = os.fstat(file.fileno())
        except OSError:
            raise DatabaseUnavailable("The configured database cannot be opened.") from None
        if head and not head.startswith(_MAGIC):
            raise DatabaseUnavailable("The configured file is no SQLite database.")
        return (found.st_mtime_ns, found.st_size, head), _WAL in head[_MODE]


def _apart(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The answer of `work`, which JSON can hold, out of a child of this process, which the system ends at its time.

    A database can be kept busy in one step of its machine for hours, where nothing that only asks it to stop is heard.

    Raises:
        PluginFault: what `work` raised.
        QueryTimeout: it took longer.
        TooLarge: the system ended it, as it does what needs too much memory.
        DatabaseUnavailable: it broke down.
    """
    with _FORKING, warnings.catch_warnings():
        # Other threads are none of the child's business: it takes no lock that one of them could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _carry_out(work, seconds, writer)
        os.close(writer)
    said = bytearray()
    try:
        while data := os.read(reader, _CHUNK):
            said += data
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    return _answer(bytes(said), status)


def _carry_out(work: Callable[[], dict[str, Any]], seconds: float, writer: int) -> NoReturn:
    code = 1
    try:
        # Not by a handler, which Python would run after the step: the system itself ends the process.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(_said(work)).encode())
        code = 0
    finally:
        # Nothing of what the parent would do at its end is done here.
        os._exit(code)


def _said(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"answer": work()}
    except PluginFault as fault:
        return {"fault": type(fault).__name__, "text": str(fault)}


def _answer(said: bytes, status: int) -> dict[str, Any]:
    if status == 0:
        found = json.loads(said)
        if "answer" in found:
            return dict(found["answer"])
        raise getattr(faults, found["fault"])(found["text"])
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        raise QueryTimeout("The statement took too long and was stopped.")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        raise TooLarge("The statement needs more memory than it may have.")
    raise DatabaseUnavailable("The database cannot be read: reading it broke down.")


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _source: str | None) -> int:
    del first
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _NOT_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Warning, sqlite3.ProgrammingError) as error:
        raise _misused(error) from None
    except sqlite3.DataError as error:
        raise TooLarge(f"A value is too large: {error}.") from None
    except sqlite3.Error as error:
        raise _failed(error) from None
    except MemoryError:
        raise TooLarge("The statement needs more memory than it may have.") from None


def _misused(error: Exception) -> PluginFault:
    if "one statement" in str(error):
        return QueryRefused("Only one statement is taken at a time.")
    return QueryFailed(f"{error}.".replace("..", "."))


def _failed(error: sqlite3.Error) -> PluginFault:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return QueryTimeout("The statement took too long and was stopped.")
    if code in {sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return QueryRefused("The statement does more than read, or asks for what is out of bounds.")
    if code in {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM}:
        return TooLarge("The statement needs more memory than it may have.")
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return DatabaseUnavailable("The database is busy with a change. Try again.")
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR}:
        return DatabaseUnavailable("The database cannot be read: it is damaged, or no SQLite database.")
    return QueryFailed(f"{error}.")
