"""Who may do what in a journal that is shared, as statements of PostgreSQL; all may be run again.

Each row bears, in the column `login`, whose it is: the role that signed in when it was added, or the one that the row's
run belongs to, which is whoever added that run's first event. Row security shows nobody else's. Auditors see all rows
and change none. An event gets its number, its hash and its login from the server, and is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlalchemy import Table

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal import schema
from kagura_kernel.journal.chain import END_STALLED, LOCK, NO_HEAD, Content, hash_in_sql

SHARING = "journal_sharing"
"""The table that says with whom a journal is shared; where it is not, there is none."""


STALLED_SECONDS = 5.0
"""How long a session may hold the journal's lock, or write to a table of it or lock one, once somebody waits."""


class _Rights(NamedTuple):
    """What a user may do with her own rows, beside seeing them."""

    add: tuple[str, ...]  # Columns that she may give a new row
    change: tuple[str, ...] = ()
    delete: bool = False


def _but(table: Table, *names: str) -> tuple[str, ...]:
    return tuple(column.name for column in table.c if column.name not in names)


# Rights of columns, wherever they will do: whoever may change a whole table may lock it, and then nobody can read it.
_ROWS: dict[Table, _Rights] = {
    schema.events: _Rights(Content._fields),
    schema.runs: _Rights(_but(schema.runs), _but(schema.runs, "run_id", "first_seq", "session_id")),
    schema.approvals: _Rights(_but(schema.approvals), ("verdict", "decided_by", "via", "decided_at", "answer")),
    schema.messages: _Rights(_but(schema.messages, "id"), ("taken_at",), delete=True),
    schema.heard: _Rights(_but(schema.heard), ("run_id", "done_at"), delete=True),
    schema.posts: _Rights(_but(schema.posts), _but(schema.posts, "transport", "subject"), delete=True),
    schema.checkpoints: _Rights(_but(schema.checkpoints), ("body",), delete=True),
    schema.claims: _Rights(_but(schema.claims), ("until",), delete=True),
    schema.leases: _Rights(_but(schema.leases), _but(schema.leases, "id", "lease_id", "run_id", "session_id")),
}
_IN_ORDER = {schema.events: "seq", schema.runs: "first_seq", schema.approvals: "requested_at, id"}
"""In which order people look through their own rows."""
_BY_CHAT = (schema.heard, schema.posts)
"""What is known by a name that a chat has given: two people may each have the same chat."""


@dataclass(frozen=True, slots=True)
class SharedTables:
    """The tables of one journal, and the roles that it is shared with."""

    namespace: str  # The schema that the tables are in
    users: str  # The role whose members keep their runs in it
    auditors: str  # The role whose members see everything
    quote: Callable[[str], str]  # Writes a name so that it is nothing but a name

    def statements(self) -> Iterator[str]:
        """What makes them so."""
        yield from self._functions()
        for table, rights in _ROWS.items():
            yield from self._rows(self._at(table.name), table, rights)
        yield from self._events(self._at(schema.events.name))
        yield from self._whole_tables()

    def withdrawn(self, role: str) -> Iterator[str]:
        """What takes all of it from a role."""
        yield f"REVOKE ALL ON {', '.join(self._all())} FROM {self.quote(role)}"
        yield f"REVOKE ALL ON FUNCTION {self._at(END_STALLED)}() FROM {self.quote(role)}"

    def _at(self, name: str) -> str:
        return f"{self.quote(self.namespace)}.{self.quote(name)}"

    def _all(self) -> list[str]:
        return [*(self._at(table.name) for table in schema.metadata.sorted_tables), self._at(SHARING)]

    def _rows(self, at: str, table: Table, rights: _Rights) -> Iterator[str]:
        users, auditors = self.quote(self.users), self.quote(self.auditors)
        # Those that are there already are the owner's.
        yield f"ALTER TABLE {at} ADD COLUMN IF NOT EXISTS login name NOT NULL DEFAULT current_user"
        yield f"ALTER TABLE {at} ALTER COLUMN login SET DEFAULT session_user"
        yield f"ALTER TABLE {at} ENABLE ROW LEVEL SECURITY"
        yield f"DROP POLICY IF EXISTS own_rows ON {at}"
        yield (
            f"CREATE POLICY own_rows ON {at} TO {users} USING (login = session_user) WITH CHECK (login = session_user)"
        )
        yield f"DROP POLICY IF EXISTS all_rows ON {at}"
        yield f"CREATE POLICY all_rows ON {at} FOR SELECT TO {auditors} USING (true)"
        yield f"REVOKE ALL ON {at} FROM PUBLIC, {users}, {auditors}"
        yield f"GRANT SELECT ON {at} TO {users}, {auditors}"
        yield f"GRANT INSERT ({', '.join(map(self.quote, rights.add))}) ON {at} TO {users}"
        if rights.change:
            yield f"GRANT UPDATE ({', '.join(map(self.quote, rights.change))}) ON {at} TO {users}"
        if rights.delete:
            yield f"GRANT DELETE ON {at} TO {users}"
        if table in _BY_CHAT:
            # Otherwise whoever has noted a message first keeps the others from hearing it.
            keys = ", ".join(map(self.quote, ("login", *(column.name for column in table.primary_key))))
            yield f"CREATE UNIQUE INDEX IF NOT EXISTS {self.quote(f'{table.name}_login')} ON {at} ({keys})"
            yield f"ALTER TABLE {at} DROP CONSTRAINT IF EXISTS {self.quote(f'{table.name}_pkey')}"
        if table in _IN_ORDER:
            index = f"{self.quote(f'{table.name}_login')} ON {at}"
            yield f"CREATE INDEX IF NOT EXISTS {index} (login, {_IN_ORDER[table]})"
        if table is not schema.events:
            yield f"DROP TRIGGER IF EXISTS of_run ON {at}"
            yield (
                f"CREATE TRIGGER of_run BEFORE INSERT OR UPDATE OF run_id ON {at} "
                f"FOR EACH ROW EXECUTE FUNCTION {self._at('journal_of_run')}()"
            )

    def _events(self, at: str) -> Iterator[str]:
        for name, when in (
            ("added", f"BEFORE INSERT ON {at} FOR EACH ROW"),
            ("kept", f"BEFORE UPDATE OR DELETE OR TRUNCATE ON {at} FOR EACH STATEMENT"),
        ):
            yield f"DROP TRIGGER IF EXISTS {name} ON {at}"
            yield f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {self._at(f'journal_{name}')}()"

    def _whole_tables(self) -> Iterator[str]:
        """What is nobody's in particular: how long the chain is, and which version the tables have."""
        users, auditors = self.quote(self.users), self.quote(self.auditors)
        sharing, heartbeat = self._at(SHARING), self._at(schema.heartbeat.name)
        columns = "id INTEGER PRIMARY KEY, users name NOT NULL, auditors name NOT NULL"
        yield f"CREATE TABLE IF NOT EXISTS {sharing} ({columns})"
        yield f"DELETE FROM {sharing}"  # noqa: S608 - names are quoted
        yield f"INSERT INTO {sharing} VALUES (1, {_text(self.users)}, {_text(self.auditors)})"  # noqa: S608
        seen = (self._at(schema.head.name), self._at(schema.version.name), sharing)
        yield f"REVOKE ALL ON {', '.join((*seen, heartbeat))} FROM PUBLIC, {users}, {auditors}"
        yield f"GRANT SELECT ON {', '.join(seen)} TO {users}, {auditors}"
        yield f"GRANT SELECT (id), UPDATE (at) ON {heartbeat} TO {users}"

    def _functions(self) -> Iterator[str]:
        """They run as the tables' owner, so they look for nothing in places that others can write to."""
        waits = f" SET lock_timeout = '{max(1, round(STALLED_SECONDS * 1000))}ms'"
        for name, gives, more, body in (
            ("added", "trigger", "", self._added()),
            ("of_run", "trigger", "", self._of_run()),
            ("kept", "trigger", "", _KEPT),
            ("end_stalled", "void", waits, self._end_stalled()),
        ):
            at = f"{self._at(f'journal_{name}')}()"
            yield (
                f"CREATE OR REPLACE FUNCTION {at} RETURNS {gives} LANGUAGE plpgsql SECURITY DEFINER "
                f"SET search_path = pg_catalog, pg_temp{more} AS $journal${body}$journal$"
            )
            # Whoever could put one on a table of her own would move the head.
            yield f"REVOKE ALL ON FUNCTION {at} FROM PUBLIC"
        yield f"GRANT EXECUTE ON FUNCTION {self._at(END_STALLED)}() TO {self.quote(self.users)}"

    def _first_login(self) -> str:
        events = self._at(schema.events.name)
        return f"SELECT e.login FROM {events} e WHERE e.run_id = NEW.run_id ORDER BY e.seq LIMIT 1"  # noqa: S608

    def _added(self) -> str:
        head = self._at(schema.head.name)
        return f"""
DECLARE
    place record;
    whose name;
    owns boolean;
    digest text;
BEGIN
    PERFORM pg_advisory_xact_lock({LOCK});
    SELECT h.rows + 1 AS seq, h.last_hash INTO place FROM {head} h WHERE h.id = 1 FOR UPDATE;
    IF NOT FOUND THEN
        RAISE not_null_violation USING MESSAGE = {_text(NO_HEAD)};
    END IF;
    IF NEW.seq IS NULL THEN
        NEW.seq := place.seq;
        NEW.prev_hash := place.last_hash;
    END IF;
    digest := {hash_in_sql("NEW.")};
    IF NEW.seq <> place.seq OR NEW.prev_hash <> place.last_hash OR coalesce(NEW.hash, digest) <> digest THEN
        RAISE integrity_constraint_violation USING MESSAGE = 'the row does not follow the last one';
    END IF;
    NEW.hash := digest;
    NEW.login := session_user;
    owns := pg_has_role(session_user, current_user, 'USAGE');
    IF NOT owns AND pg_has_role(session_user, {_text(self.auditors)}, 'MEMBER') THEN
        RAISE insufficient_privilege USING MESSAGE = 'an auditor keeps no runs';
    END IF;
    IF NEW.run_id <> '' THEN
        whose := ({self._first_login()});
        IF whose <> session_user AND NOT owns THEN
            RAISE insufficient_privilege USING MESSAGE = 'the run is another user''s';
        END IF;
        NEW.login := coalesce(whose, session_user);
    END IF;
    UPDATE {head} SET rows = NEW.seq, last_hash = NEW.hash WHERE id = 1;
    RETURN NEW;
END
"""  # noqa: S608 - names are quoted

    def _end_stalled(self) -> str:
        """Ends sessions that write, or lock more than readers do, for too long.

        Of a session's lock that outlives transactions nobody says how long it is held. But those that wait get it in
        turn: whoever has it when one begins to wait, and still when that one gives up, has not given it back meanwhile.
        """
        tables = ", ".join(_text(self._at(table.name)) for table in schema.metadata.sorted_tables)
        lock = f"(l.locktype, l.classid, l.objid, l.objsubid) = ('advisory', {LOCK >> 32}, {LOCK & 0xFFFFFFFF}, 1)"
        stalls = (
            f"coalesce(a.xact_start, a.state_change) < clock_timestamp() - interval '{STALLED_SECONDS} seconds' "
            f"AND ({lock} OR l.relation = ANY (ARRAY[{tables}]::regclass[]) AND l.mode <> 'AccessShareLock')"
        )
        return f"""
DECLARE
    holders integer[];
    ended integer;
BEGIN
    IF NOT pg_has_role('pg_signal_backend', 'USAGE') THEN
        RETURN;
    END IF;
    {_end(stalls)}
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended > 0 THEN
        RETURN;
    END IF;
    holders := ARRAY(SELECT l.pid FROM pg_locks l WHERE l.granted AND {lock});
    BEGIN
        PERFORM pg_advisory_xact_lock({LOCK});
        -- So that it is given back at once.
        RAISE lock_not_available USING MESSAGE = 'free';
    EXCEPTION WHEN lock_not_available THEN
        IF SQLERRM = 'free' THEN
            RETURN;
        END IF;
    END;
    PERFORM pg_stat_clear_snapshot();
    {_end(f"l.pid = ANY (holders) AND {lock}")}
END
"""  # noqa: S608 - names are quoted

    def _of_run(self) -> str:
        return f"""
BEGIN
    NEW.login := session_user;
    IF NEW.run_id <> '' THEN
        NEW.login := coalesce(({self._first_login()}), session_user);
    END IF;
    RETURN NEW;
END
"""


_KEPT = """
BEGIN
    RAISE insufficient_privilege USING MESSAGE = 'what has happened is never changed';
END
"""


def _end(whom: str) -> str:
    """Ends sessions that hold such locks `l`; neither the owner's nor a superuser's."""
    return f"""
    PERFORM pg_terminate_backend(s.pid) FROM (
        SELECT DISTINCT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_roles r ON r.oid = a.usesysid
        WHERE l.granted AND a.datname = current_database() AND r.rolname <> current_user AND NOT r.rolsuper AND {whom}
    ) s;"""  # noqa: S608 - words of our own


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
