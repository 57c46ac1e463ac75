"""The journal's tables, as SQLAlchemy Core sees them today, and the steps by which an older journal comes to them.

`journal_events` is the truth and only grows; `journal_head` is its length and last hash. `journal_runs` and the
questions in `journal_approvals` are projections of the events, kept so that views are fast, and rebuilt from the events
by `views.rebuild`. Decisions and messages that another process leaves are the mailbox. `journal_heard` is what chats
have said, and `journal_posts` what was posted there, so that a restart forgets neither. `journal_leases` is the book of
credentials that have to be given back, and `journal_claims` what of somebody's quota is taken. `journal_checkpoints` is
where runs stood: no events, since what grew from a memory is erased with it.

A step is never edited once it has been released; a change of the tables is a new step at the end.

Each filling belongs to one step and is never edited once that has been released, so it names its tables itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TextClause,
    func,
    insert,
    inspect,
    select,
    text,
)

from kagura_kernel.domain.errors import JournalLocked, JournalTooNew, JournalUnreadable, JournalUnwritable
from kagura_kernel.journal.database import Database
from kagura_kernel.journal.encoding import FIRST, as_text, stamp
from kagura_kernel.journal.place import is_url, no_journal

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

metadata = MetaData()


def _where(condition: TextClause) -> dict[str, TextClause]:
    """Of an index over some of the rows, for readers: `migrations` makes it.

    As an option of a dialect the condition would have every process import that dialect, PostgreSQL's too.
    """
    return {"where": condition}


def _columns(kind: type[TypeEngine[Any]], names: str, *, nullable: bool = False) -> list[Column[Any]]:
    return [Column(name, kind, nullable=nullable) for name in names.split()]


_LEASES = text("kind = 'lease.changed'")
PLUGINS = text("kind IN ('plugin.audited', 'plugin.called', 'plugin.changed', 'plugin.seen')")
"""In exactly these words: only then the index of these rows is used."""
LEARNED = text("kind IN ('memory.changed', 'memory.seen', 'memory.written', 'trust.changed')")
"""Likewise."""

events = Table(
    "journal_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    *_columns(Text, "at kind run_id session_id body prev_hash hash"),
    Index("journal_events_run", "run_id", "seq"),
    Index("journal_events_session", "session_id", "seq"),
    # A run of a hundred thousand rows has a handful that are about its leases.
    Index("journal_events_leases", "run_id", "seq", info=_where(_LEASES)),
    # What is known about plugins is folded from a few hundred rows, however long the journal is.
    Index("journal_events_plugins", "kind", "seq", info=_where(PLUGINS)),
    # Likewise what was remembered, and which trust was earned.
    Index("journal_events_learned", "kind", "seq", info=_where(LEARNED)),
)

head = Table(
    "journal_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("rows", BigInteger, nullable=False),
    Column("last_hash", Text, nullable=False),
)

heartbeat = Table(
    "journal_heartbeat",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
)

version = Table(
    "journal_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", Text, nullable=False),
)

runs = Table(
    "journal_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("first_seq", BigInteger, nullable=False),
    *_columns(Text, "session_id flavour status task brain model box project owner user_name started_at"),
    Column("duration", Float),
    *_columns(Integer, "turns tool_calls changed_files"),
    *_columns(BigInteger, "input_tokens output_tokens cache_read_tokens cache_write_tokens"),
    *_columns(Float, "reported_usd computed_usd", nullable=True),
    *_columns(Text, "cost_source error_code brain_session notebook kernel_id cell_id"),
    Column("budget_usd", Float),
    Column("lineage", Text, nullable=False, server_default=""),
    Column("resumes", Text, nullable=False, server_default=""),
    *_columns(Float, "estimated_usd estimated_seconds", nullable=True),
    Column("verified", Integer),
    Column("untrusted", Integer, nullable=False, server_default="0"),
    Index("journal_runs_seq", "first_seq"),
    Index("journal_runs_session", "session_id", "first_seq"),
    Index("journal_runs_status", "status"),
    Index("journal_runs_notebook", "notebook", "first_seq"),
    Index("journal_runs_started", "started_at"),
)

approvals = Table(
    "journal_approvals",
    metadata,
    Column("id", Text, primary_key=True),
    *_columns(Text, "run_id session_id kind title detail reason arguments options call_id content_hash requested_at"),
    Column("deadline", Float, nullable=False),
    *_columns(Text, "deadline_at owner"),
    *_columns(Text, "verdict decided_by via decided_at answer", nullable=True),
    Column("lineage", Text, nullable=False, server_default="[]"),
    Index("journal_approvals_run", "run_id"),
    Index("journal_approvals_verdict", "verdict", "requested_at"),
    Index("journal_approvals_asked", "requested_at", "id"),
)

messages = Table(
    "journal_messages",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    *_columns(Text, "run_id word by_whom at"),
    Column("taken_at", Text),
    Index("journal_messages_run", "run_id"),
)

heard = Table(
    "journal_heard",
    metadata,
    Column("transport", Text, primary_key=True),
    Column("message_id", Text, primary_key=True),
    *_columns(Text, "thread session_id operator owner run_id taken_at"),
    Column("done_at", Text),
    Index("journal_heard_done", "transport", "done_at"),
)

posts = Table(
    "journal_posts",
    metadata,
    Column("transport", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    *_columns(Text, "thread run_id post_id token posted_at"),
    Column("closed_at", Text),
    Index("journal_posts_closed", "transport", "closed_at"),
)

checkpoints = Table(
    "journal_checkpoints",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Integer, primary_key=True),
    *_columns(Text, "session_id at body memories"),
    Index("journal_checkpoints_session", "session_id", "at"),
)

leases = Table(
    "journal_leases",
    metadata,
    Column("id", Text, primary_key=True),
    *_columns(Text, "lease_id run_id session_id owner provider scope state handle began_at expires_at dies_at"),
    *_columns(Float, "total_seconds spent_seconds"),
    *_columns(Integer, "renewals_left attempts"),
    *_columns(Text, "retry_at claimed_by claimed_until ended_at", nullable=True),
    Column("why", Text, nullable=False),
    Index("journal_leases_run", "run_id"),
    Index("journal_leases_state", "state"),
)

claims = Table(
    "journal_claims",
    metadata,
    Column("id", Text, primary_key=True),
    *_columns(Text, "run_id user_name owner"),
    Column("cpus", Float, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    *_columns(Text, "at until"),
)


DECISION = "verdict decided_by via decided_at answer"
"""The columns of a question that a decision sets."""

Then = Callable[[Connection, str], None]
"""What is given a connection, and the journal's place for messages."""

Filling = Callable[[Connection], None]

_CHUNK = 500
_STARTS = text(
    "SELECT e.seq AS seq, e.run_id AS run_id, e.body AS body FROM journal_runs r "
    "JOIN journal_events e ON e.seq = r.first_seq "
    "WHERE e.kind = 'run.started' AND e.seq > :after ORDER BY e.seq LIMIT :many"
)
_FILL = text(
    "UPDATE journal_runs SET notebook = :notebook, kernel_id = :kernel_id, cell_id = :cell_id, "
    "budget_usd = :budget_usd WHERE run_id = :run_id"
)
_PLACES = ("notebook", "kernel_id", "cell_id")


def fill_places(connection: Connection) -> None:
    """Where each run was asked for, and its budget. A row that is no event is left to `verify`."""
    after = 0
    while True:
        rows = connection.execute(_STARTS, {"after": after, "many": _CHUNK}).fetchall()
        told = [_places(row.body) | {"run_id": row.run_id} for row in rows]
        if told:
            connection.execute(_FILL, told)
        if len(rows) < _CHUNK:
            return
        after = rows[-1].seq


def _places(body: str) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {}
    budget = told.get("budget_usd")
    places = {name: as_text(value) if isinstance(value := told.get(name), str) else "" for name in _PLACES}
    return places | {"budget_usd": budget if isinstance(budget, int | float) else None}


_STEP_1 = (
    """CREATE TABLE journal_version (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)""",
    """CREATE TABLE journal_events (
        seq {bigkey}, at TEXT NOT NULL, kind TEXT NOT NULL, run_id TEXT NOT NULL, session_id TEXT NOT NULL,
        body TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL)""",
    """CREATE INDEX journal_events_run ON journal_events (run_id, seq)""",
    """CREATE INDEX journal_events_session ON journal_events (session_id, seq)""",
    """CREATE TABLE journal_head (id INTEGER PRIMARY KEY, rows BIGINT NOT NULL, last_hash TEXT NOT NULL)""",
    f"""INSERT INTO journal_head (id, rows, last_hash) VALUES (1, 0, '{FIRST}')""",  # noqa: S608 - a constant
    """CREATE TABLE journal_heartbeat (id INTEGER PRIMARY KEY, at TEXT NOT NULL)""",
    """INSERT INTO journal_heartbeat (id, at) VALUES (1, '')""",
    """CREATE TABLE journal_runs (
        run_id TEXT PRIMARY KEY, first_seq BIGINT NOT NULL, session_id TEXT NOT NULL, flavour TEXT NOT NULL,
        status TEXT NOT NULL, task TEXT NOT NULL, brain TEXT NOT NULL, model TEXT NOT NULL, box TEXT NOT NULL,
        project TEXT NOT NULL, owner TEXT NOT NULL, user_name TEXT NOT NULL, started_at TEXT NOT NULL,
        duration DOUBLE PRECISION, turns INTEGER NOT NULL, tool_calls INTEGER NOT NULL, changed_files INTEGER NOT NULL,
        input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cache_read_tokens BIGINT NOT NULL,
        cache_write_tokens BIGINT NOT NULL, reported_usd DOUBLE PRECISION, computed_usd DOUBLE PRECISION,
        cost_source TEXT NOT NULL, error_code TEXT NOT NULL, brain_session TEXT NOT NULL)""",
    """CREATE INDEX journal_runs_seq ON journal_runs (first_seq)""",
    """CREATE INDEX journal_runs_session ON journal_runs (session_id, first_seq)""",
    """CREATE INDEX journal_runs_status ON journal_runs (status)""",
    """CREATE TABLE journal_approvals (
        id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
        detail TEXT NOT NULL, reason TEXT NOT NULL, arguments TEXT NOT NULL, options TEXT NOT NULL,
        call_id TEXT NOT NULL, content_hash TEXT NOT NULL, requested_at TEXT NOT NULL,
        deadline DOUBLE PRECISION NOT NULL, deadline_at TEXT NOT NULL, owner TEXT NOT NULL,
        verdict TEXT, decided_by TEXT, via TEXT, decided_at TEXT, answer TEXT)""",
    """CREATE INDEX journal_approvals_run ON journal_approvals (run_id)""",
    """CREATE INDEX journal_approvals_verdict ON journal_approvals (verdict, requested_at)""",
    """CREATE TABLE journal_messages (
        id {autokey}, run_id TEXT NOT NULL, word TEXT NOT NULL, by_whom TEXT NOT NULL, at TEXT NOT NULL,
        taken_at TEXT)""",
    """CREATE INDEX journal_messages_run ON journal_messages (run_id)""",
)
_STEP_2 = (
    """CREATE TABLE journal_leases (
        id TEXT PRIMARY KEY, lease_id TEXT NOT NULL, run_id TEXT NOT NULL, session_id TEXT NOT NULL,
        owner TEXT NOT NULL, provider TEXT NOT NULL, scope TEXT NOT NULL, state TEXT NOT NULL, handle TEXT NOT NULL,
        began_at TEXT NOT NULL, expires_at TEXT NOT NULL, dies_at TEXT NOT NULL,
        total_seconds DOUBLE PRECISION NOT NULL, spent_seconds DOUBLE PRECISION NOT NULL,
        renewals_left INTEGER NOT NULL, attempts INTEGER NOT NULL, retry_at TEXT, claimed_by TEXT,
        claimed_until TEXT, ended_at TEXT, why TEXT NOT NULL)""",
    """CREATE INDEX journal_leases_run ON journal_leases (run_id)""",
    """CREATE INDEX journal_leases_state ON journal_leases (state)""",
)
_STEP_3 = (
    """ALTER TABLE journal_runs ADD COLUMN notebook TEXT NOT NULL DEFAULT ''""",
    """ALTER TABLE journal_runs ADD COLUMN kernel_id TEXT NOT NULL DEFAULT ''""",
    """ALTER TABLE journal_runs ADD COLUMN cell_id TEXT NOT NULL DEFAULT ''""",
    """ALTER TABLE journal_runs ADD COLUMN budget_usd DOUBLE PRECISION""",
    fill_places,
    """CREATE INDEX journal_runs_notebook ON journal_runs (notebook, first_seq)""",
    """CREATE INDEX journal_runs_started ON journal_runs (started_at)""",
    """CREATE INDEX journal_approvals_asked ON journal_approvals (requested_at, id)""",
    """CREATE INDEX journal_events_leases ON journal_events (run_id, seq) WHERE kind = 'lease.changed'""",
)
_STEP_4 = (
    """CREATE INDEX journal_events_plugins ON journal_events (kind, seq)
        WHERE kind IN ('plugin.audited', 'plugin.called', 'plugin.changed', 'plugin.seen')""",
)
_STEP_5 = (
    """ALTER TABLE journal_runs ADD COLUMN lineage TEXT NOT NULL DEFAULT ''""",
    """ALTER TABLE journal_runs ADD COLUMN resumes TEXT NOT NULL DEFAULT ''""",
    """ALTER TABLE journal_runs ADD COLUMN estimated_usd DOUBLE PRECISION""",
    """ALTER TABLE journal_runs ADD COLUMN estimated_seconds DOUBLE PRECISION""",
    """ALTER TABLE journal_runs ADD COLUMN verified INTEGER""",
    """ALTER TABLE journal_runs ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0""",
    """ALTER TABLE journal_approvals ADD COLUMN lineage TEXT NOT NULL DEFAULT '[]'""",
    """CREATE TABLE journal_checkpoints (
        run_id TEXT NOT NULL, step INTEGER NOT NULL, session_id TEXT NOT NULL, at TEXT NOT NULL, body TEXT NOT NULL,
        memories TEXT NOT NULL, PRIMARY KEY (run_id, step))""",
    """CREATE INDEX journal_checkpoints_session ON journal_checkpoints (session_id, at)""",
    """CREATE INDEX journal_events_learned ON journal_events (kind, seq)
        WHERE kind IN ('memory.changed', 'memory.seen', 'memory.written', 'trust.changed')""",
)
_STEP_6 = (
    """CREATE TABLE journal_heard (
        transport TEXT NOT NULL, message_id TEXT NOT NULL, thread TEXT NOT NULL, session_id TEXT NOT NULL,
        operator TEXT NOT NULL, owner TEXT NOT NULL, run_id TEXT NOT NULL, taken_at TEXT NOT NULL, done_at TEXT,
        PRIMARY KEY (transport, message_id))""",
    """CREATE INDEX journal_heard_done ON journal_heard (transport, done_at)""",
    """CREATE TABLE journal_posts (
        transport TEXT NOT NULL, subject TEXT NOT NULL, thread TEXT NOT NULL, run_id TEXT NOT NULL,
        post_id TEXT NOT NULL, token TEXT NOT NULL, posted_at TEXT NOT NULL, closed_at TEXT,
        PRIMARY KEY (transport, subject))""",
    """CREATE INDEX journal_posts_closed ON journal_posts (transport, closed_at)""",
)
_STEP_7 = (
    """CREATE TABLE journal_claims (
        id TEXT PRIMARY KEY, run_id TEXT NOT NULL, user_name TEXT NOT NULL, owner TEXT NOT NULL,
        cpus DOUBLE PRECISION NOT NULL, memory_mib BIGINT NOT NULL, at TEXT NOT NULL, until TEXT NOT NULL)""",
)
_STEPS: tuple[tuple[str | Filling, ...], ...] = (_STEP_1, _STEP_2, _STEP_3, _STEP_4, _STEP_5, _STEP_6, _STEP_7)
KNOWN_VERSION = len(_STEPS)
"""The newest schema that this version of the package can read."""

# SQLite wants exactly these words for a key that is the row's own number.
_WORDS = {
    "sqlite": {"bigkey": "INTEGER PRIMARY KEY", "autokey": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    "postgresql": {"bigkey": "BIGINT PRIMARY KEY", "autokey": "INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"},
}
_OWNER = """
SELECT pg_get_userbyid(c.relowner) AS owner, pg_has_role(c.relowner, 'USAGE') AS ours, n.nspname AS namespace
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'journal_events'::regclass
"""
_VERSION = select(func.max(version.c.version))


def migrate(database: Database, now: datetime, then: Then, *, create: bool = True) -> None:
    """Bring the journal to `KNOWN_VERSION`; several processes may do it at once.

    Args:
        database: It.
        now: The time.
        then: What belongs to new tables of one on a server, in the same transaction.
        create: Whether to make one where there is none.

    Raises:
        JournalTooNew: a newer version of the package wrote it; it is left as it is.
        JournalUnreadable: it is a database of something else.
        UsageError: there is no journal, and none may be made.
        JournalUnwritable: it cannot be reached or written; it is left as it was.
    """
    if is_url(database.where) and _is_done(database):
        return
    try:
        _bring_up(database, now, then, create=create, wait=create)
    except JournalLocked:
        if create:
            raise
        # Whoever only reads needs no lock, unless there is something to be done first.
        if not _is_done(database):
            _bring_up(database, now, then, create=create, wait=True)


def _is_done(database: Database) -> bool:
    """Whether nothing has to be written: one that many use is opened without waiting for each other."""
    try:
        with database.snapshot() as connection:
            return is_known(connection, database.where)
    except JournalUnreadable:
        # Whoever was to write it says why it cannot be written.
        return False


def _bring_up(database: Database, now: datetime, then: Then, *, create: bool, wait: bool) -> None:
    # With the write lock held, so that whoever waits for it finds the work done.
    with database.writing(flush=True, wait=wait) as connection:
        found = _found(connection, database.where)
        if not found and not create:
            raise no_journal(database.where)
        if 0 < found < KNOWN_VERSION:
            _become_owner(connection, database.where, found)
        for number in range(found, KNOWN_VERSION):
            words = _WORDS[connection.dialect.name]
            for statement in _STEPS[number]:
                if isinstance(statement, str):
                    connection.exec_driver_sql(statement.format_map(words))
                else:
                    statement(connection)
            connection.execute(insert(version), {"version": number + 1, "applied_at": stamp(now)})
        if found < KNOWN_VERSION and connection.dialect.name == "postgresql":
            then(connection, database.where)


def _become_owner(connection: Connection, where: str, found: int) -> None:
    """Refuse to bring up tables that somebody else owns; in a file they are everybody's who can write it.

    A superuser, or a member of the owner's role, goes on as the owner, so that new tables belong to the same role.
    """
    if connection.dialect.name != "postgresql":
        return
    # To bring up many rows takes as long as it takes.
    driver: Any = connection.connection.driver_connection
    driver.bounded = False
    tables = owner_of(connection)
    if not tables.ours:
        raise JournalUnwritable(
            where,
            f"its tables have version {found}, this kagura-kernel needs {KNOWN_VERSION}, and only their owner may "
            f"change them: {tables.owner} has to open it once, as by `kagura-kernel journal verify`",
        )
    become(connection, tables.owner)


def owner_of(connection: Connection) -> Any:
    """Whose the tables on a server are: `owner`, whether that role is `ours` to be, and their `namespace`."""
    return connection.exec_driver_sql(_OWNER).one()


def become(connection: Connection, role: str) -> None:
    """Do all else of a transaction as this role."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    connection.exec_driver_sql(f"SET LOCAL ROLE {quote(role)}")


def is_known(connection: Connection, where: str) -> bool:
    """Whether the journal has exactly the tables that this version reads, so that nothing has to be written first.

    Raises:
        JournalTooNew: a newer version of the package wrote it.
        JournalUnreadable: it is a database of something else.
    """
    return _found(connection, where) == KNOWN_VERSION


def check_version(connection: Connection, where: str) -> None:
    """Refuse a journal that another process has brought to a newer schema meanwhile.

    Raises:
        JournalTooNew: it did.
    """
    found = connection.execute(_VERSION).scalar_one_or_none() or 0
    if found > KNOWN_VERSION:
        raise JournalTooNew(where, found, KNOWN_VERSION)


def _found(connection: Connection, where: str) -> int:
    looked_at = inspect(connection)
    if looked_at.has_table(version.name):
        check_version(connection, where)
        return connection.execute(_VERSION).scalar_one_or_none() or 0
    if connection.dialect.name == "sqlite" and looked_at.get_table_names():
        raise JournalUnreadable(where, "it is the database of another program")
    return 0
