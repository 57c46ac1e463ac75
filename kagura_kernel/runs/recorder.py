"""Where a run's facts go: into the journal first, then to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import AnyEvent, Event
from kagura_kernel.journal.store import Journal

MAX_WAITING = 10_000
"""Streamed events beyond this many unread ones are dropped: a durable one repeats what they say."""

E = TypeVar("E", bound=Event)


class Recorder:
    """Makes, stores and hands on the events of one run.

    Attributes:
        scrub: Takes live secrets out of the fields of every event; set before there are any.
    """

    def __init__(self, journal: Journal, clock: Clock, run_id: str, session_id: str) -> None:
        self.scrub: Callable[[Any], Any] = _as_it_is
        self._journal = journal
        self._clock = clock
        self._run_id = run_id
        self._session_id = session_id
        self._queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()

    def record(self, kind: type[E], /, **fields: Any) -> E:
        """Make an event, store it if it is durable, and hand it on.

        Raises:
            JournalUnwritable: it could not be stored; it was not handed on either.
        """
        event = kind.model_validate(
            {"run_id": self._run_id, "session_id": self._session_id, "at": self._clock.now(), **self.scrub(fields)}
        )
        if event.durable:
            self._journal.append(event)
        elif self._queue.qsize() >= MAX_WAITING:
            return event
        self._queue.put_nowait(event)  # type: ignore[arg-type]
        return event

    def end(self) -> None:
        """Nothing more will come."""
        self._queue.put_nowait(None)

    async def next(self) -> AnyEvent | None:
        """The next event, or None at the end."""
        return await self._queue.get()


def _as_it_is(fields: Any) -> Any:
    return fields
