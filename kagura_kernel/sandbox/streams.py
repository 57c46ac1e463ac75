"""Frames as the host sends and believes them, and one stream of a channel: credit both ways, and the result at its end.

Decoding is pure: bytes in, frames out, or a `WireError` that says what was wrong. How frames look is said in
`guest.frames`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.sandbox.guest import frames

ROOM = 1024 * 1024


class WireError(ValueError):
    """Bytes that are no frame, or a frame that no guest may send; the text says why."""


class Frame(NamedTuple):
    """One frame; a payload is a view that is valid until the next frame is asked for."""

    type: int
    stream: int
    payload: memoryview


def header(kind: int, stream: int, length: int) -> bytes:
    """The nine bytes before a payload of `length`."""
    return frames.HEADER.pack(length, kind, stream)


def encode(kind: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return header(kind, stream, len(payload)) + payload


def control_payload(value: Mapping[str, Any]) -> bytes:
    """What a control frame says."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def encode_control(kind: int, stream: int, value: Mapping[str, Any]) -> bytes:
    """A whole control frame."""
    return encode(kind, stream, control_payload(value))


def parse_object(payload: memoryview | bytes) -> dict[str, Any]:
    """The JSON object of a control frame. Raises `WireError` when it is no JSON, no object, or nested too deeply."""
    try:
        value = json.loads(bytes(payload), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise WireError(f"a control frame is not JSON ({type(problem).__name__})") from problem
    if not isinstance(value, dict):
        raise WireError("a control frame is not a JSON object")
    return value


def refuse_constant(name: str) -> float:
    """Python reads NaN and the infinities, which JSON does not have; for `json.loads`.

    Raises:
        WireError: always.
    """
    raise WireError(f"a number that is {name}")


def parse_credit(payload: memoryview) -> int:
    """How much more may be sent. Raises `WireError` when it is not four bytes, or zero."""
    if len(payload) != frames.CREDIT_BODY.size:
        raise WireError(f"a credit frame of {len(payload)} bytes")
    amount: int = frames.CREDIT_BODY.unpack(payload)[0]
    if not amount:
        raise WireError("a credit of nothing")
    return amount


class FrameDecoder:
    """Cuts a byte stream into frames without copying payloads; memory stays at one megabyte.

    Bytes are read straight into `room()`; `filled(count)` then yields every complete frame.
    """

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(ROOM))
        self._start = 0
        self._end = 0

    @property
    def pending(self) -> bytes:
        """A copy of the start of what was not understood (yet), for messages."""
        return bytes(self._memory[self._start : min(self._end, self._start + 400)])

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._start == self._end:
            self._start = self._end = 0
        elif ROOM - self._end < frames.MAX_DATA + frames.HEADER.size:
            # A frame that is only half there moves to the front; it is at most a quarter of the room.
            length = self._end - self._start
            self._memory[:length] = bytes(self._memory[self._start : self._end])
            self._start, self._end = 0, length
        return self._memory[self._end :]

    def filled(self, count: int) -> Iterator[Frame]:
        """The frames that are complete now that `count` more bytes are in the room.

        Raises:
            WireError: what is there is no frame of a guest. The decoder cannot be used any more.
        """
        self._end += count
        size = frames.HEADER.size
        while self._end - self._start >= size:
            length, kind, stream = frames.HEADER.unpack_from(self._memory, self._start)
            _check(length, kind, stream)
            stop = self._start + size + length
            if stop > self._end:
                return
            payload = self._memory[self._start + size : stop]
            self._start = stop
            yield Frame(kind, stream, payload)


def _check(length: int, kind: int, stream: int) -> None:
    if kind not in frames.TYPES:
        raise WireError(f"a frame of unknown type {kind}")
    if length > (frames.MAX_CONTROL if kind in frames.CONTROL else frames.MAX_DATA):
        raise WireError(f"a frame of {length} bytes")
    if (stream == 0) is not (kind == frames.HELLO):
        raise WireError(f"a frame of type {kind} on stream {stream}")


DataHandler = Callable[[int, memoryview], None]
"""Called with DATA or ERRDATA and a payload that is valid only during the call."""


def no_data(kind: int, payload: memoryview) -> None:
    """Hear data where there is none to be had; a `DataHandler`."""
    del kind, payload
    raise WireError("data on a stream that has none")


class Channel(Protocol):
    """What streams, listeners, commands and files need of the channel that they go through."""

    box_id: str
    slots: asyncio.Semaphore  # how many streams may be open at once; held while one is

    def send(self, kind: int, stream: int, *parts: bytes | memoryview) -> None:
        """Send one frame; never blocks."""
        ...

    async def drained(self) -> None:
        """Return when the pipe takes data again."""
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

    def fail(self, why: str) -> None:
        """Close the channel because what it serves failed."""
        ...


class News:
    """Something that one task at a time waits for."""

    def __init__(self) -> None:
        self._coming: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Return when `tell` is called."""
        self._coming = asyncio.get_running_loop().create_future()
        try:
            await self._coming
        finally:
            self._coming = None

    def tell(self) -> None:
        """Let go of whoever waits now."""
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(None)


class CreditedStream:
    """Credit both ways: what the guest sends against it is checked, and nothing is sent without it."""

    def __init__(self, stream: int, channel: Channel, *, may_send: int, may_receive: int) -> None:
        self.id = stream
        self._channel = channel
        self._window_out = self._may_send = may_send
        self._window_in = self._may_receive = may_receive
        self._owed = 0
        self._credit_came = News()

    def charge(self, count: int) -> None:
        """The guest sent so many bytes of data.

        Raises:
            WireError: more than it had credit for, or nothing at all.
        """
        if not count:
            raise WireError("an empty data frame")
        self._may_receive -= count
        if self._may_receive < 0:
            raise WireError("more data than it had credit for")

    def credited(self, amount: int) -> None:
        """The guest has taken `amount` bytes. Raises `WireError` when that is more than was ever sent."""
        self._may_send += amount
        if self._may_send > self._window_out:
            raise WireError("more credit than it was sent data")
        self._credit_came.tell()

    def _owe(self, count: int, *, open_still: bool = True) -> None:
        """So many bytes are used up here; credit for them goes back in good pieces, while more may come at all."""
        self._owed += count
        if self._owed >= self._window_in // 4 and open_still:
            self._channel.send(frames.CREDIT, self.id, frames.CREDIT_BODY.pack(self._owed))
            self._may_receive += self._owed
            self._owed = 0

    def _send_piece(self, data: memoryview) -> memoryview:
        """Send as much as credit and one frame allow; what is left."""
        count = min(len(data), self._may_send, frames.MAX_DATA)
        self._may_send -= count
        self._channel.send(frames.DATA, self.id, data[:count])
        return data[count:]


class HostStream(CreditedStream):
    """A stream that the host opened and the guest serves.

    What the guest sends is handed over as it comes and given back as credit at once: the host always listens. What the
    host sends waits for the guest's credit, so that at most one window of it is under way.
    """

    def __init__(
        self, stream: int, channel: Channel, on_data: DataHandler, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(stream, channel, may_send=frames.WINDOW, may_receive=frames.WINDOW)
        self.result: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.clock = clock or asyncio.get_running_loop().time
        self.heard_at = self.clock()  # when the guest last sent data, or took some
        self._on_data = on_data

    def received(self, kind: int, payload: memoryview) -> None:
        """The guest sent data. Raises `WireError` when it may not."""
        self.charge(len(payload))
        self._on_data(kind, payload)
        self._owe(len(payload))

    def end(self, outcome: dict[str, Any] | BaseException) -> None:
        """No more frames will come."""
        if isinstance(outcome, BaseException):
            self.fail(outcome)
        elif not self.result.done():
            self.result.set_result(outcome)
        if not self.over.done():
            self.over.set_result(None)
        self._credit_came.tell()

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
            rest = self._send_piece(rest)
        return rest

    async def send_all(self, data: bytes | memoryview) -> None:
        """Send all of it, waiting for credit; stops silently when the stream has ended."""
        rest = memoryview(data)
        while True:
            await self._channel.drained()
            rest = self.send_now(rest)
            if not rest or self.result.done():
                return
            await self._credit_came.wait()

    async def send_last(self, data: bytes | memoryview) -> None:
        """Send all of it, and that there is no more."""
        await self.send_all(data)
        self.send_eof()

    def send_eof(self) -> None:
        """There is no more to send."""
        if not self.result.done():
            self._channel.send(frames.EOF, self.id)
