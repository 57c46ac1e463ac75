"""The thread in which all runs of this process live.

A cell's own loop belongs to the person: it may be blocked, interrupted or reset. Runs, boxes, pools and the desk share
one loop in one thread beside it; each run is a task that carries a copy of the context of whoever launched it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SECONDS = 15.0
"""How long stopping may take before the thread is given up on; boxes end with their pipes even then."""


class Engine:
    """One loop in one daemon thread, started with the first thing it is given."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread has been started and not stopped."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the engine's loop, in a copy of the caller's context; from any thread."""
        # The callback that makes the task runs in a copy of this thread's context, and the task copies that.
        return asyncio.run_coroutine_threadsafe(work, self._start())

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Start a coroutine and block until it is done; never from the engine's own thread."""
        return self.submit(work).result(timeout)

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon; nothing happens when the engine is not running."""
        if self._loop is not None and self.running:
            self._loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """Cancel all that runs, let it clean up, and end the thread; may be called twice."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(STOP_SECONDS)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or not self.running:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="kagura-engine", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=STOP_SECONDS - 5))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
