"""A proxy's side of one client, in terms of bytes: HTTP/1.1 (CONNECT, and plain HTTP in absolute form) and SOCKS 5.

It has no sockets and no clock: whoever carries the bytes feeds it what the client sends and does what it says. It is
strict where two programs could read the same bytes differently: bare line feeds, folded lines, spaces around names,
two lengths, a length beside chunks, hosts that disagree, more requests than one. Such a client gets one answer and the
end. A plain request goes on as one request with `Connection: close`, its body framed again, `Proxy-*` taken out.

Of SOCKS there is CONNECT without authentication (RFC 1928). Neither decides anything about hosts: what the client
wrote is handed over, names as names, for the box resolves nothing.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, inet_ntop

MAX_HEAD = 64 * 1024
MAX_HEADERS = 128
MAX_REASON = 300

HTTP_PORT = 80

_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_METHOD = frozenset(b"-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_VISIBLE = frozenset(range(0x21, 0x7F))
_VALUE = _VISIBLE | {0x20, 0x09} | frozenset(range(0x80, 0x100))
_AUTHORITY = _VISIBLE - frozenset(b"@/\\?#%\"<>^`{|}'(),;=!$&*+")

# These are about the way to the proxy and end with it; so does what `Connection` names, and all that begins `proxy-`.
_HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"))
_ESSENTIAL = frozenset((b"host", b"content-length", b"transfer-encoding"))

_WORDS = {
    400: "Bad Request",
    403: "Forbidden",
    431: "Request Header Fields Too Large",
    505: "HTTP Version Not Supported",
}


class BadRequest(Exception):
    """The client does not speak as it must; `status` and the text are its answer."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


class HttpFront:
    """One client of the proxy, from its first byte; use once.

    Feed it until `target` is there, connect, then send what `accepted` or `refused` gives to the client. What `feed`
    returns belongs to the other side; keep it until the connection stands. When `tunnel` is false the answer of the
    other side ends with its end of file, and the client's connection with it.
    """

    def __init__(self) -> None:
        # Host and port as the client wrote them (an IPv6 address in its brackets); None until the head is whole
        self.target: tuple[str, int] | None = None
        self.tunnel = False  # Whether it is a CONNECT: bytes pass unchanged, both ways, for as long as both sides like
        self._head = bytearray()
        self._bodiless_answer = False
        self._body: _Body = _NoBody()

    def feed(self, data: bytes | bytearray | memoryview) -> bytes:
        """Bytes from the client; what of them goes to the other side, rewritten where it must be.

        Raises:
            BadRequest: answer with `refused`, or break the connection off if it was accepted already.
        """
        if self.target is not None:
            return bytes(data) if self.tunnel else self._body.feed(bytes(data))
        seen = max(0, len(self._head) - 3)
        self._head += data
        end = self._head.find(b"\r\n\r\n", seen)
        _check_line_ends(self._head, seen, end if end >= 0 else len(self._head))
        if end < 0:
            if len(self._head) > MAX_HEAD:
                raise BadRequest("the request's head is too long", 431)
            return b""
        if end > MAX_HEAD:
            raise BadRequest("the request's head is too long", 431)
        head, rest = bytes(self._head[:end]), bytes(self._head[end + 4 :])
        self._head = bytearray()
        return self._read_head(head) + self.feed(rest)

    def take_reply(self) -> bytes:
        """What the client has to be told before there is a target; for HTTP never anything."""
        return b""

    def accepted(self) -> bytes:
        """For the client, when the connection stands."""
        return b"HTTP/1.1 200 Connection established\r\n\r\n" if self.tunnel else b""

    def refused(self, status: int, text: str) -> bytes:
        """For the client, when there is no connection; then the end. `text` is told as it is, in one line of ASCII."""
        line = " ".join(text.split()).encode("ascii", "backslashreplace")[:MAX_REASON].decode("ascii")
        line = "".join(sign if ord(sign) in _VALUE else "?" for sign in line)
        body = b"" if self._bodiless_answer else f"{line}\n".encode("ascii")
        # The reason phrase is all that many clients show of a refused CONNECT.
        head = f"HTTP/1.1 {status} {line or _WORDS.get(status, 'Refused')}\r\nContent-Type: text/plain\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("ascii") + body

    def _read_head(self, head: bytes) -> bytes:
        first, *lines = head.split(b"\r\n")
        method, place, version = _request_line(first)
        headers = _headers(lines)
        self._bodiless_answer = method == b"HEAD"
        if method == b"CONNECT":
            if headers.has(b"content-length") or headers.has(b"transfer-encoding"):
                raise BadRequest("a CONNECT has no body")
            headers.one(b"host")
            self.target = _authority(place, None)
            self.tunnel = True
            return b""
        authority, path = _absolute(method, place)
        target = _authority(authority, HTTP_PORT)
        _check_host(headers.one(b"host"), target, version)
        self._body = _body(headers, version)
        self.target = target
        sent = [method + b" " + path + b" " + version, b"Host: " + authority]
        sent += [name + b": " + value for name, value in headers.kept()]
        return b"\r\n".join([*sent, b"Connection: close", b"", b""])


def _check_line_ends(head: bytearray, start: int, end: int) -> None:
    # Told at once and not when the head is whole: a client that ends lines otherwise would wait for ever.
    for sign in (0x0A, 0x00):
        at = head.find(sign, start, end)
        while at >= 0:
            if sign == 0 or at == 0 or head[at - 1 : at] != b"\r":
                raise BadRequest("a line does not end as it must, or holds a zero byte")
            at = head.find(sign, at + 1, end)


def _request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    parts = line.split(b" ")
    if len(parts) != 3:  # noqa: PLR2004 - method, target, version
        raise BadRequest("the request line is not METHOD TARGET VERSION")
    method, place, version = parts
    if not method or len(method) > 20 or not _METHOD.issuperset(method):  # noqa: PLR2004 - the longest known has 17
        raise BadRequest("the method is no word in capital letters")
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadRequest("only HTTP/1.1 and HTTP/1.0 are spoken here", 505)
    if not place or not _VISIBLE.issuperset(place):
        raise BadRequest("the request's target holds what no URL may hold")
    return method, place, version


def _absolute(method: bytes, place: bytes) -> tuple[bytes, bytes]:
    if place[:7].lower() != b"http://":
        if place[:8].lower() == b"https://":
            raise BadRequest("ask for https with CONNECT")
        raise BadRequest("this is a proxy: ask with CONNECT HOST:PORT, or for an http:// URL")
    if b"#" in place or b"\\" in place:
        raise BadRequest("the request's target holds what no URL may hold")
    rest = place[7:]
    ends = [at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0]
    authority, path = (rest[: min(ends)], rest[min(ends) :]) if ends else (rest, b"")
    if path.startswith(b"?"):
        path = b"/" + path
    return authority, path or (b"*" if method == b"OPTIONS" else b"/")


def _authority(text: bytes, default_port: int | None) -> tuple[str, int]:
    if not text or not _AUTHORITY.issuperset(text):
        raise BadRequest("the host holds what no host may hold")
    host, colon, port = text.rpartition(b":")
    if not colon or (text.startswith(b"[") and text.endswith(b"]")):
        if default_port is None:
            raise BadRequest("CONNECT names HOST:PORT")
        host, port = text, b"%d" % default_port
    bare = not (host.startswith(b"[") and host.endswith(b"]"))
    if not host or (bare and (b":" in host or b"[" in host or b"]" in host)):
        raise BadRequest("the host holds what no host may hold")
    if not port or len(port) > 5 or not _DIGITS.issuperset(port) or not 1 <= int(port) <= 65535:  # noqa: PLR2004
        raise BadRequest("a port is a number from 1 to 65535")
    return host.decode("ascii"), int(port)


def _check_host(host: bytes | None, target: tuple[str, int], version: bytes) -> None:
    if host is None:
        if version == b"HTTP/1.1":
            raise BadRequest("the Host header is missing")
        return
    name, port = _authority(host, HTTP_PORT)
    if (name.lower(), port) != (target[0].lower(), target[1]):
        raise BadRequest("the Host header and the URL disagree")


class _Headers:
    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields

    def has(self, name: bytes) -> bool:
        return any(known.lower() == name for known, _ in self._fields)

    def one(self, name: bytes) -> bytes | None:
        values = [value for known, value in self._fields if known.lower() == name]
        if len(values) > 1:
            raise BadRequest(f"there are two headers {name.decode('ascii')}")
        return values[0] if values else None

    def kept(self) -> list[tuple[bytes, bytes]]:
        named = {
            word.strip().lower()
            for name, value in self._fields
            if name.lower() == b"connection"
            for word in value.split(b",")
        }
        if named & _ESSENTIAL:
            raise BadRequest("Connection names a header that belongs to the request")
        dropped = _HOP | named | {b"host"}
        return [
            (name, value)
            for name, value in self._fields
            if name.lower() not in dropped and not name.lower().startswith(b"proxy-")
        ]


def _headers(lines: list[bytes]) -> _Headers:
    if len(lines) > MAX_HEADERS:
        raise BadRequest("there are too many headers", 431)
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise BadRequest("a header line is not NAME: VALUE")
        value = value.strip(b" \t")
        if not _VALUE.issuperset(value):
            raise BadRequest("a header holds a control character")
        fields.append((name, value))
    return _Headers(fields)


def _body(headers: _Headers, version: bytes) -> _Body:
    length, coding = headers.one(b"content-length"), headers.one(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadRequest("a body has a length or comes in chunks, not both")
        if coding.lower() != b"chunked" or version != b"HTTP/1.1":
            raise BadRequest("the only transfer coding spoken here is chunked")
        return _Chunks()
    if length is None:
        return _NoBody()
    if not length or len(length) > 18 or not _DIGITS.issuperset(length):  # noqa: PLR2004 - fits 64 bits
        raise BadRequest("Content-Length is no number")
    return _Length(int(length))


class _Body:
    """What a request may still hold; gives back what passes."""

    def feed(self, data: bytes) -> bytes:
        raise NotImplementedError


class _NoBody(_Body):
    def feed(self, data: bytes) -> bytes:
        if data:
            raise BadRequest("there is more than one request on this connection")
        return b""


class _Length(_Body):
    def __init__(self, length: int) -> None:
        self._left = length

    def feed(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise BadRequest("there is more than one request on this connection")
        return data


class _Chunks(_Body):
    """Chunks without extensions and trailers; anything else about them is refused."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._left = 0
        self._expect = "size"

    def feed(self, data: bytes) -> bytes:
        at = 0
        while at < len(data):
            if self._expect == "data":
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                if not self._left:
                    self._expect = "end"
                continue
            if self._expect == "over":
                raise BadRequest("there is more than one request on this connection")
            self._line.append(data[at])
            at += 1
            self._line_grew()
        return data

    def _line_grew(self) -> None:
        line = bytes(self._line)
        if self._expect == "size":
            if not line.endswith(b"\r\n"):
                if len(line) > 17 or not _HEX.issuperset(line[:-1] if line.endswith(b"\r") else line):  # noqa: PLR2004
                    raise BadRequest("a chunk's size is no number")
                return
            if len(line) == 2:  # noqa: PLR2004 - the line end alone
                raise BadRequest("a chunk has no size")
            self._left = int(line[:-2], 16)
            self._expect = "data" if self._left else "last"
        elif not b"\r\n".startswith(line):
            raise BadRequest("a chunk does not end where it says")
        elif line != b"\r\n":
            return
        else:
            self._expect = "size" if self._expect == "end" else "over"
        self._line.clear()


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
    """One client, from its first byte; use once. Send what `take_reply` gives before waiting for more."""

    def __init__(self) -> None:
        # Host and port; an IPv6 address in brackets. None until the request is whole.
        self.target: tuple[str, int] | None = None
        self.tunnel = True  # Always true
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
