"""Getting connected: within a time, and nothing left behind where it does not come about; and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from kagura_kernel.cockpit.transports.transport import TransportError

CONNECT_SECONDS = 30.0

LET_IN = "let us in"
"""What a chat does not do that cannot be connected with."""

GO_ON = "go on listening to us"
"""What a chat does not do that has ended a connection for good."""


@runtime_checkable
class Ending(Protocol):
    """A transport that hears by itself when its connection is over for good, which not every one can."""

    async def ended(self) -> None:
        """Wait for that; called once it is open, and called off before it is closed.

        Raises:
            TransportRefused: the chat does not let us in any more.
            TransportError: the connection is over for another reason, and does not come back by itself.
        """
        ...


async def connected(name: str, connect: Awaitable[object], close: Callable[[], Awaitable[None]]) -> None:
    """Return once connected; otherwise everything is closed again.

    Args:
        name: The chat's.
        connect: What connects.
        close: Gives back what it has opened.

    Raises:
        TransportError: it took too long, or as `connect` says.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await connect
    except TimeoutError:
        await close()
        raise TransportError(name, LET_IN, f"no answer within {CONNECT_SECONDS:g} s") from None
    except BaseException:
        await close()
        raise
