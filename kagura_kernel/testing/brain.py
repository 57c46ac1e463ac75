"""A brain that follows a script, for tests of everything around a brain.

::

    brain = FakeBrain(["I look.", Ask("bash", {"command": "ls"}), lambda results: f"It said: {results[-1].text}"])
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal

from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainHeard,
    BrainSession,
    BrainText,
    BrainUsage,
    Turn,
    all_images,
    no_images,
)
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.tools import ToolCall, ToolResult

PER_ROUND = Usage(input_tokens=1420, output_tokens=40, cache_read_tokens=1000, cache_write_tokens=300)


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Together:
    """Several tool calls at once."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Listen:
    """Wait until a person says something, and take it up."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence, for `seconds` or until it is cancelled."""

    seconds: float | None = None


PlainStep = str | Ask | Together | Listen | Hang | Exception
Step = PlainStep | Callable[[Sequence[ToolResult]], PlainStep]


class FakeBrain:
    """Yields its script: a text is a text, an `Ask` is a tool call, an exception is raised, a callable is asked.

    A callable is given the results of all tool calls so far. Every tool call and the last text end a round, which is
    counted as `PER_ROUND`. It takes what a person says at its `Listen` steps, and without one not at all.
    """

    def __init__(
        self,
        script: Sequence[Step] = ("Done.",),
        *,
        name: str = "fake",
        model: str = "fake-1",
        ready: bool = True,
        usd_per_round: float | None = 0.003,
        slow_to_stop: float = 0.0,
        session: str = "",
        images: bool = False,
    ) -> None:
        """A brain.

        Args:
            script: What it does in every run.
            name: Its name.
            model: The model it claims to be, unless a turn asks for another.
            ready: Whether it can sign in.
            usd_per_round: What a round costs; None reports no cost and keeps to no budget.
            slow_to_stop: Seconds that it takes to go when it is cancelled or closed.
            session: What it says at once that it needs to go on; empty says nothing before the end.
            images: Whether it takes images.
        """
        self._script = tuple(script)
        self._name = name
        self._model = model
        self._ready = ready
        self._price = usd_per_round
        self._slow = slow_to_stop
        self._session = session
        self._images = images
        self.turns: list[Turn] = []  # Every turn it was given, in order

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def resolve_auth(self) -> AuthContext:
        """As it was made."""
        reason = "it needs no sign-in" if self._ready else "it was made without a sign-in"
        return AuthContext(ready=self._ready, method="none needed", reason=reason)

    def capabilities(self) -> BrainCapabilities:
        """It streams; with a price it reports costs and keeps to a budget."""
        priced = self._price is not None
        listens = any(isinstance(step, Listen) for step in self._script)
        return BrainCapabilities(
            streaming=True,
            resume=True,
            reports_cost=priced,
            budget=priced,
            listens=listens,
            images=all_images if self._images else no_images,
        )

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Follow the script.

        Raises:
            BrainNotConfigured: it was made without a sign-in.
            Exception: those in the script, and what a tool call raises.
        """
        if not self._ready:
            message = f"The {self._name} brain cannot think: {self.resolve_auth().reason}."
            raise BrainNotConfigured(message)
        self.turns.append(turn)
        if self._session:
            yield BrainSession(self._session)
        try:
            async for event in self._follow(turn):
                yield event
        finally:
            if self._slow:
                await asyncio.sleep(self._slow)

    async def _follow(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        progress = _Progress(turn, turn.model or self._model, self._price)
        for scripted in self._script:
            step = scripted(progress.results) if callable(scripted) else scripted
            match step:
                case str():
                    for piece in re.findall(r"\S*\s*", step):
                        yield BrainText(piece, partial=True)
                    progress.text = step
                    yield BrainText(step)
                case Ask() | Together():
                    yield progress.count()
                    await progress.call(step.asks if isinstance(step, Together) else (step,))
                    if stopped := progress.stopped():
                        yield progress.done(stopped)
                        return
                case Listen():
                    said = await turn.sentences.get()
                    yield BrainHeard(said.text, said.id)
                case Hang():
                    await asyncio.sleep(step.seconds if step.seconds is not None else 3600)
                case Exception():
                    raise step
        yield progress.count()
        yield progress.done("")


class _Progress:
    """One run of the script so far."""

    def __init__(self, turn: Turn, model: str, price: float | None) -> None:
        self.results: list[ToolResult] = []
        self.text = ""
        self._turn = turn
        self._model = model
        self._price = price
        self._rounds = 0
        self._usage = Usage()

    def count(self) -> BrainUsage:
        self._rounds += 1
        self._usage += PER_ROUND
        return BrainUsage(PER_ROUND, self._model)

    async def call(self, asks: Sequence[Ask]) -> None:
        tasks = [
            asyncio.ensure_future(self._turn.call_tool(ToolCall(new_call_id(), ask.name, ask.arguments)))
            for ask in asks
        ]
        try:
            self.results += await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def stopped(self) -> Literal["", "budget", "turns"]:
        spent = self._rounds * (self._price or 0.0)
        if self._price is not None and self._turn.budget_usd is not None and spent >= self._turn.budget_usd:
            return "budget"
        if self._turn.max_turns is not None and self._rounds >= self._turn.max_turns:
            return "turns"
        return ""

    def done(self, stopped: Literal["", "budget", "turns"]) -> BrainDone:
        return BrainDone(
            text=self.text,
            session="fake-session",
            reported_usd=None if self._price is None else self._rounds * self._price,
            usage=self._usage,
            model=self._model,
            turns=self._rounds,
            stopped=stopped,
        )
