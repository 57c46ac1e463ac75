"""Where a run's facts go: into the journal first, then to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import AnyEvent, ChangesSettled, Event
from kagura_kernel.journal.change_states import changes_of
from kagura_kernel.journal.store import Journal

MAX_WAITING = 10_000
"""Streamed events beyond this many unread ones are dropped: a durable one repeats what they say."""

E = TypeVar("E", bound=Event)


class Recorder:
    """Makes, stores and hands on the events of one run."""

    def __init__(self, journal: Journal, clock: Clock, run_id: str, session_id: str) -> None:
        # Takes live secrets out of the fields of every event; set before there are any
        self.scrub: Callable[[Any], Any] = _as_it_is
        # Takes every other secret out of them, when the live ones are hidden; told what event it is for
        self.redact: Callable[[type[Event], Mapping[str, Any]], Mapping[str, Any]] = _as_they_are
        # Waits until it answers at once for an event with these texts
        self.ready_for: Callable[..., Awaitable[None]] = _at_once
        self._journal = journal
        self._clock = clock
        self.run_id = run_id
        self._session_id = session_id
        self._queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()

    def record(self, kind: type[E], /, **fields: Any) -> E:
        """Make an event, store it if it is durable, and hand it on.

        Raises:
            JournalUnwritable: it could not be stored; it was not handed on either.
        """
        event = self.make(kind, **fields)
        if event.durable:
            self._journal.append(event)
        elif self._queue.qsize() >= MAX_WAITING or getattr(event, "text", None) == "":
            # Of a text that comes in pieces nothing more may be seen yet.
            return event
        self.hand_on(event)
        return event

    def make(self, kind: type[E], /, **fields: Any) -> E:
        """An event of the run, which somebody else stores."""
        said = self.redact(kind, self.scrub(fields))
        return kind.model_validate(
            {"run_id": self.run_id, "session_id": self._session_id, "at": self._clock.now(), **said}
        )

    def take_over(self, run_id: str, paths: Iterable[str]) -> None:
        """Record that this run has these files as an earlier one left them: what that one proposed waits no more."""
        waiting = {one.path for one in changes_of(self._journal, run_id) if one.state in ("proposed", "conflict")}
        if waits := tuple(path for path in paths if path in waiting):
            self._journal.append(
                ChangesSettled(
                    run_id=run_id,
                    session_id=self._session_id,
                    at=self._clock.now(),
                    discarded=waits,
                    by=f"{self.run_id}, which has it all",
                )
            )

    def hand_on(self, event: Event) -> None:
        """Tell whoever listens of an event that is stored."""
        self._queue.put_nowait(event)  # type: ignore[arg-type]

    def end(self) -> None:
        """Nothing more will come."""
        self._queue.put_nowait(None)

    async def next(self) -> AnyEvent | None:
        """The next event, or None at the end."""
        return await self._queue.get()


async def told(
    recorder: Recorder, work: Callable[[], Coroutine[Any, Any, None]], name: str
) -> AsyncGenerator[AnyEvent, None]:
    """Everything that is recorded while a piece of work goes on, to its end. Closing the iterator early stops the work.

    Raises:
        Exception: what the work raised.
    """
    driver = asyncio.create_task(work(), name=name)
    driver.add_done_callback(lambda _: recorder.end())
    try:
        while (event := await recorder.next()) is not None:
            yield event
        await driver
    finally:
        if not driver.done():
            driver.cancel()
            await asyncio.wait({driver})


async def _at_once(*_texts: str) -> None:
    """Nothing is looked for."""


def _as_it_is(fields: Any) -> Any:
    return fields


def _as_they_are(_kind: type[Event], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return fields
