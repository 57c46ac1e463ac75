"""A brain that follows another script for every task, for tests of runs that hand work on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainEvent, Turn
from kagura_kernel.testing.brain import FakeBrain, Step


class TaskBrain:
    """Finds its script by the task of a turn.

    Args:
        scripts: A task to what is done about it; the task "" stands for all others.
        name: Its name.
        model: The model that it claims to be.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Step]], *, name: str = "fake", model: str = "fake-1") -> None:
        self._scripts = dict(scripts)
        self._model = model
        self.name = name
        self.turns: list[Turn] = []  # Every turn it was given, in order

    def resolve_auth(self) -> AuthContext:
        """It needs none."""
        return AuthContext(ready=True, method="none needed", reason="it needs no sign-in")

    def capabilities(self) -> BrainCapabilities:
        """Those of a `FakeBrain` that leaves the budget to the run."""
        return self._brain("").capabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Follow the script of its task."""
        self.turns.append(turn)
        stream: AsyncGenerator[BrainEvent, None] = self._brain(turn.task).run(turn)
        async with aclosing(stream):
            async for event in stream:
                yield event

    def _brain(self, task: str) -> FakeBrain:
        script = self._scripts.get(task) or self._scripts.get("", ("Done.",))
        return FakeBrain(script, name=self.name, model=self._model, usd_per_round=None)
