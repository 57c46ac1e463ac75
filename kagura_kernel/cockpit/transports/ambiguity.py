"""A text that structure leaves open: a brain says what it is, and where it is not sure the person does, by a button.

What a brain says grants and stops nothing: it can only have a text told to the run that goes on, taken as an answer to
that run's one question, or answered with how things stand. Whatever else is left to the person's own hand.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict

from kagura_kernel.cockpit.message_brain import Message
from kagura_kernel.cockpit.message_intent import Ambiguous, AnswerSaid, Meaning, SentenceSaid, StatusAsked, TaskSaid
from kagura_kernel.cockpit.transports.actions import Acting, Place, Refused
from kagura_kernel.cockpit.transports.messages import one_line, question_text
from kagura_kernel.cockpit.transports.transport import MOST_BUTTONS, Button, Clicked, Post
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import BrainError, QuotaReached, UsageError
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.render.figures import counted, money
from kagura_kernel.runs.message_run import ClassifyingRun

_ACTION = re.compile(r"mean([0-9]):([0-9a-f]{32})")
_MOST_KEPT = 200
_WORDS = {
    "task": "a new task",
    "say": "something for the run",
    "ask": "a question about the run",
    "answer": "an answer to its question",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a text may be."""

    label: str  # What stands on its button
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class _Open:
    thread: str
    choices: tuple[Choice, ...]


@dataclass
class Ambiguities:
    """Those of one chat. Used on one loop. What is asked back is forgotten with the process."""

    acting: Acting  # Does what was meant
    brain: str | None  # Who is asked; None leaves it to the settings
    transport: str  # The chat's name
    _open: OrderedDict[str, _Open] = field(default_factory=OrderedDict)

    async def settle(self, ambiguous: Ambiguous, place: Place) -> str | Post:
        """Do what a text means, or ask back.

        Raises:
            KaguraError: it could not be done; the message says why.
            Refused: it answers a question that cannot be answered any more.
        """
        intent, how = await self._classified(ambiguous, place)
        meaning = _meant(intent, ambiguous)
        if meaning is None:
            return self._asked_back(ambiguous, place, how)
        told = await self.acting.tell(meaning, place)
        return replace(told, ours=f"{told.ours} {how}") if isinstance(told, Post) else f"{told} {how}"

    def chosen(self, clicked: Clicked) -> Choice | None:
        """What a button says that a text is, which is asked no more; None for a button of another kind.

        Raises:
            Refused: nothing is asked that has this button.
        """
        found = _ACTION.fullmatch(clicked.action)
        if found is None:
            return None
        kept = self._open.get(found[2])
        if kept is None or kept.thread != clicked.thread or int(found[1]) >= len(kept.choices):
            raise Refused("that is chosen already, or the server was started again since: say it once more")
        del self._open[found[2]]
        return kept.choices[int(found[1])]

    async def _classified(self, ambiguous: Ambiguous, place: Place) -> tuple[str, str]:
        """The intent, empty where it is not known, and a sentence about who said so at what cost."""
        questions = [question_text(one) for one in ambiguous.questions]
        asked = Message(ambiguous.text, questions, self.brain, self.transport, place.by)
        try:
            handle, run = await asyncio.to_thread(self.acting.cockpit.classify, asked)
        except (BrainError, QuotaReached, UsageError) as error:
            return "", f"No brain was asked: {one_line(error.message, 200)}"
        await handle.wait()
        intent = run.intent or ""
        return intent, f"({_WORDS.get(intent, 'Unsure what it is').capitalize()}, says {_cost(run)}.)"

    def _asked_back(self, ambiguous: Ambiguous, place: Place, how: str) -> Post:
        token = secrets.token_hex(16)
        choices = _choices(ambiguous)
        self._open[token] = _Open(place.thread, choices)
        while len(self._open) > _MOST_KEPT:
            self._open.popitem(last=False)
        buttons = tuple(Button(one.label, f"mean{number}:{token}") for number, one in enumerate(choices))
        waits = "" if ambiguous.questions else " What waits here takes a yes or a no, or its own buttons."
        return Post(f"What is that?{waits} {how}", one_line(ambiguous.text, 300), buttons)


def _meant(intent: str, ambiguous: Ambiguous) -> Meaning | None:
    """What is done about it without asking back. A new task would take the place of the run: that is for a person."""
    if intent == "say":
        return SentenceSaid(ambiguous.run_id, ambiguous.text)
    if intent == "ask":
        return StatusAsked()
    if intent == "answer" and len(ambiguous.questions) == 1:
        return _answer(ambiguous, 0)
    return None


def _choices(ambiguous: Ambiguous) -> tuple[Choice, ...]:
    text = ambiguous.text
    found = [
        Choice("Tell the run", SentenceSaid(ambiguous.run_id, text)),
        Choice("How does it stand?", StatusAsked()),
        Choice("Stop it, do this", TaskSaid(text, goes_on=True)),
    ]
    several = len(ambiguous.questions) > 1
    for number, one in enumerate(ambiguous.questions[: MOST_BUTTONS - len(found)]):
        found.append(Choice(f"Answer {one.id}" if several else "Answer", _answer(ambiguous, number)))
    return tuple(found)


def _answer(ambiguous: Ambiguous, number: int) -> AnswerSaid:
    asked = ambiguous.questions[number]
    if asked.kind is not ApprovalKind.QUESTION:
        raise TypeError("what gives power is never answered so")
    return AnswerSaid(asked.id, allow=True, text=ambiguous.text)


def _cost(run: ClassifyingRun) -> str:
    """Who was asked, and for how much."""
    outcome = run.outcome
    who = f"{run.order.brain.name} {run.model}".strip()
    if outcome is None:
        return who
    tokens = outcome.usage.input_tokens + outcome.usage.output_tokens
    usd = money(outcome.cost.usd) or "cost unknown"
    failed = f"; {one_line(outcome.error, 120).rstrip('.')}" if outcome.error else ""
    return f"{who}, {usd}, {counted(tokens, 'token')}{failed}"
