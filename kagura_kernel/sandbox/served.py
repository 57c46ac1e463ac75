"""One connection out of a box, as the host sees it: implements `GuestStream` over a channel.

The guest is believed nothing: what it may send, and when, is checked frame by frame, and what waits here is at most
the credit that the stream was given.
"""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Mapping
from typing import Any

from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.guest_streams import Bytes
from kagura_kernel.sandbox.streams import Sender
from kagura_kernel.sandbox.wire import WireError

MAX_TEXT = 2000


class ServedStream:
    """A connection that the guest opened and somebody on the host serves.

    Args:
        stream: Its id.
        request: What the guest said about it, checked.
        sender: The channel.
        turn: Held by whichever stream waits for the pipe, so that each sends a frame in its turn.
        may_send: What the guest takes before it gives credit.
        may_receive: What it may send after `accept` before it is given credit.
    """

    def __init__(
        self,
        stream: int,
        request: Mapping[str, Any],
        sender: Sender,
        turn: asyncio.Lock,
        *,
        may_send: int,
        may_receive: int,
    ) -> None:
        self.id = stream
        self._request = request
        self._sender = sender
        self._turn = turn
        self._window_out = self._may_send = may_send
        self._window_in = self._may_receive = may_receive
        self._owed = 0
        self._buffer = bytearray()
        self._accepted = False
        self._told_eof = False
        self._heard_eof = False
        self._ended = False
        self._problem: OSError | None = None
        self._came: asyncio.Future[None] | None = None
        self._left: asyncio.Future[None] | None = None
        self._credit_came: asyncio.Future[None] | None = None

    @property
    def request(self) -> Mapping[str, Any]:
        """What the guest said about it."""
        return self._request

    @property
    def ended(self) -> bool:
        """Whether the host has let go of it."""
        return self._ended

    # -------------------------------------------------------- what comes in

    def received(self, payload: memoryview) -> None:
        """The guest sent data.

        Raises:
            WireError: it may not.
        """
        if not self._accepted:
            raise WireError("data on a connection that was not accepted")
        if not len(payload):
            raise WireError("an empty data frame")
        if self._heard_eof:
            raise WireError("data after the end of data")
        self._may_receive -= len(payload)
        if self._may_receive < 0:
            raise WireError("more data than it had credit for")
        if not self._ended:  # otherwise it was under way when the host let go
            self._buffer += payload
            _wake(self._came)

    def heard_eof(self) -> None:
        """The program has no more to send.

        Raises:
            WireError: it said so before, or was not accepted.
        """
        if not self._accepted or self._heard_eof:
            raise WireError("an end of data that cannot be")
        self._heard_eof = True
        _wake(self._came)

    def credited(self, amount: int) -> None:
        """The guest has taken `amount` bytes.

        Raises:
            WireError: more than was ever sent.
        """
        self._may_send += amount
        if self._may_send > self._window_out:
            raise WireError("more credit than it was sent data")
        _wake(self._credit_came)

    @property
    def cancelled(self) -> bool:
        """Whether the guest has let go of it."""
        return self._problem is not None

    def lost(self, why: str) -> None:
        """The guest has let go: the program, or the whole box, is gone."""
        if self._problem is None:
            self._problem = ConnectionResetError(errno.ECONNRESET, why)
        self._buffer = bytearray()
        _wake(self._left)
        _wake(self._came)
        _wake(self._credit_came)

    # ----------------------------------------------------------- GuestStream

    async def gone(self) -> None:
        """Return when the program or the box is gone."""
        while self._problem is None:
            self._left = asyncio.get_running_loop().create_future()
            try:
                await self._left
            finally:
                self._left = None

    async def accept(self) -> None:
        """Tell the program that it has its connection.

        Raises:
            OSError: the program or the box is gone.
        """
        self._require_beginning()
        self._require_life()
        self._accepted = True
        self._say(frames.ACCEPT, {"credit": self._window_in})

    async def refuse(self, status: int, text: str) -> None:
        """Tell the program why it has none."""
        self._require_beginning()
        self._end({"status": status, "text": text[:MAX_TEXT]})

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes; empty when the program has no more to send.

        Raises:
            OSError: the program or the box is gone, or the stream is closed.
        """
        while not self._buffer:
            self._require_life()
            if self._heard_eof:
                return b""
            self._came = asyncio.get_running_loop().create_future()
            try:
                await self._came
            finally:
                self._came = None
        data: Bytes
        if len(self._buffer) <= limit:
            data, self._buffer = self._buffer, bytearray()
        else:
            data = self._buffer[:limit]
            del self._buffer[:limit]
        self._give_back(len(data))
        return data

    async def write(self, data: Bytes) -> None:
        """Hand all of `data` over; returns when there is room for more.

        Raises:
            OSError: the program or the box is gone, or the stream is closed.
        """
        rest = memoryview(data)
        while rest:
            await self._credit()
            async with self._turn:
                await self._sender.drained()
                self._require_life()
                count = min(len(rest), self._may_send, frames.MAX_DATA)
                self._may_send -= count
                self._sender.send(frames.DATA, self.id, rest[:count])
            rest = rest[count:]
        self._require_life()

    async def write_eof(self) -> None:
        """No more bytes for the program."""
        if self._accepted and not (self._told_eof or self._ended or self._problem):
            self._told_eof = True
            self._sender.send(frames.EOF, self.id)

    def abort(self) -> None:
        """End it with a reset."""
        self._end({"error": "ECONNRESET"})

    def close(self) -> None:
        """End it: in order if the program was told that there are no more bytes, with a reset otherwise."""
        self._end({} if self._told_eof else {"error": "ECONNRESET"})

    # ---------------------------------------------------------------- within

    def _require_beginning(self) -> None:
        if self._accepted or self._ended:
            raise RuntimeError("a connection is accepted or refused once")

    def _require_life(self) -> None:
        if self._problem is not None:
            raise ConnectionResetError(self._problem.errno, self._problem.strerror)
        if self._ended:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the connection was closed on the host")

    async def _credit(self) -> None:
        while self._may_send <= 0:
            self._require_life()
            self._credit_came = asyncio.get_running_loop().create_future()
            try:
                await self._credit_came
            finally:
                self._credit_came = None
        if not self._accepted or self._told_eof:
            raise RuntimeError("bytes are written after accept and before write_eof")

    def _give_back(self, count: int) -> None:
        self._owed += count
        if self._owed >= self._window_in // 4 and not (self._heard_eof or self._ended or self._problem):
            self._sender.send(frames.CREDIT, self.id, frames.CREDIT_BODY.pack(self._owed))
            self._may_receive += self._owed
            self._owed = 0

    def _end(self, outcome: Mapping[str, Any]) -> None:
        if self._ended:
            return
        self._ended = True
        self._buffer = bytearray()
        _wake(self._came)
        _wake(self._credit_came)
        self._say(frames.RESULT, outcome)

    def _say(self, kind: int, value: Mapping[str, Any]) -> None:
        self._sender.send(kind, self.id, json.dumps(value, separators=(",", ":")).encode("ascii"))


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
