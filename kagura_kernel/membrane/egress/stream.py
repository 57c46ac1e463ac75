"""A connection as the box holds it: what the relay asks of it, and the plain one over a socket.

This is the seam: `boxed.py` makes one out of a stream that the guest carries over the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from typing import Protocol

from kagura_kernel.domain.errors import EgressRefused

Bytes = bytes | bytearray | memoryview

CHUNK = 256 * 1024
"""At most so many bytes are read at once; with it the memory of a connection is bounded."""


class BoxStream(Protocol):
    """The box's end of one connection. Flow-controlled both ways; at most one reader and one writer at a time.

    Order of calls: first `accept` or `refuse`, once, and `gone` any time before. After `accept`: any number of `read`
    and `write`, side by side; then `write_eof`; `abort` or `close` at any time, last, and more than once without harm.
    """

    async def gone(self) -> None:
        """Return when the box's end has hung up before it was answered; a half-close is no hang-up. Never raises."""
        ...

    async def accept(self) -> None:
        """Tell the box that it has its connection."""
        ...

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell the box why it has none; `status` and `message` are meant for it. Nothing else follows but `close`."""
        ...

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes from the box, waiting for the first; empty when it has no more to send.

        Reading is what gives the box credit to send: what is not read is not taken from it.

        Raises:
            OSError: the box's end is gone.
        """
        ...

    async def write(self, data: Bytes) -> None:
        """Hand all of `data` over; returns when there is room for more. The buffer is the caller's again after it.

        Raises:
            OSError: the box's end is gone.
        """
        ...

    async def write_eof(self) -> None:
        """No more bytes for the box; it may go on sending."""
        ...

    def abort(self) -> None:
        """End it so that the box cannot take what it has for the whole: a reset, no end of file."""
        ...

    def close(self) -> None:
        """End it, and free what it holds; in order only if `write_eof` was called, where the box can tell."""
        ...


class SocketStream:
    """A connected stream socket as a `BoxStream` without a word before the bytes; it owns the socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._socket = connection
        self._loop = asyncio.get_running_loop()

    async def gone(self) -> None:
        """Return when it was reset, or nothing can pass in either direction."""
        with select.epoll() as poll:
            poll.register(self._socket.fileno(), 0)  # hang-ups and errors alone
            over = asyncio.Event()
            self._loop.add_reader(poll.fileno(), over.set)
            try:
                await over.wait()
            finally:
                self._loop.remove_reader(poll.fileno())

    async def accept(self) -> None:
        """Nothing: the first byte says it."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """A reset: a bare socket has no words."""
        del refusal
        self.abort()

    async def read(self, limit: int) -> bytes:
        """Bytes of the socket."""
        return await self._loop.sock_recv(self._socket, min(limit, CHUNK))

    async def write(self, data: Bytes) -> None:
        """Bytes into the socket."""
        await self._loop.sock_sendall(self._socket, data)

    async def write_eof(self) -> None:
        """Shut the sending side."""
        with contextlib.suppress(OSError):  # the other side may have gone first
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close with a reset."""
        with contextlib.suppress(OSError):  # not every family of sockets knows it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close in order."""
        self._socket.close()
