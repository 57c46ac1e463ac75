"""What PostgreSQL's protocol (version 3.0) looks like in bytes: the messages that the membrane makes and takes apart.

Every length is checked before anything is read or kept: what waits in memory for one message is bounded. What a program
in the box is told when it gets no session is a state that its library knows, and a masked text: words of the server are
never passed on, for they name the address that it sees, its users, or what somebody who plays a server wants to be
read. A looked-up address never stands in a text for the box either.

Whatever reads raises `WireBroken` for what is no such message or ends in the middle of one, and `OSError` when the
other side is gone.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from typing import Protocol

from kagura_kernel.domain.errors import EgressBusy, EgressDenied, EgressRefused, EgressSignInRefused
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.membrane.egress.hosts import Target
from kagura_kernel.membrane.egress.stream import Bytes

PROTOCOL = 3 << 16
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104

MAX_STARTUP = 10_000
"""The same as a server's own limit."""

MAX_MESSAGE = 64 * 1024
"""Bytes of one message of a server before it is ready for queries."""

_INT = struct.Struct("!i")
_HEAD = struct.Struct("!ci")
_KEY = struct.Struct("!iI")
_CANCEL_BYTES = 16


class WireBroken(Exception):
    """The other side does not speak PostgreSQL, or stopped in the middle of it; the text is half a sentence."""


class Readable(Protocol):
    """Something that bytes come from."""

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes; empty at the end. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Startup:
    """What a client says first."""

    parameters: Mapping[str, str]  # Its wishes, `user` and `database` among them
    newer: bool = False  # Whether it speaks a newer 3.x, and has to be told which one is spoken here
    unknown: tuple[str, ...] = ()  # Extensions of the protocol that it asks for


@dataclass(frozen=True, slots=True)
class Key:
    """With what a client may cancel what its session does."""

    process: int  # Number of the session's process
    secret: int  # 32 bits


Packet = Startup | Key | int
"""A start, a request to cancel, or one of the two codes that ask for encryption."""

# --------------------------------------------------------------------- reading


async def read_exactly(source: Readable, count: int) -> bytes:
    """So many bytes and not one more."""
    found = bytearray()
    while len(found) < count:
        data = await source.read(count - len(found))
        if not data:
            raise WireBroken("hung up in the middle of a message" if found else "hung up")
        found += data
    return bytes(found)


async def read_message(source: Readable, most: int = MAX_MESSAGE) -> tuple[bytes, bytes]:
    """A message of a server: its letter and its body."""
    kind, length = _HEAD.unpack(await read_exactly(source, _HEAD.size))
    if not _INT.size <= length <= most:
        raise WireBroken("does not speak PostgreSQL")
    return kind, await read_exactly(source, length - _INT.size)


async def read_packet(source: Readable) -> Packet | None:
    """What a client sends before it is let in; None when it hung up before it said anything."""
    head = await source.read(_INT.size)
    if not head:
        return None
    if len(head) < _INT.size:
        head = bytes(head) + await read_exactly(source, _INT.size - len(head))
    (length,) = _INT.unpack(head)
    if not 2 * _INT.size <= length <= MAX_STARTUP:
        raise WireBroken("invalid length of startup packet")
    return parse_packet(await read_exactly(source, length - _INT.size))


def parse_packet(body: bytes) -> Packet:
    """A first packet without its length."""
    (code,) = _INT.unpack_from(body)
    rest = body[_INT.size :]
    if code in (SSL_REQUEST, GSS_REQUEST) and not rest:
        return int(code)
    if code == CANCEL_REQUEST and len(body) == _CANCEL_BYTES - _INT.size:
        return Key(*_KEY.unpack(rest))
    if code >> 16 != PROTOCOL >> 16:
        raise WireBroken("unsupported frontend protocol")
    pairs = _pairs(rest)
    unknown = tuple(name for name in pairs if name.startswith("_pq_."))
    return Startup(pairs, newer=code != PROTOCOL, unknown=unknown)


def _pairs(body: bytes) -> dict[str, str]:
    if body == b"\0":
        return {}
    if not body.endswith(b"\0\0"):
        raise WireBroken("invalid startup packet layout")
    words = body[:-2].split(b"\0")
    # A name is never empty, and each has a value.
    if len(words) % 2 or not all(words[::2]):
        raise WireBroken("invalid startup packet layout")
    text = [word.decode("utf-8", "replace") for word in words]
    return dict(zip(text[::2], text[1::2], strict=True))


def parse_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse by their letters; as many as can be read."""
    found: dict[str, str] = {}
    for field in body.split(b"\0"):
        if len(field) > 1:
            found.setdefault(chr(field[0]), field[1:].decode("utf-8", "replace"))
    return found


def parse_key(body: bytes) -> Key:
    """The body of a BackendKeyData."""
    if len(body) != _KEY.size:
        raise WireBroken("does not speak PostgreSQL 3.0")
    return Key(*_KEY.unpack(body))


def parse_code(body: bytes) -> int:
    """The number that an authentication request begins with."""
    if len(body) < _INT.size:
        raise WireBroken("does not speak PostgreSQL")
    return int(_INT.unpack_from(body)[0])


# ---------------------------------------------------------------------- making


def message(kind: bytes, body: bytes = b"") -> bytes:
    """One message with its length."""
    return _HEAD.pack(kind, len(body) + _INT.size) + body


def startup(parameters: Mapping[str, str]) -> bytes:
    """The first packet of a session; no name or value may hold a zero byte."""
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
    return _INT.pack(len(body) + 2 * _INT.size + 1) + _INT.pack(PROTOCOL) + body + b"\0"


def ssl_request() -> bytes:
    """Asks whether the server speaks TLS; it answers with one byte."""
    return _INT.pack(2 * _INT.size) + _INT.pack(SSL_REQUEST)


def cancel_request(key: Key) -> bytes:
    """Asks to cancel what the session with this key does."""
    return _INT.pack(_CANCEL_BYTES) + _INT.pack(CANCEL_REQUEST) + _KEY.pack(key.process, key.secret)


def key_data(key: Key) -> bytes:
    """Tells a client its key."""
    return message(b"K", _KEY.pack(key.process, key.secret))


def signed_in() -> bytes:
    """Tells a client that it is let in."""
    return message(b"R", _INT.pack(0))


def negotiated(unknown: tuple[str, ...]) -> bytes:
    """Tells a client of a newer 3.x that 3.0 is spoken, and which extensions are not."""
    names = b"".join(name.encode() + b"\0" for name in unknown)
    return message(b"v", _INT.pack(PROTOCOL) + _INT.pack(len(unknown)) + names)


def fatal(state: str, text: str, hint: str = "") -> bytes:
    """An ErrorResponse after which the connection ends."""
    fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": text, "H": hint}
    body = b"".join(f"{letter}{value}".encode() + b"\0" for letter, value in fields.items() if value)
    return message(b"E", body + b"\0")


CANNOT_CONNECT = "08001"
NOT_LET_IN = "08004"
BROKEN = "08P01"
TOO_MANY = "53300"

_SAID = {
    "08P01": "did not take the start of the session; where it is a pooler, it has to let the parameters "
    "default_transaction_read_only and statement_timeout pass",
    "28P01": "did not accept the user name or the password",
    "28000": "does not let this user in from here, by its pg_hba.conf",
    "3D000": "has no database of that name",
    "42501": "does not let this user into that database",
    "53300": "has no room for another session",
    "55000": "takes no sessions for that database now",
    "57P03": "is starting up or shutting down",
    "42704": "does not know a setting that was asked for",
    "22023": "does not take a setting that was asked for",
}


def refused_by_server(target: Target, fields: dict[str, str]) -> EgressSignInRefused:
    """The error for a server's ErrorResponse, in our words."""
    state = fields.get("C", "")
    if not (len(state) == 5 and state.isascii() and state.isalnum()):  # noqa: PLR2004 - an SQLSTATE
        state = NOT_LET_IN
    why = _SAID.get(state, f"refused the session (SQLSTATE {state})")
    advice = "Look at the URL that was configured." if state in ("28P01", "28000", "3D000", "42501") else ""
    return EgressSignInRefused(target.host, target.port, why, advice, state=state)


def told(refusal: EgressRefused) -> bytes:
    """The ErrorResponse for a refusal."""
    place = Target(refusal.host, refusal.port)
    if isinstance(refusal, EgressSignInRefused):
        return fatal(refusal.state or NOT_LET_IN, f"{place} {refusal.why}", refusal.advice)
    if isinstance(refusal, EgressDenied):
        return fatal(NOT_LET_IN, f"{place} may not be reached from here")
    if isinstance(refusal, EgressBusy):
        return fatal(TOO_MANY, f"{place} {refusal.why}")
    return fatal(CANNOT_CONNECT, f"{place} {_unreachable(refusal)}")


def _unreachable(refusal: EgressRefused) -> str:
    cause = refusal.__cause__
    if isinstance(cause, TimeoutError):
        return "did not answer in time"
    if isinstance(cause, socket.gaierror | UnicodeError):
        return "could not be looked up"
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return f"cannot be reached: {os.strerror(cause.errno).lower()}"
    return "cannot be reached"
