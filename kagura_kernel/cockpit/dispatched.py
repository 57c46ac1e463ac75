"""A set of runs that a program has handed on: under one budget, so many at once, ended together."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.intents import LaunchRun
from kagura_kernel.domain.errors import BudgetExhausted, JournalError, KaguraError, RunKilled
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.patterns.dispatch import LEAST_SHARE_USD, charged, even_share
from kagura_kernel.runs.attempts import to_the_end
from kagura_kernel.runs.order import ChildOrder, Children

if TYPE_CHECKING:
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session for programs works with.

    Attributes:
        engine: Where runs live.
        journal: The record.
        settings: The user's.
        children: Runs what is dispatched.
        launch: Sets a run of the session going.
        clock: The time.
        memory: Opens what is remembered; None where there is no memory.
        redactor: Takes secrets out of what is kept.
    """

    engine: Engine
    journal: Journal
    settings: Settings
    children: Children
    launch: Callable[[LaunchRun], RunHandle]
    clock: Clock
    memory: Callable[[], MemoryStore] | None = None
    redactor: Redactor | None = None


class Dispatched:
    """A set of runs that goes on; any thread and any loop may wait for it.

    Waiting gives one outcome for each task, in their order; a run that did not end well raises nothing, its outcome
    says why. Cancelling or interrupting the wait ends the whole set, and nothing of it stays behind.
    """

    def __init__(
        self, orders: Sequence[ChildOrder], budget_usd: float | None, places: int, parts: SessionParts
    ) -> None:
        self._orders = orders
        self._limit = budget_usd
        self._spent = 0.0
        self._waiting = len(orders)
        self._places = places
        self._parts = parts
        self._tasks: list[asyncio.Task[RunOutcome]] = []
        self._killed = ""
        self._runs: list[str] = []
        self._result = parts.engine.submit(self._all())

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Runs that have begun, in the order in which they did."""
        return tuple(self._runs)

    @property
    def done(self) -> bool:
        """Whether all of them are over."""
        return self._result.done()

    def kill(self, by: str) -> None:
        """End all that goes on and begin nothing more; returns at once."""
        self._killed = self._killed or by
        self._parts.engine.post(self._cancel)

    async def wait(self) -> list[RunOutcome]:
        """One outcome for each task.

        Raises:
            JournalError: facts could not be stored; everything was stopped.
        """
        result = asyncio.wrap_future(self._result)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            self.kill("whoever waited for it")
            await asyncio.wait({result})
            raise

    def __await__(self) -> Generator[Any, None, list[RunOutcome]]:
        """The same as `wait`."""
        return self.wait().__await__()

    def result(self, timeout: float | None = None) -> list[RunOutcome]:
        """The same for callers without a loop; blocks, and never from the engine's own thread.

        Raises:
            TimeoutError: they are not over yet, and go on.
        """
        try:
            return self._result.result(timeout)
        except KeyboardInterrupt:
            self.kill("whoever waited for it")
            concurrent.futures.wait([self._result])
            raise

    # ----------------------------------------------------------- on the engine

    async def _all(self) -> list[RunOutcome]:
        room = asyncio.Semaphore(self._places)
        self._tasks = [asyncio.create_task(self._one(order, room)) for order in self._orders]
        if self._killed:
            self._cancel()
        if self._tasks:
            try:
                # Of what goes wrong, only what must end everything is raised.
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                self._cancel()
                await asyncio.wait(self._tasks)
        return [
            _outcome(order, "killed", RunKilled("The task", self._killed)) if task.cancelled() else task.result()
            for order, task in zip(self._orders, self._tasks, strict=True)
        ]

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _one(self, order: ChildOrder, room: asyncio.Semaphore) -> RunOutcome:
        async with room:
            share = even_share(self._limit, self._spent, self._waiting)
            self._waiting -= 1
            if share is not None and share < LEAST_SHARE_USD:
                return _outcome(order, "stopped", BudgetExhausted(self._spent, self._limit or 0.0))
            reserved = share or 0.0
            self._spent += reserved
            usd: float | None = None
            try:
                outcome = await self._run(replace(order, handoff=replace(order.handoff, budget_usd=share)))
            except JournalError:
                raise
            except KaguraError as error:
                return _outcome(order, "failed", error)
            else:
                usd = outcome.cost.usd
                return outcome
            finally:
                # What nobody knows the cost of has cost all of its share.
                self._spent += charged(share, usd) - reserved

    async def _run(self, order: ChildOrder) -> RunOutcome:
        return await to_the_end(
            self._parts.children, order, self._parts.journal, lambda run_id, _worker: self._runs.append(run_id)
        )


def _outcome(order: ChildOrder, status: str, error: KaguraError) -> RunOutcome:
    """Of a task that has not begun, or was ended from outside."""
    return RunOutcome(run_id="", session_id=order.session_id, status=status, error_code=error.code, error=error.message)
