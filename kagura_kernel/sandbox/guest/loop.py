"""One poll loop, one thread: descriptors, timers, and long work cut into short steps."""

from __future__ import annotations

import select
import time

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
