"""Limits of time on what providers do: a provider is somebody else's code, and may never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from kagura_kernel.domain.errors import LeaseUnavailable

T = TypeVar("T")

PROVIDER_SECONDS = 25.0
"""How long one mint, one revocation or one look-up may take: longer than `provider_http` gives one exchange."""

CLOSE_SECONDS = 8.0
"""How long a broker that closes waits for mints on their way, and for credentials to be taken back."""

LAST_SECONDS = 2.0
"""How long it then waits for one last attempt at what was owed before."""

GRACE_SECONDS = 1.0
"""How long what was called off may take to end; after that it is left to itself."""


async def bounded(provider: str, call: Coroutine[Any, Any, T]) -> T:
    """What a call to a provider of this name gives within `PROVIDER_SECONDS`.

    Raises:
        LeaseUnavailable: it took longer; whether it had acted by then is unknown.
        BaseException: what the call raises.
    """
    task = asyncio.create_task(call, name=f"ask {provider}")
    try:
        await asyncio.wait({task}, timeout=PROVIDER_SECONDS)
    finally:
        if not task.done():
            await call_off({task})
    if not task.done() or task.cancelled():
        raise LeaseUnavailable(provider, f"it did not answer within {PROVIDER_SECONDS:g} s", uncertain=True)
    return task.result()


async def call_off(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, but not for one that will not."""
    for task in tasks:
        task.cancel()
        # Asking for the error keeps asyncio from complaining that nobody did.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE_SECONDS)


async def finish(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for tasks, at most so long, and end the rest; whoever is cancelled meanwhile ends them all."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, seconds))
    finally:
        rest = [task for task in tasks if not task.done()]
        for task in rest:
            task.cancel()
        # Theirs to clean up in, which the bounds on what they call make short.
        if rest:
            await asyncio.wait(rest)
