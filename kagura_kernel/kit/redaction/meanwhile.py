"""Something long, done in another thread while this one goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def meanwhile(work: Callable[[], T]) -> Callable[[], T]:
    """Begin to work; what is returned waits for the end of it and gives its result, or raises what it raised."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        # Whatever it is, it is raised again where the result is asked for.
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="kagura-redaction-scan", daemon=True).start()
    # A process that has all the threads it is allowed does it at once.
    except RuntimeError:
        run()
    return future.result
