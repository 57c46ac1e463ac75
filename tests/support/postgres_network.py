"""A PostgreSQL server on this machine's loopback for tests: TLS where it is asked for, and users of every kind.

A PostgreSQL server of our own for tests: a fresh data directory, a unix socket, gone afterwards.

Unless `postgres_network` asks for it, it listens on nothing else.

It ends with the process that started it, even if that one is killed. Its data is not synced to disk: it is thrown away.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.support.tls import certificate

_USER = "kagura"
_SYSTEM_USER = "postgres"
_PATIENCE = 90.0
_PORT = 5432


class PostgresServer:
    """A running server; make one with `postgres_server`."""

    def __init__(self, home: Path, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        self.home = home  # Its data directory, socket and log
        self._programs = programs
        self._settings = dict(settings or {})
        # What its socket is named for, and where it listens if it does
        self.port = int(self._settings.get("port", _PORT))
        self._numbers = count(1)
        self._idle: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = (home / "server.log").open("ab")

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"journal_{next(self._numbers)}"
        self._run("createdb", "-h", str(self.home), "-p", str(self.port), "-U", _USER, name)
        return self.url(name)

    def give_back(self, url: str) -> None:
        """Make a database that nobody uses any more as it was when it was new, for `lend`.

        Making one and deleting it takes hundreds of files each time, and a server with hundreds of databases takes
        minutes to be removed.
        """
        name = url.partition("?")[0].rpartition("/")[2]
        self._run(
            *("psql", "-h", str(self.home), "-p", str(self.port), "-U", _USER, "-d", name, "-q", "-X", "-c"),
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid();"
            "SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public",
        )
        self._idle.append(url)

    def lend(self) -> str:
        """The URL of an empty database; it goes to `give_back` where nothing but what is in it was changed."""
        return self._idle.pop() if self._idle else self.new_database()

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{_USER}@/{database}?host={self.home}&port={self.port}"

    def start(self) -> None:
        """Start it and wait until it takes connections; also after `stop`.

        Raises:
            RuntimeError: it did not come up; the text is its log.
        """
        if not (self.home / "data").exists():
            # With the server's user as the owner, who has to be the one.
            copying = ["cp", "-a", str(self._template()), str(self.home / "data")]
            subprocess.run(copying, capture_output=True, check=True)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": "60",
            "shared_buffers": "16MB",
            **self._settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [*_as_owner(dies_with_us=True), str(self._programs / "postgres"), "-D", str(self.home / "data"), *options],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
            start_new_session=True,
        )
        give_up = time.monotonic() + _PATIENCE
        while self._asked("pg_isready", "-q", "-h", str(self.home), "-p", str(self.port)) != 0:
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError((self.home / "server.log").read_text("utf-8", "replace"))
            time.sleep(0.05)

    def stop(self) -> None:
        """End it, breaking off all connections; may be called twice."""
        if self._process is None:
            return
        self._process.send_signal(2)  # PostgreSQL's "fast shutdown"
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def remove(self) -> None:
        """Stop it and delete its data."""
        self.stop()
        self._log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _template(self) -> Path:
        """A data directory that never ran; all servers of this user begin as a copy, which takes a fraction."""
        made = int((self._programs / "initdb").stat().st_mtime)
        version = self._programs.parent.name
        place = Path(tempfile.gettempdir()) / f"kagura-pg-template-{os.getuid()}-{version}-{made}"
        if not place.exists():
            fresh = self.home / "template"
            self._run("initdb", "-D", str(fresh), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync")
            try:
                fresh.rename(place)
            except OSError:
                # Another process was faster, or has its files elsewhere.
                return place if place.exists() else fresh
        return place

    def _run(self, program: str, *arguments: str) -> None:
        argv = [*_as_owner(), str(self._programs / program), *arguments]
        done = subprocess.run(argv, cwd=self.home, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def _asked(self, program: str, *arguments: str) -> int:
        argv = [str(self._programs / program), *arguments]
        return subprocess.run(argv, cwd=self.home, capture_output=True, check=False).returncode


def why_not() -> str:
    """Why no server can be started here, in a sentence that names the cure; empty when one can."""
    if _programs() is None:
        return "PostgreSQL is not installed: `apt-get install postgresql`"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv is not installed: `apt-get install util-linux`"
    return ""


@contextmanager
def postgres_server(
    settings: Mapping[str, str] | None = None, files: Mapping[str, bytes] | None = None
) -> Iterator[PostgresServer]:
    """A server for the length of a block.

    Args:
        settings: Its parameters; `HOME` in a value stands for its home.
        files: What lies in its home before it starts, by names.
    """
    programs = _programs()
    if programs is None:
        raise RuntimeError(why_not())
    # Directly below /tmp: the path of a socket may have only 107 bytes, and the server's user has to reach it.
    home = Path(tempfile.mkdtemp(prefix="kagura-pg-", dir="/tmp"))
    for name, content in (files or {}).items():
        (home / name).write_bytes(content)
        (home / name).chmod(0o600)
    if os.geteuid() == 0:
        owner = pwd.getpwnam(_SYSTEM_USER)
        for path in (home, *home.iterdir()):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    placed = {name: value.replace("HOME", str(home)) for name, value in (settings or {}).items()}
    server = PostgresServer(home, programs, placed)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _programs() -> Path | None:
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/opt/homebrew/opt").glob("postgresql*/bin")]
    if found := shutil.which("initdb"):
        places.append(Path(found).resolve().parent)
    usable = [place for place in places if (place / "initdb").exists()]
    return max(usable, key=lambda place: [int(number) for number in re.findall(r"\d+", str(place))], default=None)


def _as_owner(*, dies_with_us: bool = False) -> list[str]:
    """The server refuses to run as root."""
    if shutil.which("setpriv") is None:
        return []
    words = ["--pdeathsig=INT"] if dies_with_us else []
    if os.geteuid() == 0:
        words += [f"--reuid={_SYSTEM_USER}", f"--regid={_SYSTEM_USER}", "--init-groups"]
    return ["setpriv", *words, "--"] if words else []


PASSWORD = "pa:ss/wörd ½ @#?%"

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
    """A running server."""

    server: PostgresServer  # The server itself, for what its own superuser may do
    port: int  # On 127.0.0.1

    def url(self, user: str, password: str = PASSWORD, host: str = "127.0.0.1", **parameters: str) -> str:
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
