"""A journal's connections: one for writing behind its lock, and for reading as many as read at once.

Writers of all processes take turns, so the chain has one order. Readers wait for nobody. Errors of SQLAlchemy and of
the driver end here: outside there is only `JournalUnwritable` and `JournalUnreadable`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from sqlalchemy import Connection, Executable, Row
from sqlalchemy.exc import SQLAlchemyError

from kagura_kernel.domain.errors import JournalLocked, JournalUnreadable, JournalUnwritable
from kagura_kernel.journal.chain import Chain
from kagura_kernel.journal.statements import BATCH, run_text

_IDLE_READERS = 4


class Place(ABC):
    """Where a journal is kept: what SQLite and PostgreSQL do differently."""

    where: str  # The place for messages; no password in it
    errors: tuple[type[Exception], ...]  # What SQLAlchemy and the driver raise

    @abstractmethod
    def connect(self, *, odd_bytes: bool = False) -> Connection:
        """A fresh connection that commits each statement by itself.

        With `odd_bytes`, text that is no UTF-8 is read with surrogates instead of failing.
        """

    @abstractmethod
    def begin(self, connection: Connection, *, flush: bool, wait: bool = True) -> None:
        """Start a transaction that no other process can write beside; with `flush` its commit reaches the disk.

        Where another one writes it waits for some seconds, or not at all.
        """

    def without_waiting(self, connection: Connection) -> AbstractContextManager[object]:  # noqa: ARG002 - a file answers at once
        """Send what is run inside without waiting for each answer; an error may come only with a result, or the end."""
        return nullcontext()

    def is_awake(self, connection: Connection) -> bool:  # noqa: ARG002 - nor does it sleep
        """Whether the other side of a connection was there a moment ago; False where looking costs nothing."""
        return False

    @abstractmethod
    def chain(self, connection: Connection) -> Chain:
        """What adds the rows of one transaction."""

    @abstractmethod
    def begin_reading(self, connection: Connection) -> None:
        """Start a transaction that sees one moment of the journal."""

    @abstractmethod
    def in_transaction(self, connection: Connection) -> bool:
        """Whether a transaction is open."""

    @abstractmethod
    def mark(self, connection: Connection) -> str:
        """A text that is another one once any other connection has changed something; cheap to ask for."""

    @abstractmethod
    def scour(self, connection: Connection) -> None:
        """Take what was deleted off the disk too, as far as that can be done while others go on."""

    def unblock(self) -> None:  # noqa: B027 - whoever writes a file is the same person, and is not ended
        """Do what can be done about another one who has kept us waiting for too long; raises nothing."""

    def why_gone(self) -> str:
        """Why writing would go nowhere although the connection lives; empty when all is well."""
        return ""

    @abstractmethod
    def why(self, error: Exception) -> str:
        """The reason for an error, in words."""

    def is_lost(self, error: Exception) -> bool:  # noqa: ARG002 - a file does not hang up
        """Whether the error says that the connection is gone, while a new one may work."""
        return False

    @abstractmethod
    def is_busy(self, error: Exception) -> bool:
        """Whether the error only says that another process writes."""

    @abstractmethod
    def is_damage(self, error: Exception) -> bool:
        """Whether the error says that what is there cannot be a journal."""

    @abstractmethod
    def close(self) -> None:
        """Free everything; may be called twice."""


class Database:
    """Reading and writing at one place, from any thread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.where = place.where
        self._write_lock = threading.RLock()
        self._lock = threading.Lock()
        self._mark_lock = threading.Lock()
        self._writer: Connection | None = None
        self._readers: list[Connection] = []
        self._marker: Connection | None = None
        self._marked = 0
        self._closed = False

    @contextmanager
    def writing(self, *, flush: bool = False, wait: bool = True) -> Iterator[Connection]:
        """A transaction that no other writer runs beside; an error inside rolls it back whole.

        Raises:
            JournalLocked: another process writes, still after some seconds, or now where nobody is to `wait`.
            JournalUnwritable: it could not be begun or committed.
            JournalUnreadable: what is there is damaged.
        """
        with self._write_lock, self._rolled_back_on_error():
            connection = self._begin(flush=flush, wait=wait)
            yield connection
            run_text(connection, "COMMIT")

    @contextmanager
    def writing_at_once(self, *, flush: bool = False) -> Iterator[Connection]:
        """The same in as few messages as can be; for `Statement`s and texts alone."""
        with self._write_lock, self._rolled_back_on_error():
            # One that has slept may be gone. What finds that out must not be the row: nobody knows then whether it is
            # stored.
            awake = self._writer if self._is_awake() else None
            connection = awake or self._begin(flush=flush, wait=True)
            with self.place.without_waiting(connection):
                if awake:
                    self.place.begin(connection, flush=flush)
                yield connection
                run_text(connection, "COMMIT")

    @contextmanager
    def _rolled_back_on_error(self) -> Iterator[None]:
        try:
            yield
        except self.place.errors as error:
            self._roll_back()
            if self.place.is_damage(error):
                raise JournalUnreadable(self.where, self.place.why(error)) from error
            kind = JournalUnwritable
            if self.place.is_busy(error):
                kind = JournalLocked
                self.place.unblock()
            raise kind(self.where, self.place.why(error)) from error
        except BaseException:
            self._roll_back()
            raise

    def read(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
        """All rows that a statement gives.

        Raises:
            JournalUnreadable: the place does not answer, or what is there is damaged.
        """
        try:
            return self._fetch(statement, values)
        except SQLAlchemyError as error:
            if self.place.is_busy(error):
                self.place.unblock()
            if not self.place.is_lost(error):
                raise JournalUnreadable(self.where, self.place.why(error)) from error
        # What fell asleep with this one has made the others that wait here useless too.
        self._drop_readers()
        try:
            return self._fetch(statement, values)
        except SQLAlchemyError as error:
            raise JournalUnreadable(self.where, self.place.why(error)) from error

    def mark(self) -> str:
        """A text that differs from the last one when anything may have been written since, by whomever.

        It is cheap enough to be asked many times a second.

        Raises:
            JournalUnreadable: the place does not answer, or what was there is gone.
        """
        if why := self.place.why_gone():
            raise JournalUnreadable(self.where, why)
        with self._mark_lock:
            self._refuse_when_closed(JournalUnreadable)
            try:
                try:
                    return self._mark()
                except SQLAlchemyError as error:
                    if not self.place.is_lost(error):
                        raise
                # It fell asleep.
                self._drop_marker()
                return self._mark()
            except SQLAlchemyError as error:
                self._drop_marker()
                raise JournalUnreadable(self.where, self.place.why(error)) from error

    def scour(self) -> None:
        """Take what was deleted off the disk too.

        Raises:
            JournalUnwritable: it could not be done.
        """
        connection = None
        try:
            self._refuse_when_closed(JournalUnwritable)
            connection = self.place.connect()
            self.place.scour(connection)
        except SQLAlchemyError as error:
            raise JournalUnwritable(self.where, self.place.why(error)) from error
        finally:
            _drop(connection)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection of its own that sees one moment and stands in nobody's way."""
        connection = None
        try:
            self._refuse_when_closed(JournalUnreadable)
            connection = self.place.connect(odd_bytes=True)
            self.place.begin_reading(connection)
            yield connection
        except self.place.errors as error:
            raise JournalUnreadable(self.where, self.place.why(error)) from error
        finally:
            _drop(connection)

    def close(self) -> None:
        """Close all connections; may be called twice."""
        with self._write_lock:
            self._closed = True
            _drop(self._writer)
            self._writer = None
            with self._mark_lock:
                self._drop_marker()
            # One that reads just now is closed when it is done.
            self._drop_readers()
            self.place.close()

    def _mark(self) -> str:
        if self._marker is None:
            self._marker = self.place.connect()
            # A mark says nothing beside that of another connection.
            self._marked += 1
        return f"{self._marked}:{self.place.mark(self._marker)}"

    def _drop_marker(self) -> None:
        _drop(self._marker)
        self._marker = None

    def _is_awake(self) -> bool:
        """Whether a transaction can be begun without looking first."""
        if self._writer is None or self._closed or self.place.why_gone():
            return False
        return self.place.is_awake(self._writer) and not self.place.in_transaction(self._writer)

    def _begin(self, *, flush: bool, wait: bool) -> Connection:
        self._refuse_when_closed(JournalUnwritable)
        if why := self.place.why_gone():
            raise JournalUnwritable(self.where, why)
        try:
            return self._begun(flush=flush, wait=wait)
        except self.place.errors as error:
            # Nothing is written yet, so a connection that fell asleep is replaced without anyone noticing.
            if not self.place.is_lost(error):
                raise
        _drop(self._writer)
        self._writer = None
        return self._begun(flush=flush, wait=wait)

    def _begun(self, *, flush: bool, wait: bool) -> Connection:
        if self._writer is None:
            self._writer = self.place.connect()
        # An interrupt between two lines can leave things half done: what is never sent, or what everybody waits for.
        self._writer.info.pop(BATCH, None)
        if self.place.in_transaction(self._writer):
            self._writer.exec_driver_sql("ROLLBACK")
        self.place.begin(self._writer, flush=flush, wait=wait)
        return self._writer

    def _roll_back(self) -> None:
        if self._writer is None:
            return
        try:
            if not self._writer.invalidated:
                if self.place.in_transaction(self._writer):
                    self._writer.exec_driver_sql("ROLLBACK")
                return
        except self.place.errors:
            pass  # whatever is wrong with it, the next writer gets a new one
        _drop(self._writer)
        self._writer = None

    def _fetch(self, statement: Executable, values: Mapping[str, Any] | None) -> Sequence[Row[Any]]:
        self._refuse_when_closed(JournalUnreadable)
        with self._lock:
            reader = self._readers.pop() if self._readers else None
        try:
            if reader is None:
                reader = self.place.connect()
            found = reader.execute(statement, values).fetchall()
        except BaseException:
            _drop(reader)
            raise
        with self._lock:
            kept = not self._closed and len(self._readers) < _IDLE_READERS
            if kept:
                self._readers.append(reader)
        if not kept:
            _drop(reader)
        return found

    def _drop_readers(self) -> None:
        with self._lock:
            readers, self._readers = self._readers, []
        for reader in readers:
            _drop(reader)

    def _refuse_when_closed(self, error: type[JournalUnwritable | JournalUnreadable]) -> None:
        if self._closed:
            raise error(self.where, "it was closed")


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        # What cannot even be closed is gone already.
        with suppress(SQLAlchemyError):
            connection.close()
