"""A guest that does what a test tells it, byte by byte: the other end of a channel's pipe.

For tests of how the host bears a guest that lies, floods, falls silent or dies.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.pipe import FdPipe


class ScriptedGuest:
    """One end of a socket pair; reads and sends whatever it is told to."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the socket's own signature
        self._end = end

    async def send(self, data: bytes) -> None:
        """Raw bytes; waits while the host does not read, returns quietly when it has hung up."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._end, data)
        except (BrokenPipeError, ConnectionResetError):
            return

    async def frame(self, kind: int, stream: int, payload: bytes = b"") -> None:
        """One frame, whatever is wrong with it."""
        await self.send(frames.HEADER.pack(len(payload), kind, stream) + payload)

    async def say(self, kind: int, stream: int, value: Mapping[str, Any]) -> None:
        """One control frame."""
        await self.frame(kind, stream, json.dumps(value).encode())

    async def hello(self) -> None:
        """The greeting of a good guest."""
        await self.say(frames.HELLO, 0, {"version": frames.VERSION, "python": "3", "hardened": True})

    async def receive(self) -> tuple[int, int, bytes]:
        """The next frame from the host."""
        length, kind, stream = frames.HEADER.unpack(await self._exactly(frames.HEADER.size))
        return kind, stream, await self._exactly(length)

    async def opened(self) -> tuple[int, dict[str, Any]]:
        """The next stream that the host opens, and its request; other frames are skipped."""
        while True:
            kind, stream, payload = await self.receive()
            if kind == frames.OPEN:
                return stream, json.loads(payload)

    async def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = await asyncio.get_running_loop().sock_recv(self._end, count - len(data))
            if not part:
                raise EOFError("the host hung up")
            data += part
        return data

    def die(self) -> None:
        """Hang up."""
        self._end.close()


@asynccontextmanager
async def scripted_guest(
    *, greet: bool = True, explain: Callable[[], Awaitable[str]] | None = None
) -> AsyncIterator[tuple[BoxChannel, ScriptedGuest]]:
    """A channel and the guest behind it, which has said hello unless told not to."""
    ours, theirs = socket.socketpair()
    fd = ours.detach()
    channel = BoxChannel("box-scripted", FdPipe(fd, fd), explain=explain)
    guest = ScriptedGuest(theirs)
    try:
        channel.start(b"")
        if greet:
            await guest.hello()
            await channel.hello(5)
        yield channel, guest
    finally:
        guest.die()
        await channel.close()
