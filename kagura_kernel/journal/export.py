"""Parts of the journal as JSON lines, for somebody who has neither it nor this program, and copies of it.

The first line says where in the chain the part begins, the last one where it ends; between them stand the rows as they
lie in the journal, in their order, each with its hash. Where one run's rows were asked for, the others are left out,
and a line in their place holds the hash that the next row follows. The same journal gives the same lines, byte for
byte.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, bindparam, func, select

from kagura_kernel.domain.errors import JournalTampered, JournalUnreadable, UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.encoding import FIRST, stamp
from kagura_kernel.journal.place import FILE_NAME, is_url, no_journal
from kagura_kernel.journal.schema import events, head, is_known
from kagura_kernel.journal.sharing import sees_all
from kagura_kernel.journal.sqlite import Readable, SqliteFile
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.verification import check_rows, check_some, stored_rows, verify, verify_chain

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification

FORMAT = "kagura-journal/1"
"""What the first line calls itself."""

_CHUNK = 1000
_NEXT = (
    select(events)
    .where(events.c.seq > bindparam("after"), events.c.seq <= bindparam("last"))
    .order_by(events.c.seq)
    .limit(_CHUNK)
)
_HASH = select(events.c.hash).where(events.c.seq == bindparam("seq"))
_FIRST = select(func.min(events.c.seq))
_LAST = select(func.max(events.c.seq))
_HEAD = select(head.c.rows, head.c.last_hash).where(head.c.id == 1)


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Which rows."""

    since: datetime | None = None  # From the first row that bears this time or a later one; None from the first of all
    # To the last row that bears this time or an earlier one; None to the newest. Rows between the two are all there,
    # whatever a clock that was set back wrote on them.
    until: datetime | None = None
    run_id: str | None = None  # Only this run's; None for every row


def export_lines(journal: Journal, part: ExportPart) -> Iterator[str]:
    """The lines, of one moment of the journal; a thousand rows at most are in memory at once.

    All rows of the part are checked before the first line: what cannot be believed is not begun. Of a journal that is
    shared its users can export one run each time, for the rows of others are as good as left out.

    Raises:
        UsageError: no row is of that time; or it is not one run where others' rows are not seen.
        JournalTampered: a row of the part does not fit the one before it.
        JournalUnreadable: it cannot be read.
    """
    with journal.snapshot() as connection:
        if not sees_all(connection):
            yield from _own_run(connection, journal.where, part)
            return
        first, last = _bounds(connection, part)
        prev_hash = _hash_before(connection, journal.where, first)
        book = _head(connection)
        last_hash = _check(connection, journal.where, first, last, prev_hash)
        if part.until is None and book != {"rows": last, "last_hash": last_hash}:
            raise JournalTampered(journal.where, last + 1, "what was written last is not there")
        yield from _lines(connection, part, book, (first, prev_hash), (last, last_hash))


def _own_run(connection: Connection, where: str, part: ExportPart) -> Iterator[str]:
    """The lines of one run in a journal of which others' rows are not seen: from the first row to the newest."""
    if part.run_id is None or part.since is not None or part.until is not None:
        raise UsageError(
            "You see your own rows of this journal alone: export a whole run (`--run`), or have an auditor do it."
        )
    check_some(stored_rows(connection, 0), where, 0, FIRST)
    book = _head(connection)
    yield from _lines(connection, part, book, (1, FIRST), (int(book["rows"]), book["last_hash"]))


def _lines(
    connection: Connection, part: ExportPart, book: Mapping[str, Any], begin: tuple[int, str], end: tuple[int, str]
) -> Iterator[str]:
    """The lines of rows that were checked.

    Args:
        connection: The journal.
        part: Which of them are told.
        book: Its record of its last row.
        begin: Number of the first, and the hash of the row before it.
        end: Number and hash of the last.
    """
    first, at = begin
    last, last_hash = end
    yield _line({"export": FORMAT, "seq": first, "prev_hash": at, "run_id": part.run_id})
    seq, count = first - 1, 0
    for row in _rows(connection, first, last):
        if part.run_id is not None and row.run_id != part.run_id:
            continue
        if row.seq != seq + 1:
            yield _line({"skipped_to": row.seq - 1, "hash": row.prev_hash})
        seq, at, count = row.seq, row.hash, count + 1
        yield _line(dict(row._mapping))  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping
    if seq < last:
        at = last_hash
        yield _line({"skipped_to": last, "hash": at})
    yield _line({"end": last, "hash": at, "rows": count, "journal": book})


def _bounds(connection: Connection, part: ExportPart) -> tuple[int, int]:
    """The numbers of the first and the last row; of an empty journal 1 and 0."""
    first, last = _FIRST, _LAST
    if part.since is not None:
        first = first.where(events.c.at >= stamp(part.since))
    if part.until is not None:
        last = last.where(events.c.at <= stamp(part.until))
    begins, ends = connection.execute(first).scalar(), connection.execute(last).scalar()
    if part.since is None and part.until is None:
        # Not from the lowest number that is there: a row that is missing at the beginning has to show.
        return 1, int(ends or 0)
    if begins is None or ends is None or begins > ends:
        raise UsageError("The journal has no row of that time, so there is nothing to export.")
    return (1 if part.since is None else int(begins)), int(ends)


def _hash_before(connection: Connection, where: str, first: int) -> str:
    if first <= 1:
        return FIRST
    found = connection.execute(_HASH, {"seq": first - 1}).scalar()
    if found is None:
        raise JournalTampered(where, first - 1, "it is missing")
    return str(found)


def _check(connection: Connection, where: str, first: int, last: int, prev_hash: str) -> str:
    """Check the rows from one number to another, and that none is missing; the hash of the last one."""
    rows = takewhile(lambda row: row[0] <= last, stored_rows(connection, first - 1))
    seq, prev_hash = check_rows(rows, where, first - 1, prev_hash)
    if seq != max(last, first - 1):
        raise JournalTampered(where, seq + 1, "it is missing")
    return prev_hash


def _rows(connection: Connection, first: int, last: int) -> Iterator[Row[Any]]:
    """The rows from one number to another, as they lie there."""
    seq = first - 1
    while rows := connection.execute(_NEXT, {"after": seq, "last": last}).fetchall():
        yield from rows
        seq = rows[-1].seq


def _head(connection: Connection) -> dict[str, Any]:
    found = connection.execute(_HEAD).first()
    return {} if found is None else {"rows": found.rows, "last_hash": found.last_hash}


def _line(value: dict[str, Any]) -> str:
    # ASCII alone: whatever carries the file changes nothing in it, and bytes that are no text come through as escapes.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


_BUSY_SECONDS = 5.0


def back_up(place: str | Path, directory: Path) -> Path:
    """Copy the journal in a directory into another one, made when missing and for its owner only; the copy's file.

    The copy is there whole or not at all, as the journal is: `verify_copy` says whether it holds.

    Raises:
        UsageError: there is no journal, it is in PostgreSQL (which has its own tools), or one lies at the goal.
            Or the copy cannot be written.
        JournalUnreadable: it cannot be read.
    """
    if isinstance(place, str) and is_url(place):
        how = "copied by `pg_dump`, and restored by `pg_restore`, or by `psql` where the dump is plain text"
        raise UsageError(f"A journal in PostgreSQL is {how}.")
    source, goal = Path(place).absolute() / FILE_NAME, directory.absolute() / FILE_NAME
    if not source.is_file():
        raise no_journal(f"at {source}")
    if goal.exists():
        raise UsageError(f"There is a journal at {goal} already; name another directory.")
    # By chance: what a process of the same number has left that was killed is in nobody's way.
    half = goal.with_name(f"{FILE_NAME}.half-{secrets.token_hex(4)}")
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
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{goal} cannot be written: {why}. Name another directory, or make room there.") from error
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
        if error.sqlite_errorname == "SQLITE_FULL":
            # Of the copy: nothing else is written.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise JournalUnreadable(str(source), f"it cannot be copied: {error}") from error
    with half.open("rb") as file:
        os.fsync(file.fileno())
