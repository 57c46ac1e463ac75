"""A journal on a PostgreSQL server, shared by several machines.

As with a file, what a run's end, an answer or a change says has reached the server's disk when it is stored, with all
rows before it; of the rest a server that loses its power may lose what came in its last second, and the chain still
holds. When the connection breaks in the very moment of a commit, a row may be stored although `JournalUnwritable` was
raised: too much evidence, never too little.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from kagura_kernel.domain.errors import ConfigurationError, NotInstalled
from kagura_kernel.journal.chain import END_STALLED, LOCK, NO_HEAD, Chain, ChainOnServer
from kagura_kernel.journal.database import Place
from kagura_kernel.journal.statements import BATCH, run_text

if TYPE_CHECKING:
    from psycopg import Connection as Driver

    from kagura_kernel.journal.patience import Patient

_DIALECT = "postgresql+psycopg"
_CONNECTING = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "tcp_user_timeout": "15000",
}
"""How long the driver waits for a server, unless the URL says otherwise: one that vanished without hanging up would
otherwise be waited for a quarter of an hour, or two hours where nothing was sent."""
LOCK_SECONDS = 5.0
_IDLE_SECONDS = 10.0
"""How long a writer may stall in the middle of a transaction before the server ends it: the others wait for it."""
_ANSWERED, _SHARED = "answered", "shared"
_AWAKE_SECONDS = 1.0
"""How long after its last answer a server is taken to be there."""
_HARMLESS = frozenset({"host", "port", "dbname"})
_STATES = {
    "55P03": f"another process has been writing to it for more than {LOCK_SECONDS:g} s",
    "42501": "this user has no right to it (an auditor's role only reads)",
    "25006": "it is read-only; name the primary server, not a replica",
    "53100": "the server's disk is full",
    "42P01": "its tables are gone",
    "23502": NO_HEAD,
}
_KEPT_IN = "`journal_url`, in PGPASSWORD or in ~/.pgpass"
# Whoever is not let in is told no five characters by the driver, but the server's words alone.
_TURNED_AWAY = {
    "password authentication failed": f"the server refuses the password; correct it in {_KEPT_IN}",
    "no password supplied": f"the server asks for a password, and there is none in {_KEPT_IN}",
}
_PREPARED = "prepared"
_PLACE = re.compile(r"%(?:\((\w+)\)s|%)")


class PostgresServer(Place):
    """The journal tables in the database that a URL names."""

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        # The driver is there once a URL was read.
        from kagura_kernel.journal.patience import be_patient

        self.where = without_password(parsed)
        parsed = parsed.set(query={**_CONNECTING, **parsed.query})
        self._engine = create_engine(parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        be_patient(self._engine)
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        self.errors = SQLAlchemyError, self._driver_error

    def connect(self, *, odd_bytes: bool = False) -> Connection:
        """A fresh connection."""
        del odd_bytes  # the server keeps no text that is not Unicode
        connection = self._engine.connect()
        words = (
            f"set_config('lock_timeout', '{LOCK_SECONDS * 1000:.0f}ms', false)",
            f"set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS * 1000:.0f}ms', false)",
            "set_config('synchronous_commit', 'off', false)",
            "to_regclass('journal_sharing') IS NOT NULL",
        )
        connection.info[_SHARED] = connection.exec_driver_sql(f"SELECT {', '.join(words)}").one()[-1]
        return connection

    def begin(self, connection: Connection, *, flush: bool, wait: bool = True) -> None:
        """Wait for the journal's lock, at most five seconds; the lock goes with the transaction."""
        # With statements prepared of its own, the driver would drop those of a `Batch` at every rollback.
        self._driver(connection).prepare_threshold = None
        words = ["BEGIN"]
        if flush:
            # As the server has it for everybody. A commit that reaches the disk takes those before it along.
            words.append("SET LOCAL synchronous_commit TO DEFAULT")
        if not wait:
            # Nothing at all would be no limit.
            words.append("SET LOCAL lock_timeout = '1ms'")
        words.append(f"SELECT pg_advisory_xact_lock({LOCK})")
        # One message, for every answer of a server costs a round trip.
        for text in words if BATCH in connection.info else ["; ".join(words)]:
            run_text(connection, text)

    @contextmanager
    def without_waiting(self, connection: Connection) -> Iterator[None]:
        """Every answer of a server costs a round trip: all are waited for together."""
        try:
            connection.info[BATCH] = batch = Batch(connection, self._driver(connection))
            yield
            batch.send()
        finally:
            connection.info.pop(BATCH, None)
        connection.info[_ANSWERED] = time.time()

    def is_awake(self, connection: Connection) -> bool:
        """Whether the server has answered just now, and has not hung up since.

        By the clock on the wall, which goes on while a laptop sleeps.
        """
        driver = self._driver(connection)
        if driver.closed or not 0 <= time.time() - connection.info.get(_ANSWERED, 0.0) < _AWAKE_SECONDS:
            return False
        poll = select.poll()
        poll.register(driver.fileno(), select.POLLIN)
        return not poll.poll(0)

    def chain(self, connection: Connection) -> Chain:
        """On the server; one that is shared has a way of its own."""
        return ChainOnServer(shared=connection.info[_SHARED])

    def begin_reading(self, connection: Connection) -> None:
        """Start a transaction that sees one moment."""
        self._driver(connection).bounded = False
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Nobody waits for it, however long it takes.
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")

    def in_transaction(self, connection: Connection) -> bool:
        """Whether a transaction is open; a connection that is gone holds none."""
        from psycopg.pq import TransactionStatus

        if connection.invalidated:
            return False
        status = self._driver(connection).info.transaction_status
        return status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}

    def mark(self, connection: Connection) -> str:
        """Which transactions of the server are over; those of its other databases count as well."""
        return str(connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one())

    def scour(self, connection: Connection) -> None:
        """Free what was deleted; the server writes over it, and keeps its own log as long as it is told to."""
        self._driver(connection).bounded = False
        connection.exec_driver_sql("VACUUM journal_checkpoints")

    def unblock(self) -> None:
        """Have a journal that is shared end whoever has locked it for long; others ask their administrator."""
        with suppress(SQLAlchemyError), self.connect() as connection:
            if connection.info[_SHARED]:
                connection.exec_driver_sql(f"SELECT {END_STALLED}()")

    def why(self, error: Exception) -> str:
        """The server's or the driver's own words, on one line."""
        cause = _cause(error)
        if (state := getattr(cause, "sqlstate", None)) in _STATES:
            return _STATES[state]
        if found := next((why for words, why in _TURNED_AWAY.items() if words in str(cause)), ""):
            return found
        # The driver asks back, and what to do is said by us.
        return re.sub(r" Is the server running [^?]*\?", "", " ".join(str(cause or error).split())).rstrip(". ")

    def is_lost(self, error: Exception) -> bool:
        """Whether the connection broke."""
        if isinstance(error, DBAPIError):
            return error.connection_invalidated
        # What the server did not say itself is said by the driver, of a connection that is no more.
        state = getattr(error, "sqlstate", None)
        return isinstance(error, self._driver_error) and (state is None or state[:2] in {"08", "57"})

    def is_busy(self, error: Exception) -> bool:
        """Whether another session holds the lock."""
        return getattr(_cause(error), "sqlstate", None) == "55P03"

    def is_damage(self, error: Exception) -> bool:
        """Whether the tables are gone."""
        return getattr(_cause(error), "sqlstate", None) == "42P01"

    def close(self) -> None:
        """Free the engine."""
        self._engine.dispose()

    @staticmethod
    def _driver(connection: Connection) -> Patient:
        from kagura_kernel.journal.patience import Patient

        driver = connection.connection.driver_connection
        assert isinstance(driver, Patient)  # noqa: S101 - the engine makes nothing else
        return driver


def _cause(error: Exception) -> BaseException | None:
    """The driver's own error."""
    return error.orig if isinstance(error, DBAPIError) else error


def parse_url(url: str) -> URL:
    """The URL with our driver named.

    Raises:
        ConfigurationError: it is no PostgreSQL URL.
        NotInstalled: the driver is missing.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        problem = "it is no URL; write postgresql://user@host/database"
        raise ConfigurationError("The journal's URL", [problem]) from error
    if "@" in f"{parsed.host}{parsed.database}":
        # What follows the first @ of a password would be shown as the place.
        problem = "write a password's @ as %40, or keep the password in ~/.pgpass"
        raise ConfigurationError("The journal's URL", [problem])
    if parsed.drivername not in {"postgres", "postgresql", _DIALECT}:
        raise ConfigurationError(
            f"The journal's URL {without_password(parsed)}",
            [f"{parsed.drivername!r} is not supported; write postgresql://user@host/database, or name a directory"],
        )
    if find_spec("psycopg") is None:
        raise NotInstalled(
            f"The journal's URL {without_password(parsed)}",
            ["PostgreSQL needs one more package: pip install 'kagura-kernel[postgres]'"],
        )
    return parsed.set(drivername=_DIALECT)


def without_password(url: URL) -> str:
    """The URL for messages, as a person writes it: neither a password nor options that may hold one."""
    place = {name: value for name, value in url.query.items() if name in _HARMLESS}
    scheme = "postgresql" if url.drivername == _DIALECT else url.drivername
    bare = URL.create(scheme, url.username, None, url.host, url.port, url.database, place)
    return bare.render_as_string()


class Batch:
    """Collects statements of one connection, and sends them when an answer is asked for, or at the end.

    The driver's own way to send several at once takes a system call for each, and each wakes the server: on a busy
    machine that is most of what a row costs. So each is prepared on the server once for a connection, and then they are
    sent as one text that only executes them.
    """

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
