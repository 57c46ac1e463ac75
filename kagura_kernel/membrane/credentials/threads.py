"""Work that blocks, in a daemon thread of its own.

Not in a pool's: Python waits for those when a loop or the process ends, and a locked keychain waits for a person.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def begin(work: Callable[[], T], name: str) -> Future[T]:
    """Start it; what comes of it is in the future, for any thread."""
    future: Future[T] = Future()
    # From here on nobody can cancel it: what is under way in a thread cannot be interrupted.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def in_thread(work: Callable[[], T], name: str) -> T:
    """What it gives, or its error. Whoever is cancelled leaves the thread to itself; what it gives then is dropped."""
    return await asyncio.wrap_future(begin(work, name))
