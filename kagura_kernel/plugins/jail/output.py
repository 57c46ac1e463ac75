"""What comes out of a jail, none of it trusted: a jailer's frames, checked, and the last of what the plugin prints."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.plugins import framing
from kagura_kernel.plugins.calling import FunctionSpec
from kagura_kernel.plugins.jailer import ARGUMENTS, DEFECT, FAILED, MAX_FUNCTIONS, MAX_MODULES, MAX_NAME, VALUE, is_name
from kagura_kernel.sandbox.backend import GuestStream

BURST = 8 * 2**20
"""Bytes that may come as fast as they like."""

RATE = 2**20
"""Bytes a second in the long run."""


class JailLog:
    """The log of one jail, over all of its boxes: the last bytes of it."""

    def __init__(self, keep: int, clock: Clock) -> None:
        self._keep = keep
        self._clock = clock
        self._data = bytearray()
        self._cut = False
        self._owed = 0.0
        self._at = clock.monotonic()

    def add(self, data: bytes) -> bool:
        """Take what was printed; whether it is no more than a log can take."""
        self._data += data[-self._keep :]
        if len(self._data) > self._keep:
            self._cut = True
            del self._data[: len(self._data) - self._keep]
        now = self._clock.monotonic()
        self._owed = max(0.0, self._owed - (now - self._at) * RATE) + len(data)
        self._at = now
        return self._owed <= BURST

    def note(self, text: str) -> None:
        """Add a line of ours."""
        self.add(f"[kagura] {text}\n".encode())

    @property
    def text(self) -> str:
        """All that is kept; whole lines where the beginning was dropped."""
        text = self._data.decode("utf-8", "replace")
        return f"…\n{text.partition(chr(10))[2]}" if self._cut else text


MAX_SIGNATURE = 400
MAX_DOC = 600
MAX_MESSAGE = 4000

_CHUNK = 64 * 1024
# More than this would keep the loop from others while it is parsed.
_LARGE = 128 * 1024

Table = Mapping[str, tuple[FunctionSpec, ...]]


class Breach(Exception):
    """No jailer would have sent this; the text says what it was, half a sentence."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as a jailer told it."""

    code: str  # One of the four
    kind: str  # The exception's class; may be empty
    message: str  # Its text


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    id: int  # The request's
    value: Any = None  # What the function returned
    trouble: Trouble | None = None  # What went wrong instead; None when nothing did


class Frames:
    """The frames of one connection, in order."""

    def __init__(self, stream: GuestStream, most: int) -> None:
        self._stream = stream
        self._most = most
        self._buffer = bytearray()

    async def next(self) -> Any:
        """What the next one says. Raises `Breach`: it is no frame; `EOFError` or `OSError`: the connection is over."""
        header = await self._take(framing.HEADER.size)
        try:
            body = await self._take(framing.length(header, self._most))
            decode = partial(framing.decode, body, self._most)
            return await asyncio.to_thread(decode) if len(body) > _LARGE else decode()
        except framing.FrameError as error:
            raise Breach(f"it sent a message that is none: {error}") from error

    async def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = await self._stream.read(_CHUNK)
            if not data:
                raise EOFError
            self._buffer += data
        taken = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return taken


def read_beginning(said: Any) -> Table | Trouble:
    """The functions that a plugin gives, or why it gives none. Raises `Breach`: it is neither."""
    match said:
        case {"failed": dict() as error} if len(said) == 1:
            return _trouble(error)
        case {"ready": dict() as modules} if len(said) == 1 and len(modules) <= MAX_MODULES:
            return {_name(module): _functions(given) for module, given in modules.items()}
    raise Breach("its first message is not what a jailer begins with")


def read_answer(said: Any) -> Answer:
    """One answer. Raises `Breach`: it is none."""
    match said:
        case {"id": int() as number, "ok": True, "value": value} if len(said) == 3 and type(number) is int:  # noqa: PLR2004 - its keys
            return Answer(number, value)
        case {"id": int() as number, "ok": False, "error": dict() as error} if len(said) == 3 and type(number) is int:  # noqa: PLR2004 - likewise
            return Answer(number, trouble=_trouble(error))
    raise Breach("it sent an answer that is none")


def _trouble(error: dict[str, Any]) -> Trouble:
    match error:
        case {"code": str() as code, "kind": str() as kind, "message": str() as message} if len(error) == 3:  # noqa: PLR2004 - likewise
            if code in (FAILED, DEFECT, ARGUMENTS, VALUE):
                return Trouble(code, _line(kind, MAX_NAME), _text(message, MAX_MESSAGE))
    raise Breach("it sent an error that is none")


def _functions(given: Any) -> tuple[FunctionSpec, ...]:
    if not isinstance(given, list) or not 0 < len(given) <= MAX_FUNCTIONS:
        raise Breach("a module of its has no functions, or too many")
    return tuple(_function(one) for one in given)


def _function(given: Any) -> FunctionSpec:
    match given:
        case {"name": str() as name, "signature": str() as signature, "doc": str() as doc}:
            return FunctionSpec(_name(name), _line(signature, MAX_SIGNATURE), _line(doc, MAX_DOC))
    raise Breach("a function of its has no name")


def _name(name: str) -> str:
    if is_name(name):
        return name
    raise Breach(f"{name[:MAX_NAME]!a} is no name for a function or a module")


def _line(text: str, most: int) -> str:
    return _text(" ".join(text.split()), most)


def _text(text: str, most: int) -> str:
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
