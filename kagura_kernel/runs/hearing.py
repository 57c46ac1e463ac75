"""What a person says to a run that goes on: stored first, then handed to its brain, which takes it at its next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from kagura_kernel.brain.provider import BrainHeard
from kagura_kernel.domain.events import PersonHeard, PersonSaid
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.runs.order import RunOrder

NOT_BEGUN = "it has not begun yet. Say it again in a moment"
NO_BRAIN = "it is a cell's own code, in which nobody listens"
OVER = "it has ended"


class Hearing:
    """One run's ear. Used on its loop.

    Args:
        order: What was asked for.
        record: Stores an event.
        shown: Takes the secrets out of a text.
    """

    def __init__(self, order: RunOrder, record: Callable[..., Any], shown: Callable[[str], Awaitable[str]]) -> None:
        self.sentences: asyncio.Queue[Sentence] = asyncio.Queue()  # For the brain's turn
        self._brain = order.brain
        self._record = record
        self._shown = shown
        self._why_not = NOT_BEGUN
        self._goes_on = False

    def begin(self) -> None:
        """The run is in the journal."""
        self._goes_on, self._why_not = True, ""
        if self._brain is None:
            self._why_not = NO_BRAIN
        elif not self._brain.capabilities().listens:
            self._why_not = f"the {self._brain.name} brain takes nothing while it works"

    def thought(self) -> None:
        """The brain has finished."""
        self._why_not = self._why_not or "its brain has finished thinking"

    def end(self) -> None:
        """Nothing of the run is stored any more."""
        self._goes_on, self._why_not = False, OVER

    async def take(self, sentence: Sentence) -> str:
        """Store what was said and hand it on: why that cannot be, as a clause; empty where it can.

        Raises:
            JournalError: it could not be stored; the brain is not told.
        """
        text = await self._shown(sentence.text)
        if not self._goes_on:
            return self._why_not
        self._tell(replace(sentence, text=text), refused=self._why_not)
        if not self._why_not:
            self.sentences.put_nowait(replace(sentence, text=text))
        return self._why_not

    def heard(self, event: BrainHeard) -> None:
        """The brain has taken something up: one of these, or in a cassette what was said when it was recorded."""
        name = event.id
        if not name:
            sentence = Sentence(event.text, via="cassette")
            self._tell(sentence)
            name = sentence.id
        self._record(PersonHeard, sentence_id=name)

    def _tell(self, said: Sentence, refused: str = "") -> None:
        self._record(PersonSaid, sentence_id=said.id, text=said.text, by=said.by, via=said.via, refused=refused)
