"""Statements that go to a PostgreSQL server in one message.

The driver's own way to send several at once takes a system call for each, and each wakes the server: on a busy machine
that is most of what a row costs. So each is prepared on the server once for a connection, and then they are sent as one
text that only executes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

if TYPE_CHECKING:
    from psycopg import Connection as Driver

BATCH = "batch"
"""Where a connection keeps the one that collects its statements, while there is one."""
_PREPARED = "prepared"
_PLACE = re.compile(r"%(?:\((\w+)\)s|%)")


class Batch:
    """Collects statements of one connection, and sends them when an answer is asked for, or at the end."""

    def __init__(self, connection: Connection, driver: Driver[Any]) -> None:
        from psycopg.pq import Escaping

        self._driver = driver
        self._prepared: dict[str, tuple[str, list[str]]] = connection.info.setdefault(_PREPARED, {})
        self._literal = Escaping(driver.pgconn).escape_literal
        self._encoding = driver.info.encoding
        self._texts: list[bytes] = []
        self._answers: list[Answer] = []

    def execute(self, text: str, values: Mapping[str, Any] | Sequence[Any] | None = None) -> Answer:
        """Add a statement, with a value for each of its names; an error comes when it is sent."""
        said = text.encode()
        if isinstance(values, Mapping):
            name, places = self._prepared.get(text) or self._prepare(text)
            said = b"EXECUTE %b%b" % (name.encode(), self._written([values[place] for place in places]))
        self._texts.append(said)
        self._answers.append(Answer(self))
        return self._answers[-1]

    def send(self) -> None:
        """Send what was added since the last time, and wait for all answers; raises the driver's errors."""
        texts, answers = b";".join(self._texts), self._answers
        self._texts, self._answers = [], []
        if not answers:
            return
        found = self._driver.execute(texts, prepare=False)
        for answer in answers:
            answer.rows = found.fetchall() if found.description else []
            found.nextset()

    def _prepare(self, text: str) -> tuple[str, list[str]]:
        places: list[str] = []

        def numbered(found: re.Match[str]) -> str:
            if found[1] is None:
                return "%"
            if found[1] not in places:
                places.append(found[1])
            return f"${places.index(found[1]) + 1}"

        name = f"kagura_{len(self._prepared)}"
        self._driver.execute(f"PREPARE {name} AS {_PLACE.sub(numbered, text)}".encode(), prepare=False)
        self._prepared[text] = name, places
        return name, places

    def _written(self, values: Sequence[Any]) -> bytes:
        return b"(%b)" % b",".join(map(self._value, values)) if values else b""

    def _value(self, value: Any) -> bytes:
        if value is None:
            return b"NULL"
        # Numbers are texts that the server reads as what the statement wants.
        return self._literal((value if isinstance(value, str) else repr(value)).encode(self._encoding))


class Answer:
    """What the server says to one statement."""

    def __init__(self, batch: Batch) -> None:
        self.rows: list[tuple[Any, ...]] | None = None  # None before it was sent
        self._batch = batch

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        if self.rows is None:
            self._batch.send()
        found, self.rows = self.rows or [], []
        return found

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        if self.rows is None:
            self._batch.send()
        return self.rows.pop(0) if self.rows else None
