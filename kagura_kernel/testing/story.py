"""A notebook's cockpit on a stage: a calendar that can be turned, a brain of the story's own, and a person who answers.

Everything else is the real thing, as a notebook has it: boxes, journal, memory, host commands, approvals. It is what a
notebook needs that tells of weeks, and that runs by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kagura_kernel import assembly
from kagura_kernel.domain.errors import ApprovalAlreadyDecided, ApprovalUnknown, JournalError

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.intents import Launch
    from kagura_kernel.domain.approvals import ApprovalRequest

_GLANCE = 0.02
"""Seconds between two looks of a person at what is asked."""


class Calendar:
    """A `domain.clock.Clock` that stands still until the story goes on; whoever sleeps does so in real time.

    Args:
        start: When the story begins.
    """

    def __init__(self, start: datetime = datetime(2026, 6, 1, 9, tzinfo=UTC)) -> None:
        self._start = start
        self._passed = timedelta()

    def go_on(self, *, days: float = 0, seconds: float = 0) -> None:
        """Let time pass."""
        self._passed += timedelta(days=days, seconds=seconds)

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
    """Somebody at the notebook, in a thread of their own that ends with the cockpit.

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
        """Look at the questions of a cockpit from now on."""
        threading.Thread(target=self._watch, args=(cockpit,), name=f"{self._name} at the notebook", daemon=True).start()

    def _watch(self, cockpit: Cockpit) -> None:
        known: set[str] = set()
        # A closed journal is the end of the cockpit, and nothing is left to be answered.
        with contextlib.suppress(JournalError):
            while True:
                for request in cockpit.pending():
                    if request.id not in known:
                        known.add(request.id)
                        self._answer(cockpit, request)
                time.sleep(_GLANCE)

    def _answer(self, cockpit: Cockpit, request: ApprovalRequest) -> None:
        self.asked.append(request)
        said = self._answering(request)
        # The run may be over first.
        with contextlib.suppress(ApprovalAlreadyDecided, ApprovalUnknown):
            cockpit.decide(request.id, said is not None, by=self._name, via="cell", answer=said or "")


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
