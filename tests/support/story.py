"""A notebook's cockpit on a stage: a calendar that can be turned, a brain of the story's own, and a person who answers.

Everything else is the real thing, as a notebook has it: boxes, journal, memory, host commands, approvals. It is what a
notebook needs that tells of weeks, and that runs by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from kagura_kernel import assembly
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested
from kagura_kernel.testing.patience import wait_until

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.approvals import ApprovalRequest
    from kagura_kernel.domain.events import AnyEvent
    from kagura_kernel.runs.request import RunRequest


class Calendar:
    """A `domain.clock.Clock` that stands still until the story goes on; whoever sleeps does so in real time.

    Args:
        start: When the story begins.
    """

    def __init__(self, start: datetime = datetime(2026, 6, 1, 9, tzinfo=UTC)) -> None:
        self._start = start
        self._passed = timedelta()

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += timedelta(seconds=seconds)

    def next_day(self, days: int = 1) -> None:
        """Go on to the time of day at which the story begins, so many days later."""
        self._passed = timedelta(days=self._passed.days + days)

    def now(self) -> datetime:
        """The story's time of day, aware, UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds since the story began."""
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop, in real time."""
        await asyncio.sleep(seconds)


class Person:
    """Somebody at the notebook, who answers each question at once.

    Args:
        name: Whose answers they are.
        answering: What a question is answered with: None is no, any other text is a yes with these words.
    """

    def __init__(self, name: str, answering: Callable[[ApprovalRequest], str | None]) -> None:
        self.asked: list[ApprovalRequest] = []  # Every question so far, the oldest first
        self._name = name
        self._answering = answering

    def listen(self, cockpit: Cockpit, handle: RunHandle) -> None:
        """Answer what a run asks and policy does not answer, by the door that a click takes."""
        known: set[str] = set()
        over: set[str] = set()

        def heard(event: AnyEvent) -> None:
            if isinstance(event, ApprovalDecided):
                over.add(event.approval_id)
            elif isinstance(event, ApprovalRequested) and event.approval_id not in known:
                known.add(event.approval_id)
                Thread(target=self._answer, args=(cockpit, event.approval_id, over), daemon=True).start()

        handle.subscribe(heard)

    def _answer(self, cockpit: Cockpit, approval_id: str, over: Collection[str]) -> None:
        found: list[ApprovalRequest] = []

        def waits() -> bool:
            found.extend(one for one in cockpit.pending() if one.id == approval_id)
            return bool(found) or approval_id in over

        # Whoever is faster has answered, and a notebook that ends asks nothing any more.
        with suppress(KaguraError):
            wait_until(waits)
            for request in found[:1]:
                self.asked.append(request)
                said = self._answering(request)
                cockpit.decide(request.id, said is not None, by=self._name, via="cell", answer=said or "")


class Stage(Cockpit):
    """A cockpit at whose every run a person sits, also where a notebook is run by a program.

    Args:
        parts: What it is joined from.
        person: Who answers.
    """

    def __init__(self, parts: CockpitParts, person: Person) -> None:
        super().__init__(parts)
        self._person = person

    def launch(self, intent: RunRequest) -> RunHandle:
        """As any cockpit."""
        handle = super().launch(intent._replace(headless=False))
        self._person.listen(self, handle)
        return handle


def stage(brain: BrainProvider, person: Person, calendar: Calendar) -> None:
    """Let the cockpits of this process be the story's from now on, as its settings and environment make them.

    Args:
        brain: The only one there is.
        person: Who answers.
        calendar: Its time.
    """
    join = partial(Stage, person=person)
    assembly.use_cockpit(partial(assembly.make_cockpit, clock=calendar, brains=(brain,), join=join))
