"""Connecting to one of several checked addresses: the first that answers. Never looks anything up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address

from kagura_kernel.membrane.egress.limits import FEW, PLACES, Places

Address = IPv4Address | IPv6Address
Dial = Callable[[Address, int], Awaitable[socket.socket]]
"""Connect to an address; the non-blocking socket. Raises OSError. Closes what it opened when it is cancelled."""

STAGGER = 0.25
"""Seconds that an address has to itself before the next one is tried beside it."""


async def dial(address: Address, port: int) -> socket.socket:
    """A connected, non-blocking TCP socket to exactly this address.

    Raises:
        OSError: nothing answered there.
    """
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.IPPROTO_TCP)
    try:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


async def dial_first(
    addresses: Sequence[Address], port: int, dial_one: Dial = dial, places: Places = PLACES
) -> tuple[socket.socket, Address]:
    """Try the addresses in order, the next one when one has failed or is slow; the first connection and its address.

    Args:
        addresses: At least one.
        port: TCP port.
        dial_one: How one address is connected to.
        places: Who tries several at once needs one for each after the first, which is the caller's; without them the
            next address waits until one has failed.

    Raises:
        OSError: none answered; the error of the last one that failed.
    """
    waiting = list(addresses)
    under_way: dict[asyncio.Task[socket.socket], Address] = {}
    beside = 0  # places taken for more than one at once
    problem: OSError = OSError("there is no address to try")
    try:
        while waiting or under_way:
            if waiting and (not under_way or places.take(FEW)):
                beside += bool(under_way)
                address = waiting.pop(0)
                under_way[asyncio.ensure_future(dial_one(address, port))] = address
            patience = STAGGER if waiting else None
            done, _ = await asyncio.wait(under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = under_way[task]
                error = task.exception()
                if error is None:
                    del under_way[task]
                    return task.result(), address
                del under_way[task]
                if not isinstance(error, OSError):
                    raise error
                problem = error
            while beside > max(0, len(under_way) - 1):
                beside -= 1
                places.give()
        raise problem
    finally:
        try:
            await _give_up(under_way)
        finally:
            for _ in range(beside):
                places.give()


async def _give_up(under_way: dict[asyncio.Task[socket.socket], Address]) -> None:
    for task in under_way:
        task.cancel()
    for task in under_way:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            (await task).close()
