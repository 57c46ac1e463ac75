"""Memories in a database that several machines share. Its tables begin with `kagura_memor`.

Errors of SQLAlchemy and of the driver end here: outside there is only `MemoryUnavailable`. No message holds a password.

How a database comes to today's tables: numbered steps, forward only, behind a lock that all processes share.

A step is never edited once it has been released; a change of the tables is a new step at the end.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, Connection, Row, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, TimeoutError as PoolEmpty

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors.memory import MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import (
    CAME_FROM,
    Draft,
    Edge,
    Erased,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Tier,
)
from kagura_kernel.domain.visible import is_whole
from kagura_kernel.memory.postgres.search import COLUMNS, INSERT, alive, memory_of_row, newest, row_of, search
from kagura_kernel.memory.store import (
    MEMORY_ID,
    Closing,
    check_edge,
    check_named,
    check_query,
    check_walk,
    descendants,
    memories_of,
    memory_of,
    walk,
)

LOCK_SECONDS = 5.0
"""How long one call waits for another process that writes."""

_DIALECT = "postgresql+psycopg"
_CONNECTING = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "tcp_user_timeout": "15000",
}
"""How long the driver waits for a server, also for one that vanished without hanging up; a URL may say otherwise."""
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
        # The driver is there once a URL was read.
        from kagura_kernel.journal.patience import be_patient

        self.where = _without_password(parsed)  # Its URL without a password
        self._closed = False
        # A server that converts nothing would otherwise tell bytes instead of text.
        parsed = parsed.set(query={**_CONNECTING, **parsed.query, "client_encoding": "utf8"})
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
        be_patient(self._engine)
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
    if "@" in f"{parsed.host}{parsed.database}":
        # What follows the first @ of a password would be shown as the place.
        raise _unavailable("the given URL", "its password has an @", "Write that as %40, or keep it in ~/.pgpass")
    where = _without_password(parsed)
    if parsed.drivername not in {"postgres", "postgresql", _DIALECT}:
        raise _unavailable(where, f"{parsed.drivername!r} is no scheme of PostgreSQL", _CALL_IT)
    if find_spec("psycopg") is None:
        advice = "Install it: pip install 'kagura-kernel[postgres]'"
        raise _unavailable(where, "PostgreSQL needs one more package", advice)
    return parsed.set(drivername=_DIALECT)


def _without_password(url: URL) -> str:
    place = {name: value for name, value in url.query.items() if name in _HARMLESS}
    scheme = "postgresql" if url.drivername == _DIALECT else url.drivername
    bare = URL.create(scheme, url.username, None, url.host, url.port, url.database, place)
    return bare.render_as_string()


def _why(error: SQLAlchemyError) -> tuple[str, str]:
    if isinstance(error, PoolEmpty):
        return "too many threads of this process use it at once", "Wait, or use fewer"
    cause = error.orig if isinstance(error, DBAPIError) else None
    # The driver asks back, and what to do is said by us.
    words = re.sub(r" Is the server running [^?]*\?", "", " ".join(str(cause or error).split()))
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


# The server uses the index of threads only where a condition says that there is one.
_BESIDE = """SELECT n.{what} FROM kagura_memories n WHERE n.scope = m.scope AND n.thread = m.thread AND n.thread <> ''
    AND n.forgotten_at IS NULL AND (n.at, n.seq) {side} (m.at, m.seq) ORDER BY n.at {order}, n.seq {order} LIMIT 1"""
_BEFORE, _AFTER = {"side": "<", "order": "DESC"}, {"side": ">", "order": "ASC"}

_TOUCHED = f"""SELECT m.seq FROM kagura_memories m WHERE m.seq = ANY(:rows) AND m.thread <> ''
    UNION SELECT b.seq FROM kagura_memories m, LATERAL ({_BESIDE.format(what="seq", **_BEFORE)}) AS b
        WHERE m.seq = ANY(:rows) AND m.thread <> ''
    UNION SELECT b.seq FROM kagura_memories m, LATERAL ({_BESIDE.format(what="seq", **_AFTER)}) AS b
        WHERE m.seq = ANY(:rows) AND m.thread <> ''"""  # noqa: S608 - words of ours
_JOIN = f"""UPDATE kagura_memories m SET search = m.own
    || coalesce(setweight(({_BESIDE.format(what="own", **_BEFORE)}), 'D'), '')
    || coalesce(setweight(({_BESIDE.format(what="own", **_AFTER)}), 'D'), '')
    WHERE m.seq = ANY(:rows)"""  # noqa: S608 - likewise


def lock_threads(connection: Connection, rows: Sequence[int]) -> None:
    """Let nobody else change which turns stand beside each other in the threads of these rows."""
    connection.execute(
        text(
            """SELECT pg_advisory_xact_lock(hashtextextended(place, 7)) FROM (
                SELECT DISTINCT scope || E'\\n' || thread AS place FROM kagura_memories
                WHERE seq = ANY(:rows) AND thread <> '' ORDER BY 1) AS places"""
        ),
        {"rows": list(rows)},
    )


def join_neighbours(connection: Connection, rows: Sequence[int]) -> None:
    """Let these rows be found by the words of the turns beside them, and those by theirs, as they stand."""
    lock_threads(connection, rows)
    touched = connection.execute(text(_TOUCHED), {"rows": list(rows)}).scalars().all()
    if touched:
        connection.execute(text(_JOIN), {"rows": list(touched)})


def edges_of(connection: Connection, ids: Sequence[str], types: Sequence[str] = ()) -> list[Edge]:
    """The edges that begin or end at any of these."""
    only = "AND type = ANY(:types)" if types else ""
    rows = connection.execute(
        text(
            f"""SELECT source, target, type, weight FROM kagura_memory_edges
            WHERE (source = ANY(:ids) OR target = ANY(:ids)) {only} ORDER BY source, target, type"""  # noqa: S608 - as above
        ),
        {"ids": list(ids), "types": list(types)} if types else {"ids": list(ids)},
    )
    return [Edge(*row) for row in rows]


def children_of(connection: Connection, ids: Sequence[str]) -> list[str]:
    """What came from any of these."""
    sql = text("SELECT source FROM kagura_memory_edges WHERE target = ANY(:ids) AND type = :type ORDER BY source")
    return list(connection.execute(sql, {"ids": list(ids), "type": CAME_FROM}).scalars())


def visible(connection: Connection, ids: Sequence[str], now: datetime) -> Collection[str]:
    """Which of these can be recalled."""
    where, values = alive(now)
    sql = text(f"SELECT id FROM kagura_memories WHERE id = ANY(:ids) AND {where}")  # noqa: S608 - a condition of ours
    return set(connection.execute(sql, {"ids": list(ids), **values}).scalars())


# One number for all memories of a database: those in other schemas wait a little, and nothing worse.
_LOCK = 0x6B61677572610002

_STEP_1 = (
    "CREATE TABLE kagura_memory_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())",
    """CREATE TABLE kagura_memories (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
        author TEXT NOT NULL, by_name TEXT NOT NULL, run_id TEXT NOT NULL, uri TEXT NOT NULL, tier TEXT NOT NULL,
        type TEXT NOT NULL, summary TEXT NOT NULL, tags TEXT[] NOT NULL, importance DOUBLE PRECISION NOT NULL,
        scope TEXT NOT NULL, thread TEXT NOT NULL, speaker TEXT NOT NULL, at TIMESTAMPTZ NOT NULL,
        created_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ, pinned BOOLEAN NOT NULL, data TEXT NOT NULL,
        promoted_by TEXT NOT NULL DEFAULT '', helped INTEGER NOT NULL DEFAULT 0, misled INTEGER NOT NULL DEFAULT 0,
        forgotten_at TIMESTAMPTZ, own TSVECTOR NOT NULL, search TSVECTOR NOT NULL, folded TEXT NOT NULL)""",
    "CREATE INDEX kagura_memories_search ON kagura_memories USING gin (search)",
    "CREATE INDEX kagura_memories_at ON kagura_memories (at DESC, seq DESC) WHERE forgotten_at IS NULL",
    "CREATE INDEX kagura_memories_thread ON kagura_memories (scope, thread, at, seq) WHERE thread <> ''",
    "CREATE INDEX kagura_memories_pinned ON kagura_memories (scope) WHERE pinned",
    # Words of which every row has one cost nothing to leave out, once the server knows which they are.
    "ALTER TABLE kagura_memories ALTER COLUMN search SET STATISTICS 200",
    """CREATE TABLE kagura_memory_edges (
        source TEXT NOT NULL REFERENCES kagura_memories (id) ON DELETE CASCADE,
        target TEXT NOT NULL REFERENCES kagura_memories (id) ON DELETE CASCADE,
        type TEXT NOT NULL, weight DOUBLE PRECISION NOT NULL, PRIMARY KEY (source, target, type))""",
    "CREATE INDEX kagura_memory_edges_target ON kagura_memory_edges (target)",
)
_STEPS = (_STEP_1,)
KNOWN_VERSION = len(_STEPS)
"""The newest tables that this version of the package can use."""

_TRIGRAMS = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX IF NOT EXISTS kagura_memories_folded ON kagura_memories USING gin (folded gin_trgm_ops)",
)
_NO_RIGHT = frozenset({"42501", "58P01", "0A000", "42704"})
"""No right to make the extension or the index, the extension is not on the server, or not in this schema's reach."""


def migrate(server: Server) -> bool:
    """Bring the database to `KNOWN_VERSION`; several processes may do it at once.

    Returns:
        Whether words with a slip can be found too: by trigrams, where the extension `pg_trgm` may be made.

    Raises:
        MemoryUnavailable: it cannot be reached or written, or a newer version of the package wrote it.
    """
    with server.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise server.unavailable(f"its encoding is {encoding}", "Create the database with `createdb -E UTF8`")
        found = _version(connection)
        if found > KNOWN_VERSION:
            why = f"its tables have version {found}, and this package knows {KNOWN_VERSION}"
            raise server.unavailable(why, "Upgrade kagura-kernel")
        for number in range(found, KNOWN_VERSION):
            for statement in _STEPS[number]:
                connection.execute(text(statement))
            connection.execute(text("INSERT INTO kagura_memory_version (version) VALUES (:n)"), {"n": number + 1})
        return _trigrams(connection)


def _version(connection: Connection) -> int:
    if connection.execute(text("SELECT to_regclass('kagura_memory_version')")).scalar_one() is None:
        return 0
    return int(connection.execute(text("SELECT max(version) FROM kagura_memory_version")).scalar_one() or 0)


def _trigrams(connection: Connection) -> bool:
    """Whether there are trigrams; made where they can be, and done without where they cannot."""
    ready = text(
        "SELECT to_regclass('kagura_memories_folded') IS NOT NULL"
        " AND to_regprocedure('word_similarity(text, text)') IS NOT NULL"
    )
    if connection.execute(ready).scalar_one():
        return True
    for statement in _TRIGRAMS:
        try:
            with connection.begin_nested():
                connection.execute(text(statement))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _NO_RIGHT:
                raise
            return False
    return bool(connection.execute(ready).scalar_one())


_BATCH = 500
_WORTH_ANALYSING = 1_000
_MAY_WRITE = """SELECT bool_and(has_table_privilege(place, may))
    FROM unnest(ARRAY['kagura_memories', 'kagura_memory_edges']) AS place,
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS may"""
_TIDY = """SELECT gin_clean_pending_list(oid) FROM pg_class
    WHERE oid = to_regclass('kagura_memories_search') AND pg_has_role(relowner, 'USAGE')"""
_SYSTEM = SystemClock()


class PostgresMemory(Closing):
    """`MemoryStore` in the database that a URL names; its tables are made when it is first used.

    Any thread may use it. Words with a slip are found too where the extension `pg_trgm` is there or may be made;
    `finds_slips` says so after `check`.
    """

    def __init__(self, url: str, *, clock: Clock = _SYSTEM) -> None:
        """Nothing is connected.

        Args:
            url: Such as `postgresql://user@host/database`.
            clock: The time of its memories.

        Raises:
            MemoryUnavailable: it is no URL of PostgreSQL, or the driver is not installed.
        """
        self._server = Server(url)
        self.where = self._server.where  # Its URL without a password
        self.finds_slips: bool | None = None  # Whether they are; None before it was first used
        self._clock = clock
        self._opening = threading.Lock()

    def check(self) -> None:
        """Return when it can be read and written."""
        asked = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
        with self._server.transaction() as connection:
            if connection.execute(text(asked)).scalar_one():
                raise self._server.unavailable("it is read-only", "Name the primary server, not a replica")
        with self._transaction() as connection:
            if not connection.execute(text(_MAY_WRITE)).scalar_one():
                advice = "Grant it SELECT, INSERT, UPDATE and DELETE on kagura_memories and kagura_memory_edges"
                raise self._server.unavailable("this user may not write its tables", advice)

    def remember(self, draft: Draft) -> Memory:
        """Keep one; it is durable as far as the server's `synchronous_commit` is."""
        memory = memory_of(draft, self._clock.now())
        with self._transaction() as connection:
            self._insert(connection, [memory])
            return self._one(connection, memory.id)

    def remember_many(self, drafts: Iterable[Draft]) -> Sequence[str]:
        """Keep many in one transaction."""
        memories = memories_of(drafts, self._clock.now())
        if not memories:
            return []
        with self._transaction() as connection:
            for start in range(0, len(memories), _BATCH):
                self._insert(connection, memories[start : start + _BATCH])
        if len(memories) >= _WORTH_ANALYSING:
            self._settle()
        return [memory.id for memory in memories]

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits best."""
        check_query(query)
        with self._transaction() as connection:
            if not query.text.strip():
                return newest(connection, query, self._clock.now())
            return search(connection, query, self._clock.now(), trigrams=bool(self.finds_slips))

    def reference(self, memory_id: str) -> Memory:
        """One by its id."""
        with self._transaction() as connection:
            return self._one(connection, memory_id)

    def pinned(self, scopes: Sequence[str], tier: Tier | None = None) -> Sequence[Memory]:
        """What runs in these scopes start with."""
        where, values = alive(self._clock.now())
        values["scopes"] = [scope for scope in scopes if _is_text(scope)]
        if tier is not None:
            where += " AND tier = :tier"
            values["tier"] = tier.value
        sql = f"""SELECT {COLUMNS} FROM kagura_memories WHERE pinned AND {where}
            AND scope = ANY(CAST(:scopes AS text[])) ORDER BY importance DESC, at DESC, seq"""  # noqa: S608 - conditions of ours
        with self._transaction() as connection:
            return [memory_of_row(row) for row in connection.execute(text(sql), values)]

    def create_edge(self, edge: Edge) -> None:
        """Join two memories."""
        check_edge(edge)
        sql = """INSERT INTO kagura_memory_edges (source, target, type, weight)
            VALUES (:source, :target, :type, :weight)
            ON CONFLICT (source, target, type) DO UPDATE SET weight = excluded.weight"""
        with self._transaction() as connection:
            # Held in one order by everybody, so that nobody erases either end meanwhile and nobody waits crosswise.
            for end in sorted((edge.source, edge.target)):
                self._row(connection, end, "FOR KEY SHARE")
            values = {"source": edge.source, "target": edge.target, "type": edge.type, "weight": edge.weight}
            connection.execute(text(sql), values)

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What lies around."""
        check_walk(depth, types, most)
        now = self._clock.now()
        with self._transaction() as connection:
            self._one(connection, memory_id)
            walked = walk(
                memory_id,
                lambda ids: edges_of(connection, ids, types),
                lambda ids: visible(connection, ids, now),
                depth=depth,
                most=most,
            )
            sql = f"SELECT {COLUMNS} FROM kagura_memories WHERE id = ANY(:ids)"  # noqa: S608 - names of columns alone
            rows = connection.execute(text(sql), {"ids": list(walked.ids)})
            found = {memory.id: memory for memory in map(memory_of_row, rows)}
            return Neighbourhood(tuple(found[one] for one in walked.ids if one in found), walked.edges)

    def forget(self, memory_id: str) -> Memory:
        """Take it out of what is recalled."""
        return self._hide(memory_id, "coalesce(forgotten_at, :now)", now=self._clock.now())

    def restore(self, memory_id: str) -> Memory:
        """Undo `forget`."""
        return self._hide(memory_id, "NULL")

    def erase(self, memory_id: str, *, cascade: bool = False) -> Erased:
        """Remove it for good; its words leave the rows of its neighbours too."""
        with self._transaction() as connection:
            self._row(connection, memory_id, "FOR UPDATE")
            lost = descendants(memory_id, lambda ids: children_of(connection, ids)) if cascade else (memory_id,)
            held = "SELECT seq FROM kagura_memories WHERE id = ANY(:ids) ORDER BY seq FOR UPDATE"
            rows = connection.execute(text(held), {"ids": list(lost)}).scalars().all()
            lock_threads(connection, rows)
            edges = len(edges_of(connection, lost))
            hidden = "UPDATE kagura_memories SET forgotten_at = :now WHERE seq = ANY(:rows)"
            connection.execute(text(hidden), {"now": self._clock.now(), "rows": list(rows)})
            join_neighbours(connection, rows)
            connection.execute(text("DELETE FROM kagura_memories WHERE seq = ANY(:rows)"), {"rows": list(rows)})
            return Erased(lost, edges)

    def pin(self, memory_id: str, *, on: bool = True) -> Memory:
        """Let every run start with it, or no longer."""
        return self._change(memory_id, "pinned = :on", on=on)

    def feedback(self, memory_id: str, *, helped: bool) -> Memory:
        """It helped or misled."""
        return self._change(memory_id, "helped = helped + 1" if helped else "misled = misled + 1")

    def promote(self, memory_id: str, *, by: str) -> Memory:
        """It may be trusted."""
        check_named("name", by)
        return self._change(memory_id, "tier = :tier, promoted_by = :by", tier=Tier.TRUSTED.value, by=by)

    def demote(self, memory_id: str) -> Memory:
        """It may not be trusted."""
        return self._change(memory_id, "tier = :tier, promoted_by = ''", tier=Tier.QUARANTINE.value)

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        where, values = alive(self._clock.now())
        sql = f"""SELECT count(*) FILTER (WHERE {where}), count(*) FILTER (WHERE {where} AND tier = :quarantine),
            count(*) FILTER (WHERE forgotten_at IS NOT NULL), (SELECT count(*) FROM kagura_memory_edges)
            FROM kagura_memories"""  # noqa: S608 - a condition of ours
        with self._transaction() as connection:
            row = connection.execute(text(sql), {**values, "quarantine": Tier.QUARANTINE.value}).one()
            return MemoryCounts(*row)

    def export(self) -> Iterator[Memory | Edge]:
        """What can be recalled at the moment of the first step, then its edges."""
        where, values = alive(self._clock.now())
        ours = f"SELECT {COLUMNS} FROM kagura_memories WHERE {where} ORDER BY seq"  # noqa: S608 - as above
        joined = f"""SELECT e.source, e.target, e.type, e.weight FROM kagura_memory_edges e
            WHERE e.source IN (SELECT id FROM kagura_memories WHERE {where})
            AND e.target IN (SELECT id FROM kagura_memories WHERE {where}) ORDER BY 1, 2, 3"""  # noqa: S608 - as above
        with self._transaction() as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            streamed = connection.execution_options(yield_per=_BATCH)
            for row in streamed.execute(text(ours), values):
                yield memory_of_row(row)
            for row in connection.execute(text(joined), values).all():
                yield Edge(*row)

    def close(self) -> None:
        """Give every connection back; may be called twice."""
        self._server.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self.finds_slips is None:
            with self._opening:
                if self.finds_slips is None:
                    self.finds_slips = migrate(self._server)
        with self._server.transaction() as connection:
            yield connection

    def _settle(self) -> None:
        """Do at once what the server would do within a minute or so, and what slows every recall until then."""
        with self._transaction() as connection:
            # How common each word is has changed.
            connection.execute(text("ANALYZE kagura_memories"))
            # New words wait in a list that is read from end to end; only the owner of the tables may empty it.
            connection.execute(text(_TIDY))

    def _insert(self, connection: Connection, memories: Sequence[Memory]) -> None:
        connection.execute(text(INSERT), [row_of(memory) for memory in memories])
        turns = [memory.id for memory in memories if memory.thread]
        if turns:
            sql = text("SELECT seq FROM kagura_memories WHERE id = ANY(:ids)")
            join_neighbours(connection, connection.execute(sql, {"ids": turns}).scalars().all())

    def _hide(self, memory_id: str, moment: str, **values: object) -> Memory:
        with self._transaction() as connection:
            rows = [self._row(connection, memory_id, "")]
            lock_threads(connection, rows)
            changed = self._changed(connection, memory_id, f"forgotten_at = {moment}", values)
            join_neighbours(connection, rows)
            return changed

    def _change(self, memory_id: str, what: str, **values: object) -> Memory:
        with self._transaction() as connection:
            return self._changed(connection, memory_id, what, values)

    def _changed(self, connection: Connection, memory_id: str, what: str, values: dict[str, Any]) -> Memory:
        sql = f"UPDATE kagura_memories SET {what} WHERE id = :id RETURNING {COLUMNS}"  # noqa: S608 - words of ours
        return memory_of_row(_found(connection, sql, memory_id, values))

    def _one(self, connection: Connection, memory_id: str) -> Memory:
        sql = f"SELECT {COLUMNS} FROM kagura_memories WHERE id = :id"  # noqa: S608 - names of columns alone
        return memory_of_row(_found(connection, sql, memory_id))

    def _row(self, connection: Connection, memory_id: str, lock: str) -> int:
        sql = f"SELECT seq FROM kagura_memories WHERE id = :id {lock}"  # noqa: S608 - a word of ours
        return int(_found(connection, sql, memory_id).seq)


def _found(connection: Connection, sql: str, memory_id: str, values: Mapping[str, object] | None = None) -> Row[Any]:
    """The one row that a statement about a memory gives; text that could be no id is not sent to the server."""
    row = None
    if MEMORY_ID.fullmatch(memory_id):
        row = connection.execute(text(sql), {**(values or {}), "id": memory_id}).one_or_none()
    if row is None:
        raise MemoryUnknown(memory_id)
    return row


def _is_text(value: str) -> bool:
    return "\0" not in value and is_whole(value)
