"""A PostgreSQL database that can only be read.

A statement is declared as a cursor in a transaction that is READ ONLY: the server takes nothing there but one query,
and nothing in it may write. The connection leads to the jail's own loopback, where the membrane signs in; no password
is here, and none is asked for.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

from .arguments import shown
from .database import collect
from .faults import ConfigRefused, DatabaseUnavailable, NotFound, PluginFault, QueryFailed, QueryRefused, QueryTimeout

_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)@)?(?P<host>[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})"
    r"(?:/(?P<database>[^/?#]*))?(?:\?[^#]*)?",
    re.ASCII,
)
_NO_CLIENT = "This jail has no client for PostgreSQL: psycopg is missing from the Python that it runs with."
_MILLISECONDS = 1_000
_CONNECT = 5
_MARGIN = 2.0
"""Seconds that a server has beyond its own timeout before nobody waits for it any more."""
_MAX_TEXT = 500

_TABLES = """
SELECT n.nspname, c.relname, CASE WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND n.nspname NOT LIKE 'pg\\_temp\\_%' AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname
"""
_BOUNDS = """
SELECT pg_catalog.set_config('statement_timeout', %s, true), pg_catalog.set_config('lock_timeout', %s, true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', %s, true)
"""
_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, EXISTS (
  SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


class PostgresDatabase:
    """One database of a PostgreSQL server.

    One statement may take so many seconds. Raises `ConfigRefused`: it is no such URL, or has a password in it;
    `DatabaseUnavailable`: this jail has no client for PostgreSQL.
    """

    def __init__(self, url: str, *, seconds: float = 10.0) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise ConfigRefused("The URL must be postgresql://USER@HOST:PORT/DATABASE, and no password in it.")
        self._place = {
            "host": found["host"],
            "port": found["port"],
            "user": unquote(found["user"] or ""),
            "dbname": unquote(found["database"] or found["user"] or ""),
        }
        self._seconds = seconds
        # Told now, to whoever enables the plugin; loaded with the first query, because that takes a while.
        if find_spec("psycopg") is None:
            raise DatabaseUnavailable(_NO_CLIENT)

    def query(self, sql: str, parameters: list[Any], most: int) -> dict[str, Any]:
        """See `Database`; placeholders are `$1`, `$2` and so on."""
        return self._rows(sql, parameters, most)

    def tables(self) -> dict[str, Any]:
        """See `Database`."""
        found = self._rows(_TABLES, [], 1_000)
        tables = [{"schema": schema, "name": name, "kind": kind} for schema, name, kind in found["rows"]]
        return {"tables": tables, "complete": found["complete"]}

    def columns(self, table: str) -> dict[str, Any]:
        """See `Database`; a name with capitals or signs is written in double quotes, as in SQL."""
        try:
            found = self._rows(_COLUMNS, [table], 1_000)
        except QueryFailed:
            # A text that can be the name of nothing.
            found = {"rows": []}
        if not found["rows"]:
            raise NotFound(f"There is no table {shown(table)}.")
        names = ("name", "type", "nullable", "primary_key")
        return {"columns": [dict(zip(names, row, strict=True)) for row in found["rows"]]}

    def _rows(self, sql: str, parameters: list[Any], most: int) -> dict[str, Any]:
        client = _client()
        with self._connected() as connection, client.RawServerCursor(connection, "kagura_rows") as cursor:
            cursor.itersize = most + 1
            # A statement with parameters, or declared in the extended protocol, can be no more than one.
            cursor.execute(sql, parameters)
            names = [column.name for column in cursor.description or ()]
            return collect(names, cursor.fetchmany(most + 1), most)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        client = _client()
        milliseconds = str(int(self._seconds * _MILLISECONDS))
        try:
            with client.connect(
                **self._place,
                # The way is the jail's own loopback; what lies behind the membrane has TLS of its own.
                sslmode="disable",
                gssencmode="disable",
                # What is given here is not looked for in the environment or in a file.
                password="",
                passfile="/dev/null/none",
                options="",
                connect_timeout=_CONNECT,
                tcp_user_timeout=int((self._seconds + _MARGIN) * _MILLISECONDS),
                application_name="kagura sql-read",
            ) as connection:
                connection.read_only = True
                # For this transaction alone, and before the caller's: a statement's time is taken at its start.
                with _cut_after(connection.fileno(), self._seconds + _MARGIN):
                    connection.execute(_BOUNDS, [milliseconds] * 3)
                    yield connection
                    connection.rollback()
        except client.Error as error:
            raise _fault(error) from None


@contextmanager
def _cut_after(descriptor: int, seconds: float) -> Iterator[None]:
    """A connection that lasts longer than the block may is cut, and whoever waits for it is told so."""
    # Of its own, so that it never names another connection.
    with socket.socket(fileno=os.dup(descriptor)) as held:
        timer = threading.Timer(seconds, _cut, [held])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _cut(held: socket.socket) -> None:
    with suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)


def _client() -> Any:
    try:
        import psycopg
    except ImportError:
        raise DatabaseUnavailable(_NO_CLIENT) from None
    return psycopg


def _fault(error: Any) -> PluginFault:
    state = error.sqlstate or ""
    text = (error.diag.message_primary or "").strip()[:_MAX_TEXT]
    if state == "57014":
        return QueryTimeout("The statement took too long and was stopped.")
    if state in {"25006", "0A000"} or "multiple commands" in text:
        return QueryRefused(f"The statement does more than read, or is more than one: {text}.")
    if state == "42601":
        return QueryFailed(f"{text}. Only one query (SELECT, VALUES, TABLE, WITH) is taken.")
    if not state or state.startswith(("08", "28", "53", "57P", "3D")):
        return DatabaseUnavailable("Nobody answers for the configured database, or it does not take this user.")
    return QueryFailed(f"{text}.")
