"""A part of the journal as JSON lines, as they are checked by somebody who has neither the journal nor this program.

The first line says where in the chain the part begins, the last one where it ends; between them stand the rows as they
lie in the journal, in their order, each with its hash. Where one run's rows were asked for, the others are left out,
and a line in their place holds the hash that the next row follows. The same journal gives the same lines, byte for
byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from kagura_kernel.domain.errors import JournalTampered, UsageError
from kagura_kernel.journal.encoding import FIRST, stamp
from kagura_kernel.journal.schema import events, head
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.verification import fault

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

    All rows of the part are checked before the first line: what cannot be believed is not begun.

    Raises:
        UsageError: no row is of that time.
        JournalTampered: a row of the part does not fit the one before it.
        JournalUnreadable: it cannot be read.
    """
    with journal.snapshot() as connection:
        first, last = _bounds(connection, part)
        prev_hash = _hash_before(connection, journal.where, first)
        book = _head(connection)
        last_hash = _check(connection, journal.where, first, last, prev_hash)
        if part.until is None and book != {"rows": last, "last_hash": last_hash}:
            raise JournalTampered(journal.where, last + 1, "what was written last is not there")
        yield _line({"export": FORMAT, "seq": first, "prev_hash": prev_hash, "run_id": part.run_id})
        count, skipped = 0, False
        for row in _rows(connection, first, last):
            prev_hash = row.hash
            if part.run_id is not None and row.run_id != part.run_id:
                skipped_to, skipped = row.seq, True
                continue
            if skipped:
                yield _line({"skipped_to": skipped_to, "hash": row.prev_hash})
                skipped = False
            count += 1
            yield _line(dict(row._mapping))  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping
        if skipped:
            yield _line({"skipped_to": skipped_to, "hash": prev_hash})
        yield _line({"end": last, "hash": prev_hash, "rows": count, "journal": book})


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
    seq = first - 1
    for row in _rows(connection, first, last):
        seq += 1
        if why := fault(row, seq, prev_hash):
            raise JournalTampered(where, seq, why)
        prev_hash = row.hash
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
