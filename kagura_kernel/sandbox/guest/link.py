"""The guest's end of the pipe: frames out, frames in, and never a call that blocks."""

from __future__ import annotations

import os

from . import frames
from .loop import GONE, READ, WRITE, Loop

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHUNK = 256 * 1024
HIGH = 512 * 1024  # with so much waiting to go out, nobody produces more


class Link:
    """Sends frames and hands received ones to `on_frame(type, stream, payload)`.

    The host is trusted, so frames are not checked here; the end of the pipe, or a frame longer than any it would send,
    is the end of the guest.
    """

    def __init__(self, loop: Loop, read_fd: int, write_fd: int, on_frame: Callable[[int, int, bytes], None]) -> None:
        self._loop = loop
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_frame = on_frame
        self._in = bytearray()
        self._out: list[memoryview] = []
        self._waiting = 0
        self._paused: set[Callable[[], None]] = set()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        loop.watch(read_fd, READ, self._readable)
        if write_fd != read_fd:
            loop.watch(write_fd, 0, self._writable)

    @property
    def full(self) -> bool:
        """Whether producers of data should wait; they leave a callback with `when_free`."""
        return self._waiting >= HIGH

    def when_free(self, call: Callable[[], None]) -> None:
        """Call once when the link is no longer full."""
        self._paused.add(call)

    def send(self, kind: int, stream: int, payload: bytes = b"") -> None:
        """Send one frame, now or as soon as the host reads."""
        parts = [frames.HEADER.pack(len(payload), kind, stream), payload]
        if not self._out:
            try:
                written = os.writev(self._write_fd, parts)
            except BlockingIOError:
                written = 0
            except OSError:
                self._loop.running = False
                return
            if written == len(parts[0]) + len(payload):
                return
            rest = memoryview(b"".join(parts))[written:]
            self._out.append(rest)
            self._waiting += len(rest)
            self._watch_out(on=True)
            return
        self._out.append(memoryview(b"".join(parts)))
        self._waiting += len(parts[0]) + len(payload)

    def send_json(self, kind: int, stream: int, value: dict[str, Any]) -> None:
        """Send one control frame."""
        self.send(kind, stream, frames.dumps(value))

    def _watch_out(self, *, on: bool) -> None:
        extra = WRITE if on else 0
        if self._write_fd == self._read_fd:
            self._loop.change(self._write_fd, READ | extra)
        else:
            self._loop.change(self._write_fd, extra)

    def _writable(self, events: int) -> None:
        if events & GONE and not self._out:
            self._loop.running = False
            return
        try:
            while self._out:
                written = os.writev(self._write_fd, self._out[:64])
                self._waiting -= written
                while written and self._out:
                    first = self._out[0]
                    if written < len(first):
                        self._out[0] = first[written:]
                        break
                    written -= len(first)
                    self._out.pop(0)
        except BlockingIOError:
            pass
        except OSError:
            self._loop.running = False
            return
        if not self._out:
            self._watch_out(on=False)
        if not self.full:
            paused, self._paused = self._paused, set()
            for call in paused:
                call()

    def _readable(self, events: int) -> None:
        if events & WRITE and self._write_fd == self._read_fd:
            self._writable(events)
        try:
            data = os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.running = False
            return
        self._in += data
        self._parse()

    def _parse(self) -> None:
        buffer = self._in
        start = 0
        size = frames.HEADER.size
        while len(buffer) - start >= size:
            length, kind, stream = frames.HEADER.unpack_from(buffer, start)
            if length > frames.MAX_REQUEST:
                self._loop.running = False
                return
            end = start + size + length
            if len(buffer) < end:
                break
            self._on_frame(kind, stream, bytes(buffer[start + size : end]))
            start = end
        if start:
            del buffer[:start]
