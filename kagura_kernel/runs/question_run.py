"""A run that is one question to a brain: no box, no tools, nobody to talk to, and everything of it in the journal."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainProvider, BrainText, BrainUsage, Turn
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import BrainLost, RunKilled
from kagura_kernel.domain.events import AnyEvent, RunFinished, RunStarted, TextStreamed, TextWritten
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.spending import DayBudget
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.membrane.run_leases import Leasing
from kagura_kernel.runs.ledger import Account, Books
from kagura_kernel.runs.order import Price
from kagura_kernel.runs.recorder import Recorder, told
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.run_end import Ending, Work

T = TypeVar("T")


class BrainSilent(Exception):
    """The brain has said nothing for too long. Not for people: whoever asks says what now."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a brain is asked."""

    task: str  # As a person's message
    system: str  # Its place
    model: str  # The model asked for; empty is the brain's own choice
    most: int  # Characters of an answer; one that grows beyond that is cut off there
    silence: float  # Seconds in which it may say nothing


async def ask(brain: BrainProvider, question: Question, books: Books) -> str:
    """The answer, as it was.

    Args:
        brain: Who is asked, in a session of its own.
        question: What.
        books: Where it is recorded and paid.

    Raises:
        BrainSilent: it said nothing for too long.
        BrainError: it could not answer.
        BudgetExhausted: it has cost what it may.
    """
    turn = Turn(
        task=question.task,
        system=question.system,
        tools=(),
        call_tool=_no_tools,
        model=question.model,
        budget_usd=books.account.left_usd,
        max_turns=1,
    )
    stream: AsyncGenerator[BrainEvent, None] = brain.run(turn)  # type: ignore[assignment]
    whole, growing, most = "", "", question.most
    async with aclosing(stream):
        while True:
            match await within(books.clock, question.silence, _one(stream)):
                case BrainText(text, partial=True):
                    growing += text[: most + 1]
                    books.recorder.record(TextStreamed, text=text[:most])
                case BrainText(text):
                    whole, growing = whole + text[: most + 1], ""
                    books.recorder.record(TextWritten, text=text[:most])
                case BrainUsage(usage, answering):
                    books.count(usage, answering)
                    books.account.check()
                case BrainDone() as done:
                    books.close(done)
                    return whole or done.text
                case None:
                    raise BrainLost(brain.name, "it fell silent without finishing")
            if len(whole) + len(growing) > most:
                return whole + growing


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """What work gives, called off where it takes longer.

    Raises:
        BrainSilent: it took longer.
    """
    coming = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({coming, limit}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise BrainSilent
        return coming.result()
    finally:
        limit.cancel()
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


async def _one(stream: AsyncGenerator[BrainEvent, None]) -> BrainEvent | None:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None


async def _no_tools(call: ToolCall) -> ToolResult:
    return ToolResult(f"There is no tool {call.name!r}: this is one answer, without tools.", is_error=True, route="")


@dataclass(frozen=True, slots=True)
class QuestionOrder:
    """What every such run is told."""

    run_id: str
    session_id: str  # The session that it belongs to. The brain gets a fresh one, which nothing goes on from.
    _: KW_ONLY
    brain: BrainProvider | None = None  # Who is asked; None for nobody
    brain_reason: str = ""  # Why this one, or why none: half a sentence
    model: str = ""  # Model asked for; empty is the brain's own choice
    budget_usd: float | None = None  # Limit in USD; None is none
    origin: str = "api"  # Where it was asked for
    by: str = ""  # Who asked for it
    user: str = ""  # Login name
    owner: str = ""  # The process that runs it


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """What carries one out."""

    journal: Journal  # Where every fact goes
    clock: Clock  # The time
    price: Price  # What tokens cost
    redactor: Redactor  # Finds secrets in what is told of it
    day: DayBudget | None = None  # What limits all runs of its person; None where nothing does


class QuestionRun(ABC):
    """One that can be listened to once, and stopped at any time."""

    leasing: Leasing | None = None
    """It is given nothing."""

    unheard = "it is one question, which is fixed"
    """Why nobody can be told anything."""

    def __init__(self, order: QuestionOrder, parts: QuestionParts) -> None:
        self.outcome: RunOutcome | None = None  # How it ended; None until the iterator of events has ended
        self.order = order  # What was asked for
        self._clock = parts.clock
        self._recorder = Recorder(parts.journal, parts.clock, order.run_id, order.session_id)
        self._redacting = Redacting(parts.redactor)
        self._recorder.redact = self._redacting.event
        self._account = Account(order.budget_usd, parts.day)
        self._books = Books(self._account, self._recorder, parts.price, parts.clock)
        self._work = Work(order.run_id)

    def kill(self, by: str) -> None:
        """Stop it, on the run's own loop; nothing comes of it. May be called twice."""
        self._work.stop(RunKilled(self.order.run_id, by))

    async def say(self, _sentence: Sentence) -> str:
        """Why nobody can be told anything."""
        return self.unheard

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, to the end. Closing the iterator early stops the run.

        Raises:
            JournalError: a fact could not be stored; the run was stopped.
        """
        return told(self._recorder, self._drive, f"drive {self.order.run_id}")

    @abstractmethod
    def _started(self) -> dict[str, Any]:
        """What its first row says beside what every such run's does."""

    @abstractmethod
    async def _examine(self) -> Ending:
        """Ask, and make of the answer what the run is there for."""

    async def _drive(self) -> None:
        began = self._clock.monotonic()
        order = self.order
        self._recorder.record(
            RunStarted,
            brain=order.brain.name if order.brain else "",
            brain_reason=order.brain_reason,
            model=order.model if order.brain else "",
            write_mode="none",
            budget_usd=order.budget_usd,
            origin=order.origin,
            user=order.user,
            owner=order.owner,
            protected=(),
            **self._started(),
        )
        ending = Ending("killed", error=RunKilled(self.order.run_id, "the end of its process"))
        try:
            ending = await self._work.to_the_end(self._examine())
        finally:
            self._finish(ending, self._clock.monotonic() - began)

    def _finish(self, ending: Ending, duration: float) -> None:
        order, account = self.order, self._account
        self.outcome = RunOutcome(
            run_id=order.run_id,
            session_id=order.session_id,
            status=ending.status,
            text=self._redacting.text(ending.text),
            cost=account.cost,
            usage=account.usage,
            duration=duration,
            error_code=ending.error_code,
            error=self._redacting.text(ending.error_text),
        )
        # Without `brain_session`: a later run of the session goes on from its own last one, never from this.
        self._recorder.record(
            RunFinished,
            status=ending.status,
            text=ending.text,
            error_code=ending.error_code,
            error=ending.error_text,
            brain=order.brain.name if order.brain else "",
            **account.figures(order.model if order.brain else ""),
            duration=duration,
            changed_files=0,
        )
