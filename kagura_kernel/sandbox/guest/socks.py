"""A SOCKS 5 server's side of one client, in terms of bytes: CONNECT without authentication (RFC 1928).

Used like `proxy.HttpFront`, and like it free of sockets. Names are handed over as names: the box resolves nothing.
"""

from __future__ import annotations

# Not `ipaddress`: importing it takes longer than all of the guest, at the start of every run.
from _socket import AF_INET, AF_INET6, inet_ntop

VERSION = 5

_NO_AUTHENTICATION = 0
_NONE_ACCEPTABLE = b"\x05\xff"
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_FAILED, _NOT_ALLOWED, _UNREACHABLE, _NO_COMMAND, _NO_ADDRESS_TYPE = 1, 2, 4, 7, 8
_CODES = {403: _NOT_ALLOWED, 502: _UNREACHABLE}


class BadGreeting(Exception):
    """The client does not speak SOCKS 5 as it must; `reply` is what it is told, then the end."""

    def __init__(self, why: str, reply: bytes = b"") -> None:
        super().__init__(why)
        self.reply = reply
        self.status = 400


class SocksFront:
    """One client, from its first byte; use once. Send what `take_reply` gives before waiting for more.

    Attributes:
        target: Host and port; an IPv6 address in brackets. None until the request is whole.
        tunnel: Always true.
    """

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.tunnel = True
        self._buffer = bytearray()
        self._reply = b""
        self._greeted = False
        self._told = False

    def feed(self, data: bytes | bytearray | memoryview) -> bytes:
        """Bytes from the client; what of them goes to the other side.

        Raises:
            BadGreeting: answer with `refused`.
        """
        if self.target is not None:
            return bytes(data)
        self._buffer += data
        if not self._greeted:
            self._greet()
        if self._greeted:
            self._request()
        return self._take_rest()

    def take_reply(self) -> bytes:
        """What the client has to be told now, once."""
        reply, self._reply = self._reply, b""
        return reply

    def accepted(self) -> bytes:
        """For the client, when the connection stands."""
        return _answer(0)

    def refused(self, status: int, text: str) -> bytes:
        """For the client, when there is no connection; then the end. SOCKS has numbers and no words."""
        del text
        if not self._greeted or self._told:
            return b""
        return _answer(_CODES.get(status, _FAILED))

    def _take_rest(self) -> bytes:
        if self.target is None:
            return b""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _greet(self) -> None:
        if self._buffer[:1] and self._buffer[0] != VERSION:
            raise BadGreeting("only version 5 is spoken here")
        if len(self._buffer) < 2 or len(self._buffer) < 2 + self._buffer[1]:  # noqa: PLR2004 - version and count
            return
        end = 2 + self._buffer[1]
        methods = bytes(self._buffer[2:end])
        del self._buffer[:end]
        if _NO_AUTHENTICATION not in methods:
            raise BadGreeting("only clients without authentication are served", _NONE_ACCEPTABLE)
        self._greeted = True
        self._reply = bytes((VERSION, _NO_AUTHENTICATION))

    def _request(self) -> None:
        if len(self._buffer) < 5:  # noqa: PLR2004 - up to the length of a name
            return
        version, command, reserved, kind, length = self._buffer[:5]
        if version != VERSION or reserved:
            raise self._refusal("the request is not one of version 5", _FAILED)
        if command != _CONNECT:
            raise self._refusal("only CONNECT is served", _NO_COMMAND)
        sizes = {_IPV4: (4, 4), _IPV6: (4, 16), _NAME: (5, length)}
        if kind not in sizes:
            raise self._refusal("the kind of address is not known", _NO_ADDRESS_TYPE)
        if kind == _NAME and not length:
            raise self._refusal("the name is empty", _FAILED)
        start, size = sizes[kind]
        if len(self._buffer) < start + size + 2:
            return
        raw = bytes(self._buffer[start : start + size])
        port = int.from_bytes(self._buffer[start + size : start + size + 2], "big")
        del self._buffer[: start + size + 2]
        self.target = (_host(kind, raw), port)

    def _refusal(self, why: str, code: int) -> BadGreeting:
        self._told = True
        return BadGreeting(why, _answer(code))


def _host(kind: int, raw: bytes) -> str:
    if kind == _IPV4:
        return inet_ntop(AF_INET, raw)
    if kind == _IPV6:
        return f"[{inet_ntop(AF_INET6, raw)}]"
    # Whatever is no host is refused by whoever decides about hosts.
    return raw.decode("latin-1")


def _answer(code: int) -> bytes:
    return bytes((VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0))
