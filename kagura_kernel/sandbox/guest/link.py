"""The guest's end of the pipe: frames out, frames in, and never a call that blocks."""

from __future__ import annotations

import os

from . import frames
from .loop import GONE, READ, WRITE, Loop

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ROOM = 1024 * 1024
HIGH = 512 * 1024  # with so much waiting to go out, nobody produces more


class Link:
    """Sends frames and hands received ones to `on_frame(type, stream, payload)`; a payload is valid during the call.

    The host is trusted, so frames are not checked here; the end of the pipe, or a frame longer than any it would send,
    is the end of the guest.
    """

    def __init__(
        self, loop: Loop, read_fd: int, write_fd: int, on_frame: Callable[[int, int, memoryview], None]
    ) -> None:
        self._loop = loop
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_frame = on_frame
        self._in = memoryview(bytearray(ROOM))
        self._start = 0
        self._end = 0
        self._out: list[memoryview] = []
        self._waiting = 0
        self._paused: dict[Callable[[], None], None] = {}
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
        """Call once when the link is no longer full; whoever has waited longest is called first."""
        self._paused[call] = None

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
                done = 0
                for part in self._out:
                    if written < len(part):
                        self._out[done] = part[written:]
                        break
                    written -= len(part)
                    done += 1
                del self._out[:done]
        except BlockingIOError:
            pass
        except OSError:
            self._loop.running = False
            return
        if not self._out:
            self._watch_out(on=False)
        while self._paused and not self.full:
            call = next(iter(self._paused))
            del self._paused[call]
            call()

    def _readable(self, events: int) -> None:
        if events & WRITE and self._write_fd == self._read_fd:
            self._writable(events)
        try:
            count = os.readv(self._read_fd, [self._in[self._end :]])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._loop.running = False
            return
        self._end += count
        self._parse()

    def _parse(self) -> None:
        size = frames.HEADER.size
        needed = size
        while self._end - self._start >= size:
            length, kind, stream = frames.HEADER.unpack_from(self._in, self._start)
            if length > frames.MAX_REQUEST:
                self._loop.running = False
                return
            needed = size + length
            stop = self._start + needed
            if self._end < stop:
                break
            self._on_frame(kind, stream, self._in[self._start + size : stop])
            self._start = stop
            needed = size
        self._make_room(needed)

    def _make_room(self, needed: int) -> None:
        """Room for the rest of a frame of `needed` bytes, of which the beginning is there."""
        have = self._end - self._start
        if not have:
            self._start = self._end = 0
            if len(self._in) > ROOM:
                self._in = memoryview(bytearray(ROOM))
        elif needed > len(self._in):
            grown = memoryview(bytearray(needed))
            grown[:have] = self._in[self._start : self._end]
            self._in, self._start, self._end = grown, 0, have
        elif len(self._in) - self._start < max(needed, frames.MAX_DATA):
            self._in[:have] = bytes(self._in[self._start : self._end])
            self._start, self._end = 0, have
