"""Bytes of a connection, cut into messages: lines for MCP, a header with a length for language servers. Pure."""

from __future__ import annotations

from typing import Any, Protocol

from kagura_kernel.plugins import framing

_LONGEST_WORD = 200


def word(value: Any) -> str:
    """A short text in one line, readable."""
    return " ".join(readable(value, _LONGEST_WORD).split())


def readable(value: Any, most: int) -> str:
    """A text without what nobody would see, at most so long; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in value[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


_LONGEST_HEAD = 4096
_LENGTH = b"content-length:"
_DIGITS = 9


class Breach(Exception):
    """No good server would have sent this; the text says what it was, half a sentence."""


class Cutter(Protocol):
    """Takes bytes as they come and gives whole messages."""

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now, in order.

        Raises:
            Breach: one is longer than it may be, or cannot be told from the next.
        """
        ...

    def wrap(self, body: bytes) -> bytes:
        """A message of ours, as it is sent."""
        ...


class Lines:
    """A message is a line of JSON.

    Args:
        most: Bytes of one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends; empty ones are passed over."""
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        begin = 0
        while (end := buffer.find(b"\n", max(begin, self._seen))) >= 0:
            self._require(end - begin)
            if line := bytes(memoryview(buffer)[begin:end]).strip():
                found.append(line)
            begin = self._seen = end + 1
        del buffer[:begin]
        self._seen = len(buffer)
        self._require(len(buffer))
        return found

    def wrap(self, body: bytes) -> bytes:
        """The body as a line; JSON without blanks holds no line's end."""
        return body + b"\n"

    def _require(self, count: int) -> None:
        if count > self._most:
            raise Breach(f"it sent a message longer than {self._most:,} bytes")


class Headed:
    """A message has a head with its length, as in HTTP.

    Args:
        most: Bytes of one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are whole now."""
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        while True:
            if self._length is None and not self._head():
                return found
            length = self._length or 0
            if len(buffer) < length:
                return found
            found.append(bytes(memoryview(buffer)[:length]))
            del buffer[:length]
            self._length = None

    def wrap(self, body: bytes) -> bytes:
        """The body behind its head."""
        return b"Content-Length: %d\r\n\r\n" % len(body) + body

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
        if end < 0:
            if len(self._buffer) >= _LONGEST_HEAD:
                raise Breach("it sent a message without a length")
            return False
        lengths = [
            line[len(_LENGTH) :].strip()
            for line in bytes(self._buffer[:end]).lower().split(b"\r\n")
            if line.startswith(_LENGTH)
        ]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _DIGITS:
            raise Breach("it sent a message without a length")
        length = int(lengths[0])
        if length > self._most:
            raise Breach(f"it sent a message longer than {self._most:,} bytes")
        del self._buffer[: end + 4]
        self._length = length
        return True


def decode(body: bytes, most: int) -> object:
    """What a message says.

    Raises:
        Breach: it is no JSON, too deep, too much of it.
    """
    try:
        return framing.decode(body, most)
    except framing.FrameError as error:
        raise Breach(f"it sent what is no message: {error}") from error


def encode(message: object, most: int) -> bytes:
    """A message of ours, without what wraps it.

    Raises:
        ValueError: it is no JSON, too deep or too long; the text is half a sentence.
    """
    return framing.encode(message, most)[framing.HEADER.size :]
