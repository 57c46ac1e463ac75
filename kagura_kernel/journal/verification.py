"""Whether the chain holds, and the tables of the views with it. Reads rows as they lie there and trusts none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, CursorResult, Row, Table, bindparam, func, or_, select

from kagura_kernel.domain.errors import JournalTampered, JournalUnreadable
from kagura_kernel.journal.encoding import FIRST, stored_hash
from kagura_kernel.journal.rows import CALLED, COUNTED_KINDS, NOTHING, NotedRow, StoredRow, Verification
from kagura_kernel.journal.schema import DECISION, approvals, events, head, runs
from kagura_kernel.journal.sharing import sees_all, sharing
from kagura_kernel.journal.statements import Statement

if TYPE_CHECKING:
    from kagura_kernel.journal.recount import Recount

ANOTHER = "it is not the row that was there when the journal was checked before"

_CHUNK = 1000
_FIRST_ROWS = Statement(select(events).order_by(events.c.seq).limit(_CHUNK))
_NEXT_ROWS = Statement(select(events).where(events.c.seq > bindparam("after")).order_by(events.c.seq).limit(_CHUNK))
_HASH_OF = select(events.c.hash).where(events.c.seq == bindparam("noted"))
_SPOKEN_OF = select(events.c.run_id).where(events.c.seq > bindparam("noted"))
_EARLIER = Statement(
    select(events)
    .where(events.c.seq <= bindparam("noted"), events.c.run_id.in_(_SPOKEN_OF))
    .where(or_(*(events.c.kind == kind.decode() for kind in sorted({*COUNTED_KINDS, CALLED}))))
    .order_by(events.c.seq)
)
"""What was checked before of runs that are spoken of since."""
_LAST = select(func.max(events.c.seq))
_HEADS = select(head)
_TAIL = 100
_NEWEST = Statement(select(events).order_by(events.c.seq.desc()).limit(_TAIL))


def verify(connection: Connection, where: str, noted: NotedRow = NOTHING) -> Verification:
    """Check the chain, and then the tables of the views against what the rows say.

    Args:
        connection: One that sees one moment.
        where: The journal, for messages.
        noted: The newest row that held when this was last done; only what was written after it is checked, and the
            tables for those runs that it speaks of.

    Raises:
        JournalTampered: with the first row, or the first entry of a table, that does not fit.
        JournalUnreadable: a row that was written so is no event.
    """
    if noted.seq and (connection.execute(_LAST).scalar() or 0) <= noted.seq:
        # Nothing was written since, and so nothing is counted.
        verification = verify_chain(connection, where, noted=noted)
        _verify_runs(connection, verification, {})
        return verification
    # What counts knows all events, which take a while to import.
    from kagura_kernel.journal.recount import Recount

    shared = sharing(connection) is not None
    counted = Recount(anybodys=shared)
    odd: list[int] = []
    # One user's nonsense must not keep the others from knowing that theirs holds.
    add = partial(_add_or_note, counted, odd) if shared else counted.add
    if noted.seq:
        for row in _EARLIER.stored(connection, {"noted": noted.seq}):
            add(row)
        odd.clear()
    verification = replace(verify_chain(connection, where, add, noted), odd=tuple(odd))
    _verify_runs(connection, verification, counted.runs)
    _verify_approvals(connection, verification, counted)
    return verification


def _add_or_note(counted: Recount, odd: list[int], row: StoredRow) -> None:
    try:
        counted.add(row)
    except (ValueError, RecursionError):
        odd.append(row[0])


def verify_chain(
    connection: Connection,
    where: str,
    each: Callable[[StoredRow], None] = lambda _row: None,
    noted: NotedRow = NOTHING,
) -> Verification:
    """Check every row after the noted one and the head, on a connection that sees one moment.

    Args:
        connection: The connection.
        where: The journal, for messages.
        each: Told of each row that fits, in their order.
        noted: The newest row that held already, which must be there as it was; by itself all rows are checked.

    Raises:
        JournalTampered: with the first row that does not fit.
    """
    if noted.seq and connection.execute(_HASH_OF, {"noted": noted.seq}).scalar() != noted.hash:
        raise JournalTampered(where, noted.seq, ANOTHER)
    rows, since, seen = stored_rows(connection, noted.seq), noted.hash or FIRST, None
    if whole := sees_all(connection):
        seq, last_hash = check_rows(rows, where, noted.seq, since, each)
    else:
        seq, last_hash, seen = check_some(rows, where, noted.seq, since, each)
    _check_head(connection, where, seq, last_hash, whole=whole)
    return Verification(where, seq, last_hash, noted.seq, seen)


def check_rows(
    rows: Iterable[StoredRow],
    where: str,
    seq: int,
    prev_hash: str,
    each: Callable[[StoredRow], None] = lambda _row: None,
) -> tuple[int, str]:
    """Check rows that follow the row `seq`, whose hash is `prev_hash`; number and hash of the last one.

    Raises:
        JournalTampered: with the first row that does not fit.
        JournalUnreadable: `each` finds that a row is no event.
    """
    last_hash: bytes | bytearray = prev_hash.encode("utf-8", "surrogateescape")
    try:
        for row in rows:
            seq += 1
            if why := _fault(row, seq, last_hash):
                raise JournalTampered(where, seq, why)
            last_hash = row[-1]
            each(row)
    except ValueError as error:
        raise JournalUnreadable(where, f"row {seq} is no event") from error
    return seq, last_hash.decode("utf-8", "surrogateescape")


def check_some(
    rows: Iterable[StoredRow],
    where: str,
    seq: int,
    prev_hash: str,
    each: Callable[[StoredRow], None] = lambda _row: None,
) -> tuple[int, str, int]:
    """The same where rows between them belong to others, and how many there were.

    Each is checked by itself, and against the one before it where that is here.
    """
    seen = 0
    for row in rows:
        if isinstance(row[0], int) and row[0] > seq + 1 and isinstance(row[-2], bytearray):
            seq, prev_hash = row[0] - 1, row[-2].decode("utf-8", "surrogateescape")
        seq, prev_hash = check_rows([row], where, seq, prev_hash, each)
        seen += 1
    return seq, prev_hash, seen


def verify_tail(connection: Connection, where: str) -> None:
    """Check the newest rows and the head: what costs the same however long the journal is.

    Raises:
        JournalTampered: with the first row that does not fit.
    """
    rows = _NEWEST.stored(connection)[::-1]
    seq, prev_hash = 0, FIRST
    if not (whole := sees_all(connection)):
        seq, prev_hash, _ = check_some(rows, where, seq, prev_hash)
    else:
        if rows and isinstance(rows[0][0], int) and isinstance(rows[0][-2], bytearray):
            seq, prev_hash = rows[0][0] - 1, rows[0][-2].decode("utf-8", "surrogateescape")
        seq, prev_hash = check_rows(rows, where, seq, prev_hash)
    _check_head(connection, where, seq, prev_hash, whole=whole)


def _check_head(connection: Connection, where: str, seq: int, last_hash: str, *, whole: bool) -> None:
    heads = connection.execute(_HEADS).fetchall()
    if len(heads) != 1:
        raise JournalTampered(where, seq, "the record of the last row is missing")
    if not whole and heads[0].rows > seq:
        return
    if heads[0].rows != seq:
        raise JournalTampered(where, seq + 1, f"the journal had {heads[0].rows} rows and now holds {seq}")
    if heads[0].last_hash != last_hash:
        raise JournalTampered(where, seq, "it is not the row that was written last")


def _fault(row: StoredRow, seq: int, prev_hash: bytes | bytearray) -> str:
    """What is wrong with a row at this place of the chain; empty when it fits."""
    number, at, kind, run_id, session_id, body, before, digest = row
    if number != seq:
        return f"it is missing; the next one is row {_plain(number)}"
    if not (
        type(at)
        is type(kind)
        is type(run_id)
        is type(session_id)
        is type(body)
        is type(before)
        is type(digest)
        is bytearray
    ):
        return "a column holds something that is no text"
    if before != prev_hash:
        return "it does not follow the row before it"
    if digest != stored_hash(row):
        return "its content is not what was written"
    return ""


def _plain(number: Any) -> Any:
    return number.decode("utf-8", "replace") if isinstance(number, bytearray) else number


def stored_rows(connection: Connection, seq: int) -> Iterator[StoredRow]:
    """The rows after a number, as they lie there; with 0 all."""
    # Not from 0: a row that was slipped in with a negative number is looked at, too.
    rows = _NEXT_ROWS.stored(connection, {"after": seq}) if seq else _FIRST_ROWS.stored(connection)
    yield from rows
    while len(rows) == _CHUNK:
        rows = _NEXT_ROWS.stored(connection, {"after": rows[-1][0]})
        yield from rows


def _entries(connection: Connection, table: Table, written_since: ColumnElement[bool], noted: int) -> CursorResult[Any]:
    if not noted:
        return connection.execute(select(table))
    return connection.execute(select(table).where(written_since), {"noted": noted})


def _verify_runs(connection: Connection, checked: Verification, counted: Mapping[str, Mapping[str, Any]]) -> None:
    missing = dict.fromkeys(counted)
    written_since = runs.c.run_id.in_(_SPOKEN_OF) | (runs.c.first_seq > bindparam("noted"))
    for row in _entries(connection, runs, written_since, checked.since):
        expected = counted.get(row.run_id)
        if expected is None:
            raise _wrong(checked, checked.rows, runs, row.run_id, "no event speaks of it")
        if wrong := _differing(runs, row, expected):
            raise _wrong(checked, expected["first_seq"], runs, row.run_id, _not_as_told(wrong))
        del missing[row.run_id]
    for key in missing:
        raise _wrong(checked, counted[key]["first_seq"], runs, key, "it is missing")


def _verify_approvals(connection: Connection, checked: Verification, counted: Recount) -> None:
    missing = dict.fromkeys(counted.approvals)
    for row in _entries(connection, approvals, approvals.c.run_id.in_(_SPOKEN_OF), checked.since):
        expected = counted.approvals.get(row.id)
        if expected is None:
            # The question may be put where others see it just before it is stored.
            if counted.goes_on(row.run_id):
                continue
            raise _wrong(checked, checked.rows, approvals, row.id, "no event speaks of it")
        wrong = _differing(approvals, row, expected)
        if expected["verdict"] is None and counted.may_hold_a_decision(expected["run_id"]):
            wrong = [name for name in wrong if name not in DECISION.split()]
        if wrong:
            raise _wrong(checked, counted.asked_at[row.id], approvals, row.id, _not_as_told(wrong))
        del missing[row.id]
    for key in missing:
        raise _wrong(checked, counted.asked_at[key], approvals, key, "it is missing")


def _differing(table: Table, row: Row[Any], expected: Mapping[str, Any]) -> list[str]:
    names = table.c.keys()
    if tuple(row) == tuple(expected[name] for name in names):
        return []
    return [name for name, found in zip(names, row, strict=True) if not _same(found, expected[name])]


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, int | float):
        # Sums were made by the database; the last bit is its own affair.
        return math.isclose(found, expected, rel_tol=1e-9)
    return bool(found == expected)


def _not_as_told(columns: list[str]) -> str:
    return f"{', '.join(columns)} {'is' if len(columns) == 1 else 'are'} not what the events say"


def _wrong(checked: Verification, seq: int, table: Table, key: object, why: str) -> JournalTampered:
    return JournalTampered(checked.where, seq, why, table=table.name, key=str(key))
