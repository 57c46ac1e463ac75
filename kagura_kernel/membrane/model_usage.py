"""What an answer of the Messages API has cost, read from its bytes as they pass: a stream of events, or one JSON.

It is the service's word, read outside of the box; what the program in the box says of its costs is not needed.
"""

from __future__ import annotations

import json
from typing import Any

from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.late_dataclass import dataclass

_LONGEST_LINE = 32 * 2**20
_BEFORE = b"\xef\xbb\xbf \t\r\n"
_WORDS = (b"message_start", b"message_delta")
_PIECE, _WITHIN = b"content_block_delta", 64
"""What says that a line is a piece of the answer, and how far from its beginning that stands."""
_AROUND, _OF_A_TOKEN = 96, 4
"""Bytes of such a line beside its text, and of the text that a token has, about."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One answer."""

    usage: Usage  # Its tokens
    model: str  # The model that gave it
    whole: bool  # Whether it came to its end


class UsageReader:
    """Reads one answer piece by piece; keeps a line of a stream at most, or all of an answer that is none.

    The service counts an answer's own tokens at its end. Of one that is broken off before, those are estimated that
    came: whoever hangs up a moment early must not think for nothing.

    Args:
        most: Bytes of one line, or of an answer that is no stream.
    """

    def __init__(self, most: int = _LONGEST_LINE) -> None:
        self._most = most
        self._buffer = bytearray()
        self._searched = 0
        self._skipping = False
        self._begun = self._streams = False
        self._figures: dict[str, Any] = {}
        self._model = ""
        self._whole = self._ends_told = False
        self._came = 0

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        buffer = self._buffer
        buffer += piece
        if not self._begun:
            # What it begins with says what it is: an answer may be laid out over lines as it likes.
            del buffer[: len(buffer) - len(buffer.lstrip(_BEFORE))]
            if not buffer:
                return
            self._begun, self._streams = True, not buffer.startswith(b"{")
        begin = 0
        while self._streams and (end := buffer.find(b"\n", max(begin, self._searched))) >= 0:
            if not self._skipping:
                self._line(bytes(memoryview(buffer)[begin:end]))
            self._skipping = False
            begin = self._searched = end + 1
        del buffer[:begin]
        self._searched = len(buffer)
        if len(buffer) > self._most:
            self._skipping = True
            buffer.clear()
            self._searched = 0

    def finish(self) -> Counted | None:
        """What was read; None when it told of no tokens."""
        if not self._skipping:
            # The last line of a stream may have no end.
            read = self._line if self._streams else self._whole_message
            read(bytes(self._buffer))
        if not self._figures:
            return None
        if self._came and not self._ends_told:
            self._figures["output_tokens"] = max(self._came, _number(self._figures.get("output_tokens")))
        return Counted(usage_of(self._figures), self._model, self._whole)

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            if _PIECE in line[:_WITHIN]:
                self._came += max(1, (len(line) - _AROUND) // _OF_A_TOKEN)
            if any(word in line for word in _WORDS):
                self._event(_object(line[len(b"data:") :]))
            elif b"message_stop" in line:
                self._whole = True

    def _event(self, event: dict[str, Any]) -> None:
        if event.get("type") == "message_start":
            started = _dict(event.get("message"))
            self._model = str(started.get("model") or "")
            self._add(started.get("usage"))
        elif event.get("type") == "message_delta":
            self._add(event.get("usage"))
            self._ends_told = self._ends_told or "output_tokens" in _dict(event.get("usage"))

    def _whole_message(self, body: bytes) -> None:
        message = _object(body)
        if message.get("type") == "message":
            self._model = str(message.get("model") or "")
            self._add(message.get("usage"))
            self._whole = True

    def _add(self, figures: Any) -> None:
        self._figures |= {name: value for name, value in _dict(figures).items() if value is not None}


def usage_of(figures: dict[str, Any]) -> Usage:
    """Tokens as the API counts them, in our count, where input includes the cache."""
    read = _number(figures.get("cache_read_input_tokens"))
    written = _number(figures.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=_number(figures.get("input_tokens")) + read + written,
        output_tokens=_number(figures.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=_number(_dict(figures.get("cache_creation")).get("ephemeral_1h_input_tokens")),
    )


def _number(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0


def _object(data: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(data))
    except (ValueError, RecursionError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
