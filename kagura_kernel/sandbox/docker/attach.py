"""The pipe to a guest in a container: Docker's attach stream, taken over from its HTTP connection.

The daemon wraps what the container prints in records (which stream, how long); standard output goes to the channel,
the last of standard error is kept to explain a death. A record that cannot be is the end of the pipe.

Not the library's `attach_socket`: it has no deadline and cannot be cancelled, what comes with the head of the answer
stays in a buffer of its own, and over TLS it gives a socket that no loop can wait for.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.pipe import Buffer, PipeSink

_HEADER = 8
_STDOUT, _STDERR = 1, 2
_STDERR_KEPT = 4096
_HEAD_LIMIT = 64 * 1024
_BACKLOG = 256 * 1024


class Demultiplexer:
    """Takes Docker's records apart, however the bytes are cut."""

    def __init__(self, sink: PipeSink) -> None:
        self._sink = sink
        self._header = bytearray()
        self._stream = 0
        self._left = 0
        self.stderr = bytearray()

    def feed(self, data: Buffer) -> str:
        """Pass on what is in `data`; a half sentence when it is no record, else an empty text."""
        view = memoryview(data)
        while view:
            if not self._left:
                wanted = _HEADER - len(self._header)
                self._header += view[:wanted]
                view = view[wanted:]
                if len(self._header) < _HEADER:
                    break
                self._stream, self._left = self._header[0], int.from_bytes(self._header[4:], "big")
                if self._stream not in (_STDOUT, _STDERR) or any(self._header[1:4]):
                    return "the daemon's stream is not made of records"
                self._header.clear()
                continue
            part, view = view[: self._left], view[self._left :]
            self._left -= len(part)
            if self._stream == _STDOUT:
                self._sink.feed(part)
            else:
                self.stderr += part
                del self.stderr[:-_STDERR_KEPT]
        return ""


class AttachPipe(asyncio.Protocol):
    """A `Pipe` over an attached container; made by `attach`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._upgraded: asyncio.Future[bytes] = loop.create_future()
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._records: Demultiplexer | None = None
        self._sink: PipeSink | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ended = ""

    @property
    def stderr(self) -> str:
        """The last of what the guest complained of."""
        return self._records.stderr.decode("utf-8", "replace").strip() if self._records else ""

    @property
    def backlog(self) -> int:
        """Bytes written and not yet taken by the daemon."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once."""
        self._sink = sink
        self._records = Demultiplexer(sink)
        if self._head:
            self._pass_on(bytes(self._head))
            self._head.clear()
        if self._ended:
            sink.ended(self._ended)
        elif self._transport is not None:
            self._transport.resume_reading()

    def write(self, *parts: Buffer) -> None:
        """Send all of `parts`, in order; never blocks, never raises for a pipe that is gone."""
        if self._transport is not None and not self._transport.is_closing():
            # Joined, not kept: a caller may reuse its buffers as soon as this returns.
            self._transport.write(b"".join(parts))

    async def drained(self) -> None:
        """Return when the backlog is small (again), or the pipe is gone."""
        await self._room.wait()

    def close(self) -> None:
        """Let go of the connection; the daemon then ends the guest's input. May be called twice."""
        if self._transport is not None:
            # Not closed: that would wait for bytes which nobody takes any more.
            self._transport.abort()
        self._room.set()

    async def upgrade(self, request: bytes) -> None:
        """Ask for the stream and wait until the connection is one."""
        self.write(request)
        head = await self._upgraded
        status = head.split(b"\r\n", 1)[0]
        if b" 101 " not in status and b" 200 " not in status:
            raise SandboxUnavailable(f"Docker refused to attach: {status.decode('latin-1', 'replace')}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_BACKLOG)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._records is not None:
            self._pass_on(data)
            return
        self._head += data
        if self._upgraded.done():
            return
        head, gap, rest = bytes(self._head).partition(b"\r\n\r\n")
        if gap:
            self._head[:] = rest
            if self._transport is not None:
                # Whatever the guest says waits in the daemon until somebody listens.
                self._transport.pause_reading()
            self._upgraded.set_result(head)
        elif len(self._head) > _HEAD_LIMIT:
            self.close()

    def _pass_on(self, data: bytes) -> None:
        if self._records is not None and (wrong := self._records.feed(data)):
            self._end(wrong)
            self.close()

    def eof_received(self) -> bool:
        """Called by the loop."""
        self._end("its container ended")
        self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._end(f"the connection to the Docker daemon broke ({exc})" if exc else "its container ended")

    def _end(self, why: str) -> None:
        first, self._ended = not self._ended, self._ended or why
        self._room.set()
        if not self._upgraded.done():
            self._upgraded.set_exception(SandboxUnavailable(f"Docker did not attach: {why}"))
        if first and self._sink is not None:
            self._sink.ended(why)

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._room.set()


async def attach(endpoint: Endpoint, path: str, body: dict[str, Any] | None = None) -> AttachPipe:
    """Take over the stream that `POST path` gives; cancelling frees the connection.

    Raises:
        SandboxUnavailable: the daemon does not answer or refuses.
    """
    loop = asyncio.get_running_loop()
    try:
        if (socket := endpoint.socket_path) is not None:
            _, pipe = await loop.create_unix_connection(AttachPipe, socket)
        else:
            _, pipe = await loop.create_connection(AttachPipe, *endpoint.address, ssl=endpoint.tls())
    except OSError as error:
        raise SandboxUnavailable(f"the Docker daemon at {endpoint.url} does not answer ({error})") from error
    text = b"" if body is None else json.dumps(body).encode()
    request = (
        f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    try:
        await pipe.upgrade(request.encode() + text)
    except BaseException:
        pipe.close()
        raise
    return pipe
