"""Runs of any process on the journal, to look at: live from this process, by the journal's rows from the others.

A run of this process is heard as its own cell hears it, text that is being written included. A run of another process
is read from the journal while it goes on: its rows come whole, a moment after they were stored. A run that is over is
read to its end. One task on the engine does all the reading, on a worker thread, and only while somebody looks on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable

from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError
from kagura_kernel.domain.events import Event, RunFinished
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal import views
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.store import Journal

Listener = Callable[[Event], None]

LOOK_SECONDS = 0.12
"""How often the journal is asked for new rows while somebody looks at a run of another process."""
OWNER_SECONDS = 2.0
"""How often it is made sure that the process of such a run is still there."""
_ROWS_AT_ONCE = 500


class JournalFeed:
    """A run of another process, or one that is over, by its rows."""

    def __init__(self, run_id: str, owner: str, tails: Tails) -> None:
        self.run_id = run_id
        self._owner = owner
        self._tails = tails
        self._told: concurrent.futures.Future[Exception | None] = concurrent.futures.Future()

    @property
    def done(self) -> bool:
        """Whether all of it was told."""
        return self._told.done()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every row, first those that are there; on a worker thread."""
        tail = _Tail(self.run_id, self._owner, listener, self._told)
        self._tails.add(tail)

        def stop() -> None:
            self._tails.remove(tail)

        return stop

    async def ended(self) -> Exception | None:
        """Return when the run's last row was told, or when the journal cannot be read any more."""
        return await asyncio.shield(asyncio.wrap_future(self._told))


Feed = RunHandle | JournalFeed
"""A run as a stream of events, from its first one on; for one listener."""


@dataclass(slots=True, eq=False)
class _Tail:
    """One listener to one run of another process."""

    run_id: str
    owner: str
    listener: Listener
    told: concurrent.futures.Future[Exception | None]
    after: int = 0  # The row that was told last
    seen: int = -1  # The journal's newest row when it was last looked through; -1 before the first time
    # When its process was last looked for, monotonic seconds
    owner_seen: float = field(default_factory=lambda: float("-inf"))

    def end(self, error: Exception | None = None) -> None:
        if not self.told.done():
            self.told.set_result(error)


@dataclass(eq=False)
class Tails:
    """All that this process reads of the runs of others; for any thread."""

    journal: Journal  # Where they are written down
    clock: Clock  # For the rows of runs that turn out to be lost
    engine: Engine  # Where the reading is kept going
    lost: Callable[[], None]  # Called when runs were found lost and marked so
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tails: list[_Tail] = field(default_factory=list)
    _reading: bool = False

    def feed(self, run_id: str) -> JournalFeed:
        """A run by its rows.

        Raises:
            RunUnknown: the journal knows no such run.
            JournalError: it cannot be read.
        """
        return JournalFeed(run_id, views.one_run(self.journal, run_id).owner, self)

    def add(self, tail: _Tail) -> None:
        """Begin to read for this listener."""
        with self._lock:
            self._tails.append(tail)
            if self._reading:
                return
            self._reading = True
        self.engine.submit(self._read())

    def remove(self, tail: _Tail) -> None:
        """Read for it no longer."""
        with self._lock:
            if tail in self._tails:
                self._tails.remove(tail)

    async def _read(self) -> None:
        try:
            while True:
                with self._lock:
                    tails = list(self._tails)
                    if not tails:
                        self._reading = False
                        return
                await asyncio.to_thread(self._look, tails)
                await asyncio.sleep(LOOK_SECONDS)
        except BaseException:
            # The engine ends: nobody is told anything more.
            with self._lock:
                self._reading = False
            raise

    def _look(self, tails: list[_Tail]) -> None:
        try:
            self._check_owners(tails)
            newest = self.journal.last_seq()
        except JournalError as error:
            for tail in tails:
                self._end(tail, error)
            return
        for tail in tails:
            if newest == tail.seen:
                continue
            tail.seen = newest
            try:
                over = self._tell(tail)
            except JournalError as error:
                self._end(tail, error)
            else:
                if over:
                    self._end(tail)

    def _tell(self, tail: _Tail) -> bool:
        """Tell what is new; whether the run is over. What was settled since its end is told too."""
        over = False
        while True:
            rows = self.journal.events(run_id=tail.run_id, after=tail.after, limit=_ROWS_AT_ONCE)
            for row in rows:
                tail.after = row.seq
                over = over or isinstance(row.event, RunFinished)
                tail.listener(row.event)
            if len(rows) < _ROWS_AT_ONCE:
                return over

    def _check_owners(self, tails: list[_Tail]) -> None:
        """A process that was killed says no last words: they are said for it."""
        now = time.monotonic()
        due = [tail for tail in tails if now - tail.owner_seen >= OWNER_SECONDS]
        for tail in due:
            tail.owner_seen = now
        gone = {tail.run_id for tail in due if not owner_alive(tail.owner)}
        # Of one that is over nothing has to be said.
        if gone and any(row.run_id in gone for row in views.unfinished(self.journal)):
            mark_lost(self.journal, self.clock)
            self.lost()

    def _end(self, tail: _Tail, error: Exception | None = None) -> None:
        self.remove(tail)
        tail.end(error)
