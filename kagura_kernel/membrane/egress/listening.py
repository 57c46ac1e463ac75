"""The proxy on the host: clients of a listening socket become streams of a run's egress.

For boxes that are given a socket instead of the pipe, and for programs of ours that go through the membrane. A client
has a few seconds to say where it wants to go; when too many are still saying it, the one that has taken longest goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.proxy import BadRequest, HttpFront
from kagura_kernel.membrane.egress.socks import VERSION, BadGreeting, SocksFront
from kagura_kernel.membrane.egress.stream import SocketStream

HEADS = 256
HEAD_SECONDS = 10.0
LINGER_SECONDS = 1.0
LINGER_BYTES = 256 * 1024
_HEAD_CHUNK = 16 * 1024


class Front(Protocol):
    """One client's protocol, in terms of bytes; see `proxy.HttpFront` for what each call promises."""

    target: tuple[str, int] | None
    tunnel: bool

    def feed(self, data: bytes) -> bytes:
        """Bytes from the client to bytes for the other side."""
        ...

    def take_reply(self) -> bytes:
        """What the client is told before there is a target."""
        ...

    def accepted(self) -> bytes:
        """What it is told when the connection stands."""
        ...

    def refused(self, status: int, text: str) -> bytes:
        """What it is told when there is none."""
        ...


class FrontStream(SocketStream):
    """A client that speaks HTTP or SOCKS to us, as a `BoxStream`.

    Args:
        connection: The client's socket; owned by this.
        front: Its protocol, past the head.
        early: What of the client's bytes is already meant for the other side.
    """

    def __init__(self, connection: socket.socket, front: Front, early: bytes) -> None:
        super().__init__(connection)
        self._front = front
        self._early = early

    async def accept(self) -> None:
        """Say yes in the client's words."""
        if words := self._front.accepted():
            await self.write(words)

    async def refuse(self, refusal: EgressRefused) -> None:
        """Say no in the client's words, and wait a moment so that it can hear them."""
        await self.say_no(refusal.status, refusal.message)

    async def say_no(self, status: int, text: str) -> None:
        """Answer, then read what the client still sends: closing over unread bytes would take the answer back."""
        await self.write(self._front.refused(status, text))
        await super().write_eof()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                left = LINGER_BYTES
                while left > 0 and (data := await super().read(left)):
                    left -= len(data)

    async def read(self, limit: int) -> bytes:
        """Bytes for the other side, as the client's protocol lets them pass.

        Raises:
            OSError: the client is gone, or has sent what it may not.
        """
        while not self._early:
            data = await super().read(limit)
            if not data:
                return b""
            try:
                self._early = self._front.feed(data)
            except BadRequest as error:
                raise ConnectionAbortedError(errno.ECONNABORTED, str(error)) from error
        data, self._early = self._early[:limit], self._early[limit:]
        return data

    async def write_eof(self) -> None:
        """End the answer; one that ends a plain request ends the client's connection too."""
        await super().write_eof()
        if not self._front.tunnel:
            with contextlib.suppress(OSError):  # the client may have gone first
                self._socket.shutdown(socket.SHUT_RDWR)


class ProxyListener:
    """Takes the clients of one listening socket, TCP or unix; close it on the loop that started it.

    Args:
        egress: Serves them.
        failed: Told of an error that is not the client's: the run was called off, a fact could not be recorded.
        heads: Clients at once that have not yet said where they want to go.
        head_seconds: How long one may take to say it.
    """

    def __init__(
        self,
        egress: Egress,
        failed: Callable[[BaseException], None],
        *,
        heads: int = HEADS,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        self._egress = egress
        self._failed = failed
        self._heads = heads
        self._head_seconds = head_seconds
        self._speaking: dict[asyncio.Task[None], None] = {}
        self._clients: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self, listener: socket.socket) -> None:
        """Begin to take clients; the socket listens already, and is owned from here on."""
        listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._accepting = asyncio.ensure_future(self._accept(listener))

    async def close(self) -> None:
        """Stop listening and end every client; returns when nothing is left. May be called twice."""
        everything = [*self._clients, *([self._accepting] if self._accepting else [])]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                        # Descriptors come back when clients end; asking at once again would burn the time they need.
                        self._drop_oldest()
                        await asyncio.sleep(0.05)
                    continue
                if len(self._speaking) >= self._heads:
                    self._drop_oldest()
                task = asyncio.ensure_future(self._client(connection))
                self._clients.add(task)
                self._speaking[task] = None
                task.add_done_callback(self._over)
                # A task that is cancelled before its first step never runs, and would not close its socket.
                task.add_done_callback(partial(_close, connection))

    def _over(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        self._speaking.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _drop_oldest(self) -> None:
        if oldest := next(iter(self._speaking), None):
            del self._speaking[oldest]
            oldest.cancel()

    async def _client(self, connection: socket.socket) -> None:
        with connection:
            try:
                async with asyncio.timeout(self._head_seconds):
                    stream, target = await self._head(connection)
            except (TimeoutError, OSError):
                return
            finally:
                task = asyncio.current_task()
                if task is not None:
                    self._speaking.pop(task, None)
            if target is not None:
                await self._egress.serve(stream, *target)

    async def _head(self, connection: socket.socket) -> tuple[FrontStream, tuple[str, int] | None]:
        data, front = await self._first(connection)
        loop = asyncio.get_running_loop()
        while True:
            try:
                early = front.feed(data)
            except (BadRequest, BadGreeting) as error:
                reply = error.reply if isinstance(error, BadGreeting) else b""
                stream = FrontStream(connection, front, b"")
                await stream.write(front.take_reply() + reply)
                await stream.say_no(error.status, str(error))
                return stream, None
            if reply := front.take_reply():
                await loop.sock_sendall(connection, reply)
            if front.target is not None:
                return FrontStream(connection, front, early), front.target
            data = await self._more(connection)

    async def _first(self, connection: socket.socket) -> tuple[bytes, Front]:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        data = await self._more(connection)
        return data, SocksFront() if data[0] == VERSION else HttpFront()

    async def _more(self, connection: socket.socket) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(connection, _HEAD_CHUNK)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the client went away")
        return data


def _close(connection: socket.socket, _: object) -> None:
    connection.close()
