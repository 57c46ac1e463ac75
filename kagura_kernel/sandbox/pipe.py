"""The byte stream to one guest: what a channel asks of it, and the plain one over two file descriptors.

A write never blocks the loop. Bytes that the other end does not take wait in memory; the channel looks at `backlog`
and sends no data while it is large, so that they stay few.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from itertools import islice
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

LOW = 256 * 1024
MANY = 64
PIPE_SIZE = 1024 * 1024
F_SETPIPE_SZ = 1031  # Linux; other systems answer with an error, which is fine


class PipeSink(Protocol):
    """Where a pipe delivers what the guest sent; a channel is one."""

    def get_buffer(self) -> memoryview:
        """Room to read into, never empty; valid until the next call of any method."""
        ...

    def buffer_updated(self, count: int) -> None:
        """The first `count` bytes of the room were filled."""
        ...

    def feed(self, data: Buffer) -> None:
        """Bytes that are already in memory; the slower way."""
        ...

    def ended(self, why: str) -> None:
        """Nothing more will come; `why` in half a sentence. May be called twice."""
        ...


class Pipe(Protocol):
    """A byte stream to a guest and back, on one loop. Docker's attach stream is another implementation of it."""

    @property
    def backlog(self) -> int:
        """Bytes written and not yet taken by the other end."""
        ...

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once."""
        ...

    def write(self, *parts: Buffer) -> None:
        """Send all of `parts`, in order; never blocks, never raises for a pipe that is gone."""
        ...

    async def drained(self) -> None:
        """Return when the backlog is small (again), or the pipe is gone."""
        ...

    def close(self) -> None:
        """Stop reading and writing and free the descriptors; may be called twice."""
        ...


class Waiting:
    """What was written to a pipe and is not yet taken by the other end, in order."""

    def __init__(self) -> None:
        self.parts: deque[memoryview] = deque()
        self.size = 0  # In bytes
        self._room = asyncio.Event()
        self._room.set()

    def add(self, part: bytes | memoryview) -> None:
        """Let one more part wait; nobody changes its bytes any more."""
        self.parts.append(memoryview(part))
        self.size += len(part)
        if self.size > LOW:
            self._room.clear()

    def taken(self, count: int) -> None:
        """The other end has taken so many bytes more."""
        self.size -= count
        while count:
            first = self.parts[0]
            if count < len(first):
                self.parts[0] = first[count:]
                break
            count -= len(first)
            self.parts.popleft()
        if self.size <= LOW:
            self.let_go()

    def clear(self) -> None:
        """Nobody takes any of it any more."""
        self.parts.clear()
        self.size = 0
        self.let_go()

    def let_go(self) -> None:
        """Have nobody wait any longer."""
        self._room.set()

    async def drained(self) -> None:
        """Return when little is waiting (again), or nobody shall wait any longer."""
        await self._room.wait()


class FdPipe:
    """A pipe over two descriptors of ours (they may be the same one, a socket); it closes them."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._sink: PipeSink | None = None
        self._out = Waiting()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing = False
        self._closed = False
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    @property
    def backlog(self) -> int:
        """Bytes written and not yet taken by the other end."""
        return self._out.size

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once, on the running loop."""
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        for fd in {self._read_fd, self._write_fd}:
            _widen(fd)
        self._loop.add_reader(self._read_fd, self._readable)
        if self._out.parts:
            self._watch_out(on=True)

    def write(self, *parts: Buffer) -> None:
        """Send all of `parts`, in order; never blocks, never raises for a pipe that is gone."""
        if self._closed:
            return
        written = 0
        if not self._out.parts:
            try:
                written = os.writev(self._write_fd, parts)
            except BlockingIOError:
                written = 0
            except OSError:
                # The reading side hears of the end too, with all that was sent before it.
                return
        for part in parts:
            size = len(part)
            if written >= size:
                written -= size
                continue
            # A caller may reuse its buffer, so what cannot go out now is copied.
            self._out.add(bytes(part)[written:])
            written = 0
        if self._out.parts:
            self._watch_out(on=True)

    async def drained(self) -> None:
        """Return when the backlog is small (again), or the pipe is gone."""
        await self._out.drained()

    def close(self) -> None:
        """Stop reading and writing and free the descriptors; may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._read_fd)
            self._watch_out(on=False)
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)
        self._out.clear()

    def _watch_out(self, *, on: bool) -> None:
        if self._loop is None or on is self._writing:
            return
        self._writing = on
        if on:
            self._loop.add_writer(self._write_fd, self._writable)
        else:
            self._loop.remove_writer(self._write_fd)

    def _writable(self) -> None:
        try:
            self._out.taken(os.writev(self._write_fd, list(islice(self._out.parts, MANY))))
        except BlockingIOError:
            return
        except OSError:
            self._out.clear()
        if not self._out.parts:
            self._watch_out(on=False)

    def _readable(self) -> None:
        sink = self._sink
        if sink is None or self._closed:
            return
        try:
            count = os.readv(self._read_fd, [sink.get_buffer()])
        except BlockingIOError:
            return
        except OSError as problem:
            self._end(sink, f"its pipe broke ({problem.strerror})")
            return
        if count:
            sink.buffer_updated(count)
        else:
            self._end(sink, "its pipe was closed")

    def _end(self, sink: PipeSink, why: str) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._read_fd)
        sink.ended(why)


def _widen(fd: int) -> None:
    """Ask for a larger pipe: more bytes in one call. A socket, or a user at the limit, keeps what it has."""
    try:
        fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        return
