"""What every database gives that can only be read, and the checks of what it is asked."""

from __future__ import annotations

from typing import Any, Protocol

from .arguments import items_of, text_of, whole_of
from .faults import ArgumentRefused

MAX_SQL = 64 * 1024
"""Bytes of one statement."""

MAX_PARAMETERS = 256
MAX_PARAMETER = 256 * 1024
MAX_NAME = 256

_WHOLE = 2**63


class Database(Protocol):
    """A database that can only be read. Each call is a transaction of its own."""

    def query(self, sql: str, parameters: list[Any], most: int) -> dict[str, Any]:
        """Rows of one statement, as `rows.collect` gives them.

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

        Raises:
            NotFound: there is no such table.
        """


def checked_sql(sql: Any) -> str:
    """A statement as guest code wrote it.

    Raises:
        ArgumentRefused: it is empty, too long, no text, or holds NUL.
    """
    text = text_of("sql", sql, most=MAX_SQL)
    if not text.strip() or "\0" in text:
        raise ArgumentRefused("sql must be one statement.")
    return text


def checked_parameters(parameters: Any) -> list[Any]:
    """The values for a statement's placeholders.

    Raises:
        ArgumentRefused: they are no list of texts, numbers, truth values and nulls.
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

    Raises:
        ArgumentRefused: it is no number from 1 to that.
    """
    return most if limit is None else whole_of("limit", limit, least=1, most=most)


def checked_table(table: Any) -> str:
    """A table's name, with its schema before a dot where there is one.

    Raises:
        ArgumentRefused: it is empty, too long, no text, or holds NUL.
    """
    name = text_of("table", table, most=MAX_NAME)
    if not name or "\0" in name:
        raise ArgumentRefused("table must be a name.")
    return name
