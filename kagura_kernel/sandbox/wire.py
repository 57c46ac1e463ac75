"""Frames as the host sends and believes them: encoding, and decoding of what an untrusted guest sends.

Pure: bytes in, frames out, or a `WireError` that says what was wrong. How frames look is said in `guest.frames`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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


def encode_control(kind: int, stream: int, value: Mapping[str, Any]) -> bytes:
    """A whole control frame."""
    return encode(kind, stream, json.dumps(value, separators=(",", ":")).encode("ascii"))


def parse_object(payload: memoryview | bytes) -> dict[str, Any]:
    """The JSON object of a control frame.

    Raises:
        WireError: it is no JSON, no object, or nested too deeply.
    """
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
    """How much more may be sent.

    Raises:
        WireError: it is not four bytes, or zero.
    """
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
