"""Statements that are run for every row, as text for the driver: SQLAlchemy takes longer than SQLite over one.

What is run so raises the driver's errors, not SQLAlchemy's; `database` knows both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import BindParameter, ClauseElement, Connection, Dialect, bindparam

BATCH = "batch"
"""Where a connection keeps the one that collects its statements, while there is one."""


def given(names: str) -> dict[str, BindParameter[Any]]:
    """What sets each of these columns to the value that is given by its name."""
    return {name: bindparam(name) for name in names.split()}


class Cursor(Protocol):
    """What is used of a driver's cursor."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All that are left."""
        ...


class Statement:
    """One statement, compiled once for each dialect.

    Args:
        statement: Without lists of values: each has as many places as it has names.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._made: dict[str, _Compiled] = {}

    def run(self, connection: Connection, values: Mapping[str, Any] | None = None) -> Cursor:
        """Run it with a value for each of its names; raises the driver's errors."""
        dialect = connection.dialect
        made = self._made.get(dialect.name)
        if made is None:
            made = self._made[dialect.name] = _Compiled(self._statement, dialect)
        return run_text(connection, made.text, made.parameters(values or {}))

    def stored(self, connection: Connection, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows, each text as the bytes that are stored: a `bytearray`, which no other value is."""
        driver = _driver(connection)
        if not isinstance(driver, sqlite3.Connection):
            return [tuple(map(_as_stored, row)) for row in self.run(connection, values).fetchall()]
        factory, driver.text_factory = driver.text_factory, bytearray
        try:
            return self.run(connection, values).fetchall()
        finally:
            driver.text_factory = factory


def run_text(connection: Connection, text: str, values: Mapping[str, Any] | Sequence[Any] | None = None) -> Cursor:
    """Run a text as it is, with values in the driver's own way if it has any; raises the driver's errors."""
    taker = connection.info.get(BATCH) or _driver(connection)
    found: Cursor = taker.execute(text) if values is None else taker.execute(text, values)
    return found


class _Compiled:
    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._names: list[str] | None = compiled.positiontup if compiled.positional else None
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}

    def parameters(self, values: Mapping[str, Any]) -> list[Any] | Mapping[str, Any]:
        given = {**self._fixed, **values}
        return given if self._names is None else [given[name] for name in self._names]


def _as_stored(value: Any) -> Any:
    return bytearray(value, "utf-8") if isinstance(value, str) else value


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
