"""The journal: everything that happened, as rows that are only ever added, each bound to the one before it.

A row is stored before anything it announces is done, so a journal that cannot be written stops the work. Rows are
never changed or deleted; `verify` finds out whether somebody else did. Any thread may use a `Journal`, and any number
of processes may have the same one open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Executable, Row, bindparam, func, select, update

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import JournalLocked, JournalUnreadable, JournalUnwritable
from kagura_kernel.journal.chain import Chain, Content, Number
from kagura_kernel.journal.database import Database, Place
from kagura_kernel.journal.encoding import as_text, decode, decode_told, encode, stamp
from kagura_kernel.journal.place import expanded, is_url
from kagura_kernel.journal.rows import NOTHING, NotedRow, StoredEvent, Verification
from kagura_kernel.journal.schema import check_version, events, heartbeat, is_known, migrate

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event

FLUSHED = frozenset({"approval.decided", "changes.collected", "changes.settled", "run.finished"})
"""Kinds whose row has reached the disk when `append` returns, with all rows before it: see `sqlite`."""

_Made = TypeVar("_Made")

_SYSTEM = SystemClock()
_BEAT = update(heartbeat).where(heartbeat.c.id == 1).values(at=bindparam("now"))
_LAST_SEQ = select(func.max(events.c.seq))


class Writing:
    """A transaction on the journal that no other writer runs beside."""

    def __init__(self, connection: Connection, chain: Chain) -> None:
        self.connection = connection  # For the other tables of the journal
        self.added: list[Event] = []  # What was added so far
        self._chain = chain

    def append(self, event: Event) -> Number:
        """Add one row and bring the views up to date; what gives the row's number."""
        # Lists are read from tables: what knows all events is imported with the first of them.
        from kagura_kernel.journal.projection import as_stored, project

        self.added.append(event)
        body = encode(event)
        content = Content(stamp(event.at), event.kind, as_text(event.run_id), as_text(event.session_id), body)
        number = self._chain.add(self.connection, content)
        project(self.connection, number, as_stored(event, body))
        return number


class Journal:
    """An open journal; make one with `open`."""

    def __init__(self, database: Database, clock: Clock, unwritable: str = "") -> None:
        self.where = database.where  # The file or the URL without its password, for messages
        self.clock = clock  # Where its own time stamps come from
        # Why it can only be read, half a sentence; empty where it was opened to be written
        self.unwritable = unwritable
        self._database = database
        self._shared: bool | None = None
        self._audited: bool | None = None
        self._listeners: tuple[Callable[[Event], None], ...] = ()

    @classmethod
    def open(cls, where: str | Path, *, clock: Clock = _SYSTEM, create: bool = True) -> Journal:
        """The journal in a directory (made when missing, for its owner only) or behind a `postgresql://` URL.

        With `create` off, a place without a journal is left as it is, one that another process writes is not waited
        for, and one that cannot be written (a full disk, read-only media) can be read all the same; then every attempt
        to write fails. With it on, the journal is there to be written, and its newest rows are checked, too.

        Raises:
            JournalUnwritable: the directory, the disk or the server does not let us write.
            JournalUnreadable: what is there is no journal.
            JournalTooNew: a newer version of the package wrote it.
            ConfigurationError: the URL cannot be used.
            JournalTampered: the newest rows do not fit each other, or the record of the last one.
            UsageError: there is no journal, and none may be made.
        """
        try:
            database = Database(_place(where, create=create))
            with _closed_on_error(database):
                migrate(database, clock.now(), _renew_rights, create=create)
                if create:
                    from kagura_kernel.journal.verification import verify_tail

                    with database.snapshot() as connection:
                        verify_tail(connection, database.where)
        except JournalUnwritable as error:
            if create or is_url(where):
                raise
            return cls(_only_read(Path(where), error), clock, error.why)
        return cls(database, clock)

    def append(self, event: Event) -> int:
        """Store one fact; its row's number.

        Raises:
            JournalUnwritable: it was not stored, not even in part; what it announces must not be done.
            JournalTooNew: a run begins, and another process has brought the journal to a newer schema.
            ValueError: the event is for live displays only.
        """
        if not event.durable:
            raise ValueError(f"{event.kind} is for live displays and is never stored")
        if event.kind == "run.started":
            # Somebody may have upgraded while this process stayed: it finishes what goes on, and begins nothing.
            with self.snapshot() as connection:
                check_version(connection, self.where)
        with self._database.writing_at_once(flush=event.kind in FLUSHED) as connection:
            number = Writing(connection, self._database.place.chain(connection)).append(event)
        self._tell([event])
        return number()

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Tell of every event that is stored through this object from now on, after it is stored.

        Args:
            listener: Called by whichever thread stores something, which it must not keep waiting; it never raises.
        """
        self._listeners = (*self._listeners, listener)

    def check_writable(self) -> None:
        """Make sure that a row could be stored now, by really writing to the journal's heartbeat.

        Raises:
            JournalUnwritable: it could not.
            JournalUnreadable: the journal is damaged.
            JournalTooNew: another process has brought the journal to a newer schema.
        """
        with self.writing() as writing:
            check_version(writing.connection, self.where)
            writing.connection.execute(_BEAT, {"now": stamp(self.clock.now())})

    def events(
        self,
        *,
        run_id: str | None = None,
        session_id: str | None = None,
        after: int = 0,
        kinds: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[StoredEvent]:
        """Rows in their order, the first `limit` of those that come after row `after` and match.

        Raises:
            JournalUnreadable: they cannot be read, or one of them is no event.
        """
        query = select(events).where(events.c.seq > after)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        if session_id is not None:
            query = query.where(events.c.session_id == session_id)
        if kinds:
            query = query.where(events.c.kind.in_(kinds))
        rows = self.read(query.order_by(events.c.seq).limit(limit))
        return [StoredEvent(row.seq, event, row.hash) for row, event in self.told(rows)]

    def told(self, rows: Iterable[Row[Any]]) -> Iterator[tuple[Row[Any], Event]]:
        """What rows with `seq`, `kind`, `run_id` and `body` say.

        In a journal that is shared anybody may have written them: those that are no event, or another one than their
        columns say, are passed by, and `verify` names them.

        Raises:
            JournalUnreadable: one of them is no event.
        """
        for row in rows:
            try:
                event = decode_told(row.body, row.kind, row.run_id) if self.shared else decode(row.body)
            except ValueError as error:
                if not self.shared:
                    raise JournalUnreadable(self.where, f"row {row.seq} is no event") from error
            else:
                yield row, event

    def readable(self, rows: Iterable[Row[Any]], make: Callable[[Row[Any]], _Made]) -> list[_Made]:
        """What is made of rows of the tables, for a list.

        In a journal that is shared anybody may have filled their own: those that nothing can be made of are passed by,
        and `verify` names the first.
        """
        if not self.shared:
            return [make(row) for row in rows]
        found = []
        for row in rows:
            with suppress(ValueError, TypeError, OverflowError, RecursionError):
                found.append(make(row))
        return found

    @property
    def shared(self) -> bool:
        """Whether it is one that people share, as it was when this was first asked."""
        if self._shared is None:
            from kagura_kernel.journal.sharing import sharing

            if not is_url(self.where):
                self._shared = False
            else:
                with self.snapshot() as connection:
                    self._shared = sharing(connection) is not None
        return self._shared

    @property
    def audited(self) -> bool:
        """Whether this user is an auditor of a shared journal, who changes nothing; as it was when first asked."""
        if self._audited is None:
            from kagura_kernel.journal.sharing import audits

            self._audited = False
            if self.shared:
                with self.snapshot() as connection:
                    self._audited = audits(connection)
        return self._audited

    def last_seq(self) -> int:
        """The number of the newest row; 0 when there is none."""
        return self.read(_LAST_SEQ)[0][0] or 0

    def verify(self, *, tables: bool = True, noted: NotedRow = NOTHING) -> Verification:
        """Check every row against its hash and the chain against its head; others may write meanwhile.

        Then, with `tables`, check that the tables of the views hold what the rows say. A decision that lies in the
        mailbox for a run that goes on may be there before its event. With `noted` only what came after that row is
        checked, and that it is there as it was.

        Raises:
            JournalTampered: a row was changed, added, removed or moved, or the end is cut off; or a table disagrees.
            JournalUnreadable: the file is damaged, or a row is no event.
        """
        from kagura_kernel.journal.verification import verify, verify_chain

        with self._database.snapshot() as connection:
            if tables:
                return verify(connection, self.where, noted)
            return verify_chain(connection, self.where, noted=noted)

    def scour(self) -> None:
        """Take what was deleted (only checkpoints ever are) off the disk too, where others are not reading it.

        Raises:
            JournalUnwritable: it could not be done.
        """
        self._database.scour()

    def mark(self) -> str:
        """A text that differs from the last one when anything may have been written since, by whichever process.

        For those who ask again and again: it costs next to nothing.

        Raises:
            JournalUnreadable: the place does not answer, or the journal that was there is not there any more.
        """
        return self._database.mark()

    def why_gone(self) -> str:
        """Why this journal is not the one at its place any more (moved, deleted); empty while it is."""
        return self._database.place.why_gone()

    def close(self) -> None:
        """Close it; may be called twice. Whoever uses it afterwards gets a `JournalError`."""
        self._database.close()

    @contextmanager
    def writing(self, *, flush: bool = False) -> Iterator[Writing]:
        """For the other files of this room: one transaction, whole or not at all."""
        with self._database.writing(flush=flush) as connection:
            writing = Writing(connection, self._database.place.chain(connection))
            yield writing
        self._tell(writing.added)

    def snapshot(self) -> AbstractContextManager[Connection]:
        """For the other files of this room: a connection of its own that sees one moment."""
        return self._database.snapshot()

    def read(self, query: Executable, values: dict[str, Any] | None = None) -> Sequence[Row[Any]]:
        """For the other files of this room: the rows that a query gives."""
        return self._database.read(query, values)

    def _tell(self, added: Sequence[Event]) -> None:
        for event in added:
            for listener in self._listeners:
                listener(event)


def _renew_rights(connection: Connection, where: str) -> None:
    """Give tables that were just brought up the rights of those before them, if the journal is shared."""
    from kagura_kernel.journal.sharing import renew

    renew(connection, where)


@contextmanager
def _closed_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _only_read(directory: Path, error: JournalUnwritable) -> Database:
    """The journal in a directory, for reading; raises why it cannot be written where it cannot be read either."""
    from kagura_kernel.journal.sqlite import SqliteFile

    if isinstance(error, JournalLocked):
        # It could be written in a moment, and whoever keeps it open would find that out never.
        raise error
    database = Database(SqliteFile(_absolute(directory), reading=True))
    with _closed_on_error(database), database.snapshot() as connection:
        if not is_known(connection, database.where):
            # Its tables would have to be brought up to date first.
            raise error
    return database


def _absolute(where: str | Path) -> Path:
    return expanded(where).absolute()


def _place(where: str | Path, *, create: bool) -> Place:
    if isinstance(where, str) and is_url(where):
        from kagura_kernel.journal.postgres import PostgresServer

        return PostgresServer(where)
    from kagura_kernel.journal.sqlite import SqliteFile

    return SqliteFile(_absolute(where), create=create)
