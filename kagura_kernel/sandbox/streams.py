"""One stream of a channel, as the host sees it: credit both ways, and the result at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.wire import WireError

GIVE_BACK = frames.WINDOW // 4

DataHandler = Callable[[int, memoryview], None]
"""Called with DATA or ERRDATA and a payload that is valid only during the call."""


class Sender(Protocol):
    """What a stream needs of its channel."""

    def send(self, kind: int, stream: int, *parts: bytes | memoryview) -> None:
        """Send one frame; never blocks."""
        ...

    async def drained(self) -> None:
        """Return when the pipe takes data again."""
        ...


class Opener(Protocol):
    """What commands and files need of the channel that they go through."""

    @property
    def slots(self) -> asyncio.Semaphore:
        """How many streams may be open at once; held while one is."""
        ...

    def open(self, request: Mapping[str, Any], on_data: DataHandler) -> HostStream:
        """Open a stream with a request."""
        ...

    async def call_off(self, stream: HostStream, grace: float) -> None:
        """End a stream early and wait until the guest says that it has."""
        ...

    def broke(self, why: WireError | str) -> KaguraError:
        """Close the channel because the guest broke the protocol; the error to raise."""
        ...


class HostStream:
    """A stream that the host opened and the guest serves.

    What the guest sends is handed over as it comes and given back as credit at once: the host always listens. What the
    host sends waits for the guest's credit, so that at most one window of it is under way.
    """

    def __init__(self, stream: int, sender: Sender, on_data: DataHandler) -> None:
        self.id = stream
        self.result: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard_at = asyncio.get_running_loop().time()
        self._sender = sender
        self._on_data = on_data
        self._may_send = frames.WINDOW
        self._may_receive = frames.WINDOW
        self._owed = 0
        self._credit_came: asyncio.Future[None] | None = None

    def received(self, kind: int, payload: memoryview, now: float) -> None:
        """The guest sent data.

        Raises:
            WireError: more than it had credit for, or nothing at all.
        """
        count = len(payload)
        self._may_receive -= count
        if not count:
            raise WireError("an empty data frame")
        if self._may_receive < 0:
            raise WireError("more data than it had credit for")
        self.heard_at = now
        self._on_data(kind, payload)
        self._owed += count
        if self._owed >= GIVE_BACK:
            self._sender.send(frames.CREDIT, self.id, frames.CREDIT_BODY.pack(self._owed))
            self._may_receive += self._owed
            self._owed = 0

    def credited(self, amount: int, now: float) -> None:
        """The guest has taken `amount` bytes.

        Raises:
            WireError: more than was ever sent.
        """
        self._may_send += amount
        if self._may_send > frames.WINDOW:
            raise WireError("more credit than it was sent data")
        self.heard_at = now
        if self._credit_came is not None and not self._credit_came.done():
            self._credit_came.set_result(None)

    def end(self, outcome: dict[str, Any] | BaseException) -> None:
        """No more frames will come."""
        if isinstance(outcome, BaseException):
            self.fail(outcome)
        elif not self.result.done():
            self.result.set_result(outcome)
        if not self.over.done():
            self.over.set_result(None)
        if self._credit_came is not None and not self._credit_came.done():
            self._credit_came.set_result(None)

    def fail(self, problem: BaseException) -> None:
        """Let whoever waits for the result have this instead; the guest does not know of it, see `call_off`."""
        if not self.result.done():
            self.result.set_exception(problem)
            # Whoever left early does not ask; the loop shall not complain about it.
            self.result.exception()

    def send_now(self, data: bytes | memoryview) -> memoryview:
        """Send as much as credit allows; what is left."""
        rest = memoryview(data)
        while rest and self._may_send and not self.result.done():
            count = min(len(rest), self._may_send, frames.MAX_DATA)
            self._may_send -= count
            self._sender.send(frames.DATA, self.id, rest[:count])
            rest = rest[count:]
        return rest

    async def send_all(self, data: bytes | memoryview) -> None:
        """Send all of it, waiting for credit; stops silently when the stream has ended."""
        rest = memoryview(data)
        while True:
            await self._sender.drained()
            rest = self.send_now(rest)
            if not rest or self.result.done():
                return
            self._credit_came = asyncio.get_running_loop().create_future()
            try:
                await self._credit_came
            finally:
                self._credit_came = None

    def send_eof(self) -> None:
        """There is no more to send."""
        if not self.result.done():
            self._sender.send(frames.EOF, self.id)
