"""Work that many wait for and one does: one look-up of a name, one question to a person, however many connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Once(Generic[Key, Result]):
    """Shares work that is under way. What is finished is forgotten: this is no cache.

    Cancelling one who waits leaves the work to the others; cancelling the last one cancels the work.
    """

    def __init__(self) -> None:
        self._under_way: dict[Key, asyncio.Task[Result]] = {}
        self._waiting: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def __contains__(self, key: Key) -> bool:
        return key in self._under_way

    async def share(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the work under way for this key, started here if there is none; its error too."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(work())
            self._under_way[key] = task
            self._waiting[key] = 0
            task.add_done_callback(lambda done: self._forget(key, done))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            # The entry may be that of later work by now.
            if self._under_way.get(key) is task:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    self._forget(key, task)
                    task.cancel()

    def _forget(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key], self._waiting[key]
        if task.done() and not task.cancelled():
            # Whoever waited has the error; when all have left nobody asks, and the loop shall not complain about it.
            task.exception()
