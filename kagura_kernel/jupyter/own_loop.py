"""Waiting for a coroutine where nothing can be awaited: it runs in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from kagura_kernel.jupyter.follow import LINGER_SECONDS

_POLL_SECONDS = 0.1

T = TypeVar("T")


def wait_in_thread(work: Coroutine[Any, Any, T], name: str) -> T:
    """Do this in a thread of its own, wait for it, and return what it returns; an interrupt cancels it.

    Args:
        work: What to do.
        name: Of the thread.

    Raises:
        CancelledError: an interrupt ended it.
    """
    result: list[T] = []
    error: list[BaseException] = []
    # Not the thread's own end: a join that is interrupted takes the thread for ended.
    over = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            result.append(loop.run_until_complete(task))
        except BaseException as why:  # noqa: BLE001  # carried over to the caller's thread and raised there
            error.append(why)
        finally:
            try:
                _let_end(loop)
            finally:
                loop.close()
                over.set()

    context = contextvars.copy_context()
    threading.Thread(target=lambda: context.run(run), name=name, daemon=True).start()
    while not over.is_set():
        try:
            over.wait(_POLL_SECONDS)
        except KeyboardInterrupt:
            # It may have ended, and its loop with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
    if error:
        raise error[0]
    return result[0]


def _let_end(loop: asyncio.AbstractEventLoop) -> None:
    """An interrupted run says its last words afterwards: let it, so that nothing is torn off with the loop."""
    if left := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.wait(left, timeout=LINGER_SECONDS))
