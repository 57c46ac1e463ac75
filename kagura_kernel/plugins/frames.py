"""The unit of what is said to a jail and by guest code: a length, and as many bytes of JSON.

Four bytes, big-endian, then UTF-8. What is no JSON in the strict sense (NaN, infinities, numbers without end), too
long or nested too deeply is no frame. Standard library only, and imports nothing of this package: it is sent into
boxes as it is.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import accumulate
from typing import Any

HEADER = struct.Struct(">I")
MAX_BYTES = 4 * 2**20
MAX_DEPTH = 64
# Each takes twenty times its length in memory.
MAX_CONTAINERS = 200_000

_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))


class FrameError(ValueError):
    """What was to be sent, or has come, is no frame; the text says why, without showing it."""


def encode(message: Any, most: int = MAX_BYTES) -> bytes:
    """One frame, header and all. Raises `FrameError`: the message is no JSON, too deep, or longer than `most` bytes."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise FrameError(f"it is nested more than {MAX_DEPTH} levels deep") from error
    except ValueError as error:
        why = "it contains itself" if "ircular" in str(error) else "it holds a number that JSON has not"
        raise FrameError(why) from error
    except TypeError as error:
        raise FrameError(f"it holds what JSON has not: {error}") from error
    try:
        data = text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8, but an escape.
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    check(data, most)
    return HEADER.pack(len(data)) + data


def decode(data: bytes | bytearray | memoryview, most: int = MAX_BYTES) -> Any:
    """What a frame's body says. Raises `FrameError`: no JSON in UTF-8, too deep, too much of it."""
    check(data, most)
    try:
        return json.loads(bytes(data).decode("utf-8"), parse_float=_number, parse_constant=_refuse)
    except FrameError:
        raise
    except (ValueError, RecursionError) as error:
        raise FrameError("it is no JSON in UTF-8") from error


def length(header: bytes | bytearray | memoryview, most: int = MAX_BYTES) -> int:
    """How long the body is that this header announces. Raises `FrameError`: longer than `most`, or empty."""
    (count,) = HEADER.unpack(header)
    if not 0 < count <= most:
        raise FrameError(f"it is {count:,} bytes long, and {most:,} are allowed")
    return int(count)


def check(data: bytes | bytearray | memoryview, most: int = MAX_BYTES) -> None:
    """Bounds that are known before anything is parsed.

    Raises `FrameError`: too long, too deep, too many lists and objects.
    """
    if len(data) > most:
        raise FrameError(f"it is {len(data):,} bytes long, and {most:,} are allowed")
    body = bytes(data)
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    brackets = _brackets(body)
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise FrameError(f"it holds more than {MAX_CONTAINERS} lists and objects")
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise FrameError(f"it is nested more than {MAX_DEPTH} levels deep")


def _brackets(body: bytes) -> bytes:
    """Those that are no part of a text; of what is no JSON, some of them."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(plain.split(b'"')[::2]).translate(None, _NO_BRACKETS)


def _refuse(word: str) -> Any:
    raise FrameError(f"{word} is no number in JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FrameError("it holds a number that is too large")
    return value
