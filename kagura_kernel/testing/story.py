"""A notebook's cockpit on a stage: a calendar that can be turned, a brain of the story's own, and a person who answers.

Everything else is the real thing, as a notebook has it: boxes, journal, memory, host commands, approvals. It is what a
notebook needs that tells of weeks, and that runs by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kagura_kernel import assembly

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.intents import Launch
    from kagura_kernel.domain.approvals import ApprovalRequest, Decision


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

    Attributes:
        asked: Every question so far, the oldest first.

    Args:
        name: Whose answers they are.
        answering: What a question is answered with: None is no, any other text is a yes with these words.
    """

    def __init__(self, name: str, answering: Callable[[ApprovalRequest], str | None]) -> None:
        self.asked: list[ApprovalRequest] = []
        self._name = name
        self._answering = answering

    def sit_down(self, cockpit: Cockpit) -> None:
        """Answer what waits for a person in a cockpit from now on, by the door that a click takes."""
        desk = cockpit._desk  # noqa: SLF001 - only there is known what policy has not answered
        wait = desk.approve

        async def approve(request: ApprovalRequest) -> Decision:
            self.asked.append(request)
            waiting = asyncio.create_task(wait(request))
            try:
                # Its question lies in the mailbox after the first turn.
                await asyncio.sleep(0)
                said = self._answering(request)
                cockpit.decide(request.id, said is not None, by=self._name, via="cell", answer=said or "")
                return await waiting
            finally:
                waiting.cancel()

        vars(desk)["approve"] = approve


def stage(brain: BrainProvider, person: Person, calendar: Calendar) -> None:
    """Let the cockpits of this process be the story's from now on, as its settings and environment make them.

    Every run is one at which somebody sits, also where a notebook is run by a program.

    Args:
        brain: The only one there is.
        person: Who answers.
        calendar: Its time.
    """
    assembly.close_cockpit()
    make = assembly.make_cockpit

    def staged(environ: Mapping[str, str]) -> Cockpit:
        cockpit = make(environ, clock=calendar)
        begin = cockpit.launch

        def launch(intent: Launch) -> RunHandle:
            return begin(replace(intent, headless=False))

        vars(cockpit)["launch"] = launch
        person.sit_down(cockpit)
        return cockpit

    # What a module is made of; a story lasts as long as its process.
    vars(assembly).update(make_cockpit=staged, _brains=lambda *_: {brain.name: brain})
