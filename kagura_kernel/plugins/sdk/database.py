"""What every database gives that can only be read, the checks of what it is asked, and its rows as JSON."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from .arguments import items_of, text_of, whole_of
from .faults import ArgumentRefused, TooLarge

MAX_SQL = 64 * 1024
"""Bytes of one statement."""

MAX_PARAMETERS = 256
MAX_PARAMETER = 256 * 1024
MAX_NAME = 256

MAX_ROWS = 1_000
"""Rows of one answer."""

MAX_ANSWER = 2 * 2**20
"""Bytes of one answer as JSON."""

_WHOLE = 2**63
_DEEPEST = 12
_SAFE_WHOLE = 2**53


class Database(Protocol):
    """A database that can only be read. Each call is a transaction of its own."""

    def query(self, sql: str, parameters: list[Any], most: int) -> dict[str, Any]:
        """Rows of one statement, as `collect` gives them.

        Raises:
            QueryRefused: it does more than read, or is more than one statement.
            QueryFailed: the database does not take it.
            QueryTimeout: it took too long.
            TooLarge: one row is more than an answer may hold.
            DatabaseUnavailable: nobody answers.
        """

    def tables(self) -> dict[str, Any]:
        """`tables`, each with `schema`, `name` and `kind` (`table` or `view`), and whether they are `complete`."""

    def columns(self, table: str) -> dict[str, Any]:
        """`columns` of a table or view, each with `name`, `type`, `nullable` and `primary_key`.

        Raises `NotFound`: there is no such table.
        """


def checked_sql(sql: Any) -> str:
    """A statement as guest code wrote it. Raises `ArgumentRefused`: it is empty, too long, no text, or holds NUL."""
    text = text_of("sql", sql, most=MAX_SQL)
    if not text.strip() or "\0" in text:
        raise ArgumentRefused("sql must be one statement.")
    return text


def checked_parameters(parameters: Any) -> list[Any]:
    """The values for a statement's placeholders.

    Raises `ArgumentRefused`: they are no list of texts, numbers, truth values and nulls.
    """
    values = [] if parameters is None else items_of("parameters", parameters, most=MAX_PARAMETERS)
    for value in values:
        if isinstance(value, str):
            text_of("each parameter", value, most=MAX_PARAMETER)
        elif isinstance(value, int):
            if not -_WHOLE <= value < _WHOLE:
                raise ArgumentRefused("A whole number of the parameters has more than 64 bits.")
        elif value is not None and not isinstance(value, float):
            raise ArgumentRefused(f"A parameter is a text, a number, true, false or null, not {type(value).__name__}.")
    return values


def checked_limit(limit: Any, most: int) -> int:
    """How many rows an answer may have; None for as many as may be.

    Raises `ArgumentRefused`: it is no number from 1 to that.
    """
    return most if limit is None else whole_of("limit", limit, least=1, most=most)


def checked_table(table: Any) -> str:
    """A table's name, with its schema before a dot where there is one.

    Raises `ArgumentRefused`: it is empty, too long, no text, or holds NUL.
    """
    name = text_of("table", table, most=MAX_NAME)
    if not name or "\0" in name:
        raise ArgumentRefused("table must be a name.")
    return name


def plain(value: Any) -> Any:
    """A value of a database as JSON has it.

    Numbers that JSON readers round (above 2^53) and exact decimals are texts, as are moments (ISO 8601), NaN and the
    infinities; bytes are `{"base64": …}`; what nests too deep, and whatever else there is, is its text.
    """
    return _plain(value, 0)


def collect(columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int) -> dict[str, Any]:
    """An answer: `columns`, `rows` (lists in their order), `count`, and `complete`, False where there were more.

    Of the rows at most one more than `most` is taken. Raises `TooLarge`: one row alone is more than an answer may hold.
    """
    taken: list[list[Any]] = []
    size = 0
    complete = True
    for row in rows:
        if len(taken) >= most:
            complete = False
            break
        values = [plain(value) for value in row]
        size += len(json.dumps(values))
        if size > MAX_ANSWER:
            if not taken:
                raise TooLarge(f"One row has more than {MAX_ANSWER:,} bytes. Select less of it.")
            complete = False
            break
        taken.append(values)
    return {"columns": list(columns), "rows": taken, "count": len(taken), "complete": complete}


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # Half a character cannot be written as UTF-8.
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return value if -_SAFE_WHOLE <= value <= _SAFE_WHOLE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _plain_other(value, depth)


def _plain_other(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(name): _plain(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(one, depth + 1) for one in value]
    # Exact decimals, identifiers, spans, addresses, and what nests too deep.
    return str(value).encode("utf-8", "replace").decode("utf-8")
