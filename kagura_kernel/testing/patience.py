"""Waiting for what must come about, however slow the machine is: a test asks again until it holds, and never once."""

# ruff: noqa: S101 - for tests, which assert; pytest runs them, never python -O
from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator

PATIENCE = 60.0
"""Seconds; only a failing test takes so long."""

_PAUSES = (0.005, 0.05)
"""Seconds between two looks, at first and at most: looking costs what is waited for its processor."""
_SLOWER = 1.3


def _pauses() -> Iterator[float]:
    shortest, longest = _PAUSES
    pause = shortest
    while True:
        yield pause
        pause = min(longest, pause * _SLOWER)


def wait_until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Ask until the answer is yes.

    Raises:
        AssertionError: it was not within `patience` seconds.
    """
    give_up = time.monotonic() + patience
    for pause in _pauses():
        if holds():
            return
        assert time.monotonic() < give_up, _told(holds, patience)
        time.sleep(pause)


async def eventually(holds: Callable[[], object | Awaitable[object]], patience: float = PATIENCE) -> None:
    """Ask until the answer, which may have to be awaited, is yes; everything else on the loop goes on meanwhile.

    Raises:
        AssertionError: it was not within `patience` seconds.
    """
    give_up = time.monotonic() + patience
    for pause in _pauses():
        answer = holds()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() < give_up, _told(holds, patience)
        await asyncio.sleep(pause)


def _told(holds: Callable[[], object], patience: float) -> str:
    code = getattr(holds, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"What was waited for did not come about within {patience:g} seconds{where}."
