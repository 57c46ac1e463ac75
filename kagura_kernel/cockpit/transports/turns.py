"""Messages of a thread that are not understood yet, in the order in which they came, and what is said about them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from kagura_kernel.domain.identity import new_run_id


@dataclass(eq=False, slots=True)
class Turn:
    """One message that may begin a run."""

    thread: str  # Where it was said
    before: tuple[Turn, ...] = ()  # Those that were said there earlier
    # The run's id, should it begin one: what is to be stopped has a name before it is there
    run_id: str = field(default_factory=new_run_id)
    stopped_by: str = ""  # Who wants it to begin nothing; empty for nobody
    # Set once it is understood, and its run, if it is one, launched
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """Those of all threads of a chat. Used on one loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Turn]] = {}

    def enter(self, thread: str) -> Turn:
        """Take the next turn of a thread."""
        waiting = self._waiting.setdefault(thread, [])
        turn = Turn(thread, tuple(waiting))
        waiting.append(turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """Let the next one come; may be called twice."""
        turn.over.set()
        turn.before = ()
        waiting = [one for one in self._waiting.get(turn.thread, ()) if one is not turn]
        if waiting:
            self._waiting[turn.thread] = waiting
        else:
            self._waiting.pop(turn.thread, None)

    async def come(self, turn: Turn) -> None:
        """Return when all that was said in the thread before is understood."""
        for one in turn.before:
            await one.over.wait()

    def begins(self, thread: str | None = None) -> list[str]:
        """The runs that messages may be beginning, of one thread or of all, by the ids that they would have."""
        return [turn.run_id for turn in self._all() if thread in (None, turn.thread)]

    def stop(self, run_ids: list[str], by: str) -> None:
        """Let none of these begin; those that are none of ours are left alone."""
        for turn in self._all():
            if turn.run_id in run_ids:
                turn.stopped_by = turn.stopped_by or by

    def _all(self) -> Iterator[Turn]:
        return (turn for waiting in self._waiting.values() for turn in waiting)
