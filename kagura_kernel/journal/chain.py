"""How a row gets its place behind the last one: its number, the hash of the row before it, and its own.

Whoever holds the journal's lock adds rows; `journal_head` says where the chain ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.journal.encoding import row_hash
from kagura_kernel.journal.statements import Cursor, run_text

LOCK = 0x6B61677572610001
"""The lock of PostgreSQL that writers take turns by, for all journals of a database: those in other schemas wait a
little, and nothing worse."""

END_STALLED = "journal_end_stalled"
"""The function of a journal that is shared which ends whoever keeps the others from writing: see `rights`."""

NO_HEAD = "its head record is missing; `kagura-kernel journal verify` says more"


class Content(NamedTuple):
    """The columns of a row that say what happened, as they are stored."""

    at: str
    kind: str
    run_id: str
    session_id: str
    body: str


Number = Callable[[], int]
"""The number of a row that was added; asking may wait for a server's answer."""


class Chain(Protocol):
    """The end of a journal's chain, in one transaction."""

    def add(self, connection: Connection, content: Content) -> Number:
        """Add a row, and move the head; raises the driver's errors, now or where the number is asked for.

        Raises:
            JournalUnwritable: there is no head.
        """
        ...


_HEAD = "SELECT rows, last_hash FROM journal_head WHERE id = 1"
_SET_HEAD = "UPDATE journal_head SET rows = ?, last_hash = ? WHERE id = 1"
_COLUMNS = ("seq", *Content._fields, "prev_hash", "hash")
_ADD = f"INSERT INTO journal_events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


class ChainInFile:
    """Rows are numbered and hashed in this process, for SQLite."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._head: tuple[Any, ...] | None = None

    def add(self, connection: Connection, content: Content) -> Number:
        """Add a row, and move the head."""
        found = self._head or run_text(connection, _HEAD).fetchone()
        if found is None:
            raise JournalUnwritable(self._where, NO_HEAD)
        seq, prev_hash = int(found[0]) + 1, found[1]
        digest = row_hash(seq, *content, prev_hash)
        run_text(connection, _ADD, (seq, *content, prev_hash, digest))
        run_text(connection, _SET_HEAD, (seq, digest))
        self._head = (seq, digest)
        return lambda: seq


def _netstring(text: str) -> str:
    return f"octet_length(convert_to({text}, 'UTF8')) || ':' || {text} || ','"


def hash_in_sql(row: str = "") -> str:
    """What `encoding.row_hash` computes, in PostgreSQL's words; `row` stands before the name of each column."""
    columns = (f"{row}{name}" for name in ("seq::text", *Content._fields, "prev_hash"))
    whole = " || ".join(map(_netstring, columns))
    return f"encode(sha256(convert_to({whole}, 'UTF8')), 'hex')"


# Where there is no head, the row has no number, which the table refuses: then nothing of the transaction is stored.
_ADD_ON_SERVER = f"""
WITH given AS (SELECT {", ".join(f"%({name})s::text AS {name}" for name in Content._fields)}),
place AS MATERIALIZED (SELECT rows + 1 AS seq, last_hash AS prev_hash FROM journal_head WHERE id = 1 FOR UPDATE),
added AS MATERIALIZED (SELECT *, {hash_in_sql()} AS hash FROM given LEFT JOIN place ON true),
moved AS (UPDATE journal_head SET rows = added.seq, last_hash = added.hash FROM added WHERE id = 1)
INSERT INTO journal_events ({", ".join(_COLUMNS)}) SELECT {", ".join(_COLUMNS)} FROM added RETURNING seq
"""  # noqa: S608 - names of our own


_NAMES, _VALUES = (", ".join(form.format(name) for name in Content._fields) for form in ("{}", "%({})s"))
_ADD_SHARED = f"INSERT INTO journal_events ({_NAMES}) VALUES ({_VALUES}) RETURNING seq"  # noqa: S608 - names of our own


class ChainOnServer:
    """Rows are numbered and hashed by PostgreSQL: nobody waits for its answers while holding the lock.

    Args:
        shared: Whether the journal is shared, and adds its rows by itself: see `rights`.
    """

    def __init__(self, *, shared: bool) -> None:
        self._add = _ADD_SHARED if shared else _ADD_ON_SERVER

    def add(self, connection: Connection, content: Content) -> Number:
        """Add a row, and move the head; what a missing head raises is an error of the driver."""
        found = run_text(connection, self._add, content._asdict())
        # Asked for twice it is one answer.
        return cache(lambda: _number(found))


def _number(found: Cursor) -> int:
    row = found.fetchone()
    assert row is not None  # noqa: S101 - a row that is not added raises
    return int(row[0])
