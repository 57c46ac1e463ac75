"""Streams of a box without a box: a listener on this machine's loopback whose clients are served as programs of a box.

For tests of what serves them, with real clients and without a guest in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import select
import socket
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from kagura_kernel.sandbox.backend import Bytes, Failed, Listener, ServeStream

CHUNK = 256 * 1024


class SocketGuestStream:
    """A connected socket as a `GuestStream` of a raw listener; it owns the socket."""

    def __init__(self, connection: socket.socket, name: str = "") -> None:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self.request: Mapping[str, Any] = MappingProxyType({"name": name})
        self._told_eof = False
        self._ended = False

    async def gone(self) -> None:
        """Return when it was reset."""
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

    async def refuse(self, status: int, text: str) -> None:
        """A reset: a bare socket has no words."""
        del status, text
        self.abort()

    async def read(self, limit: int) -> bytes:
        self._require_life()
        return await self._loop.sock_recv(self._socket, min(limit, CHUNK))

    async def write(self, data: Bytes) -> None:
        """Bytes into the socket."""
        self._require_life()
        await self._loop.sock_sendall(self._socket, data)

    async def write_eof(self) -> None:
        """Shut the sending side."""
        self._told_eof = True
        with contextlib.suppress(OSError):  # the other side may have gone first
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close with a reset."""
        if not self._ended:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._end()

    def close(self) -> None:
        """In order after `write_eof`, with a reset without it."""
        if self._told_eof:
            self._end()
        else:
            self.abort()

    def _require_life(self) -> None:
        if self._ended:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the connection was closed on the host")

    def _end(self) -> None:
        self._ended = True
        self._socket.close()


class LoopbackListening:
    """`Box.listen` on this machine's loopback; an async context manager that ends every connection."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []

    async def __aenter__(self) -> Self:
        """Listens to nothing until it is told to."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Every connection is over and every port free when it returns."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Serve each connection to a port of 127.0.0.1: the port."""
        listening = socket.create_server(("127.0.0.1", listener.port), backlog=128)
        listening.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._listeners.append(listening)
        port: int = listening.getsockname()[1]
        self._keep(self._accept(listening, listener.name, serve, failed))
        return port

    async def _accept(self, listening: socket.socket, name: str, serve: ServeStream, failed: Failed | None) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listening)
            self._keep(self._serve(SocketGuestStream(connection, name), serve, failed))

    async def _serve(self, stream: SocketGuestStream, serve: ServeStream, failed: Failed | None) -> None:
        try:
            await serve(stream)
        except Exception as error:
            stream.abort()
            if failed is None:
                raise
            failed(error)
        finally:
            stream.close()

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
