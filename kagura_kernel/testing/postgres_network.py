"""A PostgreSQL server on this machine's loopback for tests: TLS where it is asked for, and users of every kind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from kagura_kernel.testing.postgres import PostgresServer, postgres_server
from kagura_kernel.testing.tls import certificate

PASSWORD = "pa:ss/wörd ½ @#?%"  # noqa: S105 - of users that live as long as a test; every letter of it is awkward

WAYS = {
    "scram_user": "scram-sha-256",
    "md5_user": "md5",
    "clear_user": "password",
    "trust_user": "trust",
    "tls_user": "scram-sha-256",
}
"""Users, each with how the server lets it in; `tls_user` comes in by TLS alone. Theirs is the database of their name.

Each may write there, and has a table `numbers` with the column `n` from 1 to 1000.
"""


@dataclass(frozen=True, slots=True)
class NetworkPostgres:
    """A running server.

    Attributes:
        server: The server itself, for what its own superuser may do.
        port: On 127.0.0.1.
    """

    server: PostgresServer
    port: int

    def url(self, user: str, password: str = PASSWORD, host: str = "127.0.0.1", **parameters: str) -> str:
        """The URL of a user's database."""
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{user}{secret}@{host}:{self.port}/{user}{f'?{query}' if query else ''}"

    def ask(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """What a statement of the superuser gives; nothing for one that gives no rows."""
        with _as_superuser(self.server, database) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres_network(tls: bool = True) -> Iterator[NetworkPostgres]:
    """A server with the users of `WAYS`, for the length of a block.

    Args:
        tls: Whether it speaks TLS, with a certificate of `testing.tls` for `localhost`.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "hba_file": "HOME/hba.conf",
        "password_encryption": "scram-sha-256",
    }
    if tls:
        settings |= {"ssl": "on", "ssl_cert_file": "HOME/server.pem", "ssl_key_file": "HOME/server.pem"}
    hosts = [
        f"{'hostssl' if user == 'tls_user' else 'host'} all {user} 127.0.0.1/32 {way}" for user, way in WAYS.items()
    ]
    files = {
        "hba.conf": "\n".join(["local all all trust", *hosts, ""]).encode(),
        "server.pem": certificate("localhost"),
    }
    with postgres_server(settings, files) as server:
        running = NetworkPostgres(server, port)
        for user, way in WAYS.items():
            _add(running, user, way)
        yield running


def _add(running: NetworkPostgres, user: str, way: str) -> None:
    encryption = "md5" if way == "md5" else "scram-sha-256"
    with _as_superuser(running.server, "postgres") as connection:
        connection.execute(sql.SQL("SET password_encryption = {}").format(encryption))
        made = sql.SQL("CREATE USER {} PASSWORD {}").format(sql.Identifier(user), PASSWORD)
        connection.execute(made)
        connection.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(sql.Identifier(user)))
    table = f"CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS n; ALTER TABLE numbers OWNER TO {user}"
    running.ask(table, user)


def _as_superuser(server: PostgresServer, database: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(host=str(server.home), port=server.port, user="kagura", dbname=database, autocommit=True)
