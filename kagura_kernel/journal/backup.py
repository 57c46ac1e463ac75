"""A copy of a journal that is in use: whole, as of one moment, without stopping anybody."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalUnreadable, JournalUnwritable, UsageError
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.migrations import is_known
from kagura_kernel.journal.place import FILE_NAME, is_url, no_journal
from kagura_kernel.journal.sqlite import Readable, SqliteFile
from kagura_kernel.journal.verification import verify, verify_chain

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification

_BUSY_SECONDS = 5.0
_HALF = ".half"


def back_up(place: str | Path, directory: Path) -> Path:
    """Copy the journal in a directory into another one, made when missing and for its owner only; the copy's file.

    The copy is there whole or not at all, as the journal is: `verify_copy` says whether it holds.

    Raises:
        UsageError: there is no journal, it is in PostgreSQL (which has its own tools), or one lies at the goal.
        JournalUnreadable: it cannot be read.
        JournalUnwritable: the copy cannot be written.
    """
    if isinstance(place, str) and is_url(place):
        raise UsageError("A journal in PostgreSQL is copied by `pg_dump`, and restored by `pg_restore`.")
    source, goal = Path(place).absolute() / FILE_NAME, directory.absolute() / FILE_NAME
    if not source.is_file():
        raise no_journal(f"at {source}")
    if goal.exists():
        raise UsageError(f"There is a journal at {goal} already; name another directory.")
    half = goal.with_name(f"{FILE_NAME}{_HALF}-{os.getpid()}")
    try:
        goal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Exclusive, and for the owner only before the first byte is in it.
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            _copy(source, half)
            half.rename(goal)
        finally:
            half.unlink(missing_ok=True)
    except OSError as error:
        raise JournalUnwritable(str(goal), error.strerror or str(error)) from error
    return goal


def verify_copy(file: Path) -> Verification:
    """Check every row of a copy, and leave it as it is.

    Args:
        file: As `back_up` gave it.

    Raises:
        JournalTampered: it does not hold.
        JournalUnreadable: it cannot be read, or is the database of another program.
    """
    with closing(Database(SqliteFile(file.parent, reading=True))) as database, database.snapshot() as connection:
        # The tables of an older version are not those that the rows are counted into today.
        check = verify if is_known(connection, database.where) else verify_chain
        return check(connection, database.where)


def _copy(source: Path, half: Path) -> None:
    try:
        with (
            closing(Readable(source, _BUSY_SECONDS)) as readable,
            closing(readable.connect()) as whole,
            closing(sqlite3.connect(half)) as copy,
        ):
            whole.backup(copy)
            # Beside a copy nothing may lie: it is one file, wherever it is carried.
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise JournalUnreadable(str(source), f"it cannot be copied: {error}") from error
    with half.open("rb") as file:
        os.fsync(file.fileno())
