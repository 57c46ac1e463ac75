"""Whether the chain holds. Reads rows as they lie there and trusts none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.hashing import FIRST, row_hash
from kagura_kernel.journal.rows import Verification
from kagura_kernel.journal.schema import events, head

_CHUNK = 1000
_NEXT_ROWS = select(events).where(events.c.seq > bindparam("after")).order_by(events.c.seq).limit(_CHUNK)
_HEADS = select(head)


def verify_chain(connection: Connection, where: str) -> Verification:
    """Check every row and the head, on a connection that sees one moment.

    Raises:
        JournalTampered: with the first row that does not fit.
    """
    seq, last_hash = 0, FIRST
    for row in _all_rows(connection):
        seq += 1
        if why := _fault(row, seq, last_hash):
            raise JournalTampered(where, seq, why)
        last_hash = row.hash
    heads = connection.execute(_HEADS).fetchall()
    if len(heads) != 1:
        raise JournalTampered(where, seq, "the record of the last row is missing")
    if heads[0].rows != seq:
        raise JournalTampered(where, seq + 1, f"the journal had {heads[0].rows} rows and now holds {seq}")
    if heads[0].last_hash != last_hash:
        raise JournalTampered(where, seq, "it is not the row that was written last")
    return Verification(where, seq, last_hash)


def _fault(row: Row[Any], seq: int, prev_hash: str) -> str:
    if row.seq != seq:
        return f"it is missing; the next one is row {row.seq}"
    texts = (row.at, row.kind, row.run_id, row.session_id, row.body, row.prev_hash, row.hash)
    if not all(isinstance(text, str) for text in texts):
        return "a column holds something that is no text"
    if row.prev_hash != prev_hash:
        return "it does not follow the row before it"
    if row.hash != row_hash(seq, *texts[:-1]):
        return "its content is not what was written"
    return ""


def _all_rows(connection: Connection) -> Iterator[Row[Any]]:
    after: int | None = None
    while True:
        # Not from 0: a row that was slipped in with a negative number is looked at, too.
        query = select(events).order_by(events.c.seq).limit(_CHUNK) if after is None else _NEXT_ROWS
        rows = connection.execute(query, {} if after is None else {"after": after}).fetchall()
        yield from rows
        if len(rows) < _CHUNK:
            return
        after = rows[-1].seq
