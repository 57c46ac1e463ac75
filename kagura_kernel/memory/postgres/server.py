"""Connections to the server that a URL names, and its errors in our words.

Errors of SQLAlchemy and of the driver end here: outside there is only `MemoryUnavailable`. No message holds a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolEmpty

from kagura_kernel.domain.errors.memory import MemoryUnavailable

LOCK_SECONDS = 5.0
"""How long one call waits for another process that writes."""

_DIALECT = "postgresql+psycopg"
_CONNECT_SECONDS = "5"
_STATEMENT_SECONDS = 60.0
_KEPT, _MORE = 2, 14
_HARMLESS = frozenset({"host", "port", "dbname"})
_CALL_IT = "Write postgresql://user@host/database"
_OUR_SETTINGS = (
    "SET timezone = 'UTC'",
    f"SET lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms'",
    f"SET statement_timeout = '{_STATEMENT_SECONDS * 1000:.0f}ms'",
)
# What the server says by its five characters, what to tell of it, and what to do.
_STATES = {
    "28P01": ("it refuses the password", "Correct the password in its URL or in ~/.pgpass"),
    "28000": ("it refuses this user", "Name another user in its URL, or allow this one in the server's pg_hba.conf"),
    "3D000": ("there is no such database", "Create it with `createdb`, or name another one"),
    "42501": ("this user may not do that there", "Grant it CREATE on the schema, and what its tables need"),
    "25006": ("it is read-only", "Name the primary server, not a replica"),
    "53100": ("the server's disk is full", "Make room there"),
    "53300": ("it has too many connections", "Wait, or raise max_connections there"),
    "57P03": ("it is starting or stopping", "Wait a moment, then try again"),
    "57P01": ("it was shut down", "Start it, then try again"),
    "57014": (f"it took longer than {_STATEMENT_SECONDS:g} s", "Ask for less, or see what else the server is doing"),
    "55P03": (
        f"another process has been writing to it for more than {LOCK_SECONDS:g} s",
        "Wait for that one, then try again",
    ),
    "40P01": ("two processes wrote to it crosswise", "Try again"),
    "42P01": ("its tables are gone", "Open it again to make them; what was in them is lost"),
}
_NO_ROUTE = "Start the server, or correct the host and the port in its URL"


class Server:
    """One database."""

    def __init__(self, url: str) -> None:
        """Nothing is connected.

        Raises:
            MemoryUnavailable: it is no URL of PostgreSQL, or the driver is not installed.
        """
        parsed = _parsed(url)
        self.where = _without_password(parsed)  # Its URL without a password
        if "connect_timeout" not in parsed.query:
            parsed = parsed.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
        self._closed = False
        # A server that converts nothing would otherwise tell bytes instead of text.
        parsed = parsed.update_query_dict({"client_encoding": "utf8"})
        try:
            self._engine = create_engine(
                parsed,
                pool_size=_KEPT,
                max_overflow=_MORE,
                pool_timeout=LOCK_SECONDS,
                pool_pre_ping=True,
                hide_parameters=True,
            )
        except SQLAlchemyError as error:
            raise _unavailable(self.where, "its URL cannot be understood", _CALL_IT) from error
        event.listen(self._engine, "connect", _set_up)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection with a transaction that is committed at the end of the block, and undone when it fails.

        Raises:
            MemoryUnavailable: the server cannot be reached, or refuses.
        """
        if self._closed:
            raise _unavailable(self.where, "it was closed", "Open it again")
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            why, advice = _why(error)
            # Not chained where the driver speaks: it may repeat the URL that it was given.
            raise _unavailable(self.where, why, advice) from None

    def unavailable(self, why: str, advice: str) -> MemoryUnavailable:
        """An error about this database."""
        return _unavailable(self.where, why, advice)

    def close(self) -> None:
        """Give every connection back; may be called twice."""
        self._closed = True
        self._engine.dispose()


def _unavailable(where: str, why: str, advice: str) -> MemoryUnavailable:
    return MemoryUnavailable(where, why, f"{advice}.")


def _set_up(connection: Any, _record: object) -> None:
    for setting in _OUR_SETTINGS:
        connection.execute(setting)
    connection.commit()


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not chained: the error would repeat the URL.
        raise _unavailable("the given URL", "it is no URL", _CALL_IT) from None
    where = _without_password(parsed)
    if parsed.drivername not in {"postgres", "postgresql", _DIALECT}:
        raise _unavailable(where, f"{parsed.drivername!r} is no scheme of PostgreSQL", _CALL_IT)
    if find_spec("psycopg") is None:
        advice = "Install it: pip install 'kagura-kernel[postgres]'"
        raise _unavailable(where, "PostgreSQL needs one more package", advice)
    return parsed.set(drivername=_DIALECT)


def _without_password(url: URL) -> str:
    place = {name: value for name, value in url.query.items() if name in _HARMLESS}
    bare = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, place)
    return bare.render_as_string()


def _why(error: SQLAlchemyError) -> tuple[str, str]:
    if isinstance(error, PoolEmpty):
        return "too many threads of this process use it at once", "Wait, or use fewer"
    cause = error.orig if isinstance(error, DBAPIError) else None
    words = " ".join(str(cause or error).split())
    state = getattr(cause, "sqlstate", None) or _state_in(words)
    if state in _STATES:
        return _STATES[state]
    if isinstance(error, DBAPIError) and (state is None or error.connection_invalidated):
        return words.rstrip(". "), _NO_ROUTE
    return words.rstrip(". "), "See the server's log"


def _state_in(words: str) -> str | None:
    """What failed while connecting has no code, only words, in the language of the server where it is not English."""
    told = {
        "password authentication failed": "28P01",
        "no password supplied": "28P01",
        "no pg_hba.conf entry": "28000",
        "role ": "28000",
        "too many clients": "53300",
        "starting up": "57P03",
        "shutting down": "57P03",
    }
    if "database" in words and "does not exist" in words:
        return "3D000"
    return next((state for part, state in told.items() if part in words), None)
