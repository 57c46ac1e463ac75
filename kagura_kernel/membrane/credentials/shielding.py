"""Work that is done to its end even if its caller is cancelled: a mint that has begun cannot be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Shielding:
    """The shielded work of one broker."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(
        self, work: Coroutine[Any, Any, T], unwanted: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        """The result of the work.

        Args:
            work: What to do; it runs to its end in any case.
            unwanted: What to do with the result when the caller was cancelled and nobody takes it; shielded as well.
        """
        task = self._start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: self._hand_over(done, unwanted))
            raise

    async def finished(self) -> None:
        """Return when nothing goes on any more; whoever is cancelled leaves it to go on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel what goes on, and return when nothing does."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _hand_over(self, done: asyncio.Task[T], unwanted: Callable[[T], Coroutine[Any, Any, object]] | None) -> None:
        # Asking for the exception also keeps asyncio from complaining that nobody did.
        if done.cancelled() or done.exception() is not None or unwanted is None:
            return
        self._start(unwanted(done.result())).add_done_callback(lambda last: self._hand_over(last, None))
