"""File work on one stream: an operation as a generator, run in short steps, with input and output under credit."""

from __future__ import annotations

import errno

from . import frames
from .link import Link
from .loop import Loop

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any


class Input:
    """What an operation yields when it wants the next bytes from the host; it gets b"" at their end."""


INPUT = Input()

if TYPE_CHECKING:
    # Yields bytes to send, None to let others work, or INPUT; returns the fields of its RESULT; raises OSError.
    Operation = Generator[bytes | Input | None, bytes | None, dict[str, Any]]


class Job:
    """One operation between its OPEN and its RESULT."""

    def __init__(self, loop: Loop, link: Link, stream: int, operation: Operation, done: Callable[[int], None]) -> None:
        self._loop = loop
        self._link = link
        self.stream = stream
        self._operation = operation
        self._done = done
        self._credit = frames.WINDOW
        self._input: list[bytes] = []
        self._ended = False
        self._work = self._steps()
        loop.resume(self._work)

    def feed(self, data: bytes) -> None:
        """More input."""
        self._input.append(data)
        self._go_on()

    def end_input(self) -> None:
        """No more input."""
        self._ended = True
        self._go_on()

    def add_credit(self, count: int) -> None:
        """The host has taken `count` bytes."""
        self._credit += count
        self._go_on()

    def stop(self, _why: str, _grace: float) -> None:
        """Leave it, undoing what is half done."""
        self._loop.drop(self._work)
        self._operation.close()
        self._finish({"error": "ECANCELED", "text": "called off"})

    def _go_on(self) -> None:
        self._loop.resume(self._work)

    def _finish(self, outcome: dict[str, Any]) -> None:
        self._link.send_json(frames.RESULT, self.stream, outcome)
        self._done(self.stream)

    def _steps(self) -> Iterator[bool]:
        given: bytes | None = None
        while True:
            try:
                asked = self._operation.send(given)
            except StopIteration as end:
                self._finish(end.value)
                return
            except OSError as problem:
                self._finish(described(problem))
                return
            # A guest that ended would take the whole box along: whatever a box has laid in the way of one operation
            # (links or names without end, too little memory) must be the end of that operation only.
            except Exception as problem:  # noqa: BLE001
                self._finish({"error": "EIO", "text": f"It cannot be done ({type(problem).__name__})"})
                return
            given = None
            if isinstance(asked, Input):
                while not self._input and not self._ended:
                    yield False
                given = self._take()
            elif asked is not None:
                yield from self._send(asked)
            yield True

    def _take(self) -> bytes:
        if not self._input:
            return b""
        data = self._input.pop(0)
        self._link.send(frames.CREDIT, self.stream, frames.CREDIT_BODY.pack(len(data)))
        return data

    def _send(self, data: bytes) -> Iterator[bool]:
        rest = memoryview(data)
        while rest:
            while self._credit <= 0 or self._link.full:
                if self._link.full:
                    self._link.when_free(self._go_on)
                yield False
            count = min(len(rest), self._credit, frames.MAX_DATA)
            self._credit -= count
            self._link.send(frames.DATA, self.stream, bytes(rest[:count]))
            rest = rest[count:]


def described(problem: OSError) -> dict[str, Any]:
    """A system error as the fields of a RESULT."""
    name = errno.errorcode.get(problem.errno or 0, "EIO")
    return {"error": name, "text": problem.strerror or name}


def refusal(number: int, text: str) -> OSError:
    """An error of our own with a system's number."""
    return OSError(number, text)
