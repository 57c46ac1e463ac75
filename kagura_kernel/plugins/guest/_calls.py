"""Calls over the box's loopback: one connection for each call under way, kept for the next.

A frame is four bytes, the length, and so much JSON. Nothing here waits for a lock, so that a program may fork in any
thread at any time; a child opens connections of its own.
"""

from __future__ import annotations

import _socket
import os

from ._errors import CALL, PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAX_FRAME = 4 * 2**20
MAX_IDLE = 8
PIECE = 256 * 1024
GONE = "nothing answers for plugins here any more: the run is over, or it broke off the connection"


class Connection:
    """One connection to the host. Not for two threads at once."""

    def __init__(self, port: int) -> None:
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._socket.connect(("127.0.0.1", port))

    @property
    def alive(self) -> bool:
        """Whether the other side is there, and has nothing to say that nobody asked for."""
        try:
            self._socket.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def ask(self, body: bytes) -> bytes:
        """Send one frame and wait for the answer. Raises `OSError`: the other side has gone."""
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        count = int.from_bytes(self._read(4), "big")
        if count > MAX_FRAME:
            raise ConnectionAbortedError(f"an answer of {count} bytes")
        return self._read(count)

    def _read(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self._socket.recv(min(PIECE, count - len(found)))
            if not piece:
                raise ConnectionResetError("the connection was closed")
            found += piece
        return bytes(found)

    def close(self) -> None:
        """Break it off; a call under way is cut."""
        self._socket.close()


# Taking from a list and adding to it are whole steps in Python: no thread is ever between the two halves of one.
_idle: list[Connection] = []
_owner = os.getpid()


def call(module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """One call, there and back.

    Raises `PluginError`: it failed, or could not be made; `TypeError` or `ValueError`: JSON has no such argument.
    """
    import json

    what = module + "." + function
    request = {"id": 0, "module": module, "function": function, "arguments": arguments, "named": named}
    body = json.dumps(request, default=_as_json, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(body) > MAX_FRAME:
        text = "{}: its arguments are {} bytes of JSON, and {} are allowed; make several calls of it"
        raise PluginError(text.format(what, len(body), MAX_FRAME), CALL, function=what)
    try:
        answer = json.loads(_exchange(body))
    except OSError as error:
        raise PluginError(f"{what}: {GONE} ({error})", CALL, function=what) from None
    if answer.get("ok"):
        return answer["value"]
    told = answer["error"]
    raise PluginError(told["message"], told["code"], told["kind"], what)


def _exchange(body: bytes) -> bytes:
    connection = _take()
    try:
        answer = connection.ask(body)
    except BaseException:
        # Also when the program was interrupted: what comes late must not be taken for the next call's answer.
        connection.close()
        raise
    if len(_idle) < MAX_IDLE:
        _idle.append(connection)
    else:
        connection.close()
    return answer


def _take() -> Connection:
    global _owner  # noqa: PLW0603 - a process learns in this way that it was forked
    if _owner != os.getpid():
        # These are the parent's, which goes on with them.
        _idle.clear()
        _owner = os.getpid()
    while _idle:
        try:
            connection = _idle.pop()
        except IndexError:
            break  # another thread was faster
        if connection.alive:
            return connection
        connection.close()
    from . import _place

    return Connection(_place.PORT)


def _as_json(value: Any) -> Any:
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are nothing that JSON has; give text, or base64.b64encode(…).decode()")
    raise TypeError(f"a value of type {type(value).__name__} is nothing that JSON has")
