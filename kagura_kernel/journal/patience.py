"""Connections to PostgreSQL that give up a server which takes what is sent and never answers.

The driver waits for ever for one whose disk is frozen: its machine still acknowledges what comes, so that no time-out
of TCP counts, and it ends no statement by itself either.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from psycopg import Connection, OperationalError
from sqlalchemy import Engine, event

ANSWER_SECONDS = 300.0
"""How long one statement may take: longer than an index of a large table, and than a lock is waited for."""


class Patient(Connection[Any]):
    """A connection whose statements end."""

    bounded = True  # False for what may take long

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait for what the driver does; see the base class."""
        return super().wait(self._in_time(gen), *arguments, **options)

    def _in_time(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = time.monotonic() + ANSWER_SECONDS
        try:
            waits_for = next(gen)
            while True:
                # Nothing where it was only looked whether there is something.
                ready = yield waits_for
                if not ready and self.bounded and time.monotonic() > until:
                    self.pgconn.finish()
                    raise OperationalError(f"the server has not answered for {ANSWER_SECONDS:g} s")
                waits_for = gen.send(ready)
        except StopIteration as over:
            return over.value


def be_patient(engine: Engine) -> None:
    """Have all connections of an engine be such ones."""

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Any, options: Any) -> Patient:
        return Patient.connect(*arguments, **options)
