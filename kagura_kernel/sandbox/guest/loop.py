"""One poll loop, one thread: descriptors, timers, long work cut into short steps; and the guest's end of the pipe."""

from __future__ import annotations

import os
import select
import time

from . import frames

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Handler = Callable[[int], None]
    Work = Iterator[bool]


READ = select.EPOLLIN
WRITE = select.EPOLLOUT
SILENT = select.EPOLLRDHUP  # it sends no more; it may have gone, or not
GONE = select.EPOLLHUP | select.EPOLLERR
PAUSED = -1  # not even a hang-up is told; it would be told again and again
SLICE = 0.01  # seconds that long work may take before descriptors are looked at again


class Loop:
    """Calls handlers when descriptors are ready and timers are due.

    A handler may add and remove anything, itself included. Work is an iterator: each step does a little and yields
    whether it can go on at once (False: it waits to be put back with `resume`).
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._interest: dict[int, int] = {}
        self._timers: dict[object, tuple[float, Callable[[], None]]] = {}
        self._work: list[Work] = []
        self.running = True

    def watch(self, fd: int, interest: int, handler: Handler) -> None:
        """Call `handler(events)` when `fd` is ready; `interest` 0 is told of hang-ups only."""
        self._handlers[fd] = handler
        self._interest[fd] = interest
        self._poll.register(fd, interest)

    def change(self, fd: int, interest: int) -> None:
        """Watch `fd` for something else."""
        before = self._interest.get(fd, interest)
        if before == interest:
            return
        self._interest[fd] = interest
        if before == PAUSED:
            self._poll.register(fd, interest)
        elif interest == PAUSED:
            self._poll.unregister(fd)
        else:
            self._poll.modify(fd, interest)

    def forget(self, fd: int) -> None:
        """Stop watching `fd`, before it is closed; may be called twice."""
        if self._handlers.pop(fd, None) is not None and self._interest.pop(fd) != PAUSED:
            self._poll.unregister(fd)

    def after(self, key: object, seconds: float, call: Callable[[], None]) -> None:
        """Call once in `seconds`; a timer of the same key is replaced."""
        self._timers[key] = (time.monotonic() + seconds, call)

    def cancel(self, key: object) -> None:
        """Forget a timer, if it is there."""
        self._timers.pop(key, None)

    def resume(self, work: Work) -> None:
        """Go on with `work` as soon as nothing is more urgent."""
        if work not in self._work:
            self._work.append(work)

    def drop(self, work: Work) -> None:
        """Never go on with `work`."""
        if work in self._work:
            self._work.remove(work)

    def run(self) -> None:
        """Until `running` is false."""
        while self.running:
            for fd, events in self._wait():
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler(events)
            if self._timers:
                self._fire()
            if self._work:
                self._step()

    def _wait(self) -> list[tuple[int, int]]:
        timeout: float | None = None
        if self._work:
            timeout = 0.0
        elif self._timers:
            timeout = max(0.0, min(due for due, _ in self._timers.values()) - time.monotonic())
        return self._poll.poll(timeout)

    def _fire(self) -> None:
        now = time.monotonic()
        for key, (due, call) in list(self._timers.items()):
            if due <= now and self._timers.get(key, (0.0, None))[1] is call:
                del self._timers[key]
                call()

    def _step(self) -> None:
        until = time.monotonic() + SLICE
        work = self._work.pop(0)
        for go_on in work:
            if not go_on:
                return
            if time.monotonic() > until:
                self._work.append(work)
                return


ROOM = 1024 * 1024
HIGH = 512 * 1024  # with so much waiting to go out, nobody produces more


class Link:
    """The guest's end of the pipe: frames out, frames in, and never a call that blocks.

    It hands received frames to `on_frame(type, stream, payload)`; a payload is valid during the call.

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
        written = 0
        if not self._out:
            try:
                written = os.writev(self._write_fd, parts)
            except BlockingIOError:
                pass
            except OSError:
                self._loop.running = False
                return
            if written == len(parts[0]) + len(payload):
                return
            self._watch_out(on=True)
        rest = memoryview(b"".join(parts))[written:]
        self._out.append(rest)
        self._waiting += len(rest)

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
