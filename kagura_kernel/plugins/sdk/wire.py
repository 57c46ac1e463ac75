"""One HTTPS exchange through the jail's proxy, all of it bounded, and its answer as guest code gets it.

There is no other way out of a jail than its proxy. Behind it the membrane looks the name up, checks every answer and
dials the very address that it checked.

What its server said may be kept is kept, for a short time and in a small place.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from .allowing import PORT, Url
from .faults import TooLarge
from .limits import Budget, Monotonic

MAX_OVERHEAD = 256 * 1024
"""Bytes of heads, trailers and chunk sizes that an answer may have beside its body."""

_MAX_PROXY_HEAD = 8 * 1024
_PROXY = re.compile(r"http://127\.0\.0\.1:([0-9]{1,5})/?", re.ASCII)
_MAX_PORT = 65535
_CONNECTED = b"200"
_END = b"\r\n\r\n"
# Where distributions keep the bundle; what Python was built with comes first.
_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Unreachable(Exception):
    """Why an exchange could not be made; for the log alone."""


class NoAnswer(Exception):
    """What came is no answer in HTTP, or ended before its end."""


def proxy_port() -> int:
    """The port of this jail's proxy; 0 where it has none.

    The variable is set by whoever started the jail. Only the jail's own loopback counts: nothing else is a proxy here.
    """
    found = _PROXY.fullmatch(os.environ.get("HTTPS_PROXY", ""))
    return int(found[1]) if found and int(found[1]) <= _MAX_PORT else 0


def client_context(authority: str = "") -> ssl.SSLContext:
    """A client's context: TLS 1.2 or newer, certificates and names are checked, HTTP/1.1 alone is offered.

    Neither `SSL_CERT_FILE` nor `SSLKEYLOGFILE` is heard: what is believed is no matter of the environment. `authority`
    holds certificates (PEM) of the only authority to believe; empty for those of the system.
    """
    # Checks certificates and host names from the start.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if authority:
        context.load_verify_locations(cadata=authority)
        return context
    paths = ssl.get_default_verify_paths()
    file = next((one for one in (paths.openssl_cafile, *_AUTHORITIES) if Path(one).is_file()), None)
    folder = paths.openssl_capath if Path(paths.openssl_capath).is_dir() else None
    if file or folder:
        context.load_verify_locations(file, folder)
    return context


class Deadline:
    """The end of one exchange, so many seconds from now."""

    def __init__(self, seconds: float, now: Monotonic = time.monotonic) -> None:
        self._now = now
        self._end = now() + seconds

    def left(self) -> float:
        """Seconds that are left, more than none. Raises `TimeoutError`: time is up."""
        left = self._end - self._now()
        if left <= 0:
            raise TimeoutError("time is up")
        return left


@contextmanager
def connected(url: Url, port: int, context: ssl.SSLContext, deadline: Deadline) -> Iterator[ssl.SSLSocket]:
    """A TLS connection to a URL's host, for the block.

    Raises `Unreachable`: the proxy refuses, the host does not answer, or it is not who it should be.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=deadline.left()) as plain:
            _ask_proxy(plain, url, deadline)
            plain.settimeout(deadline.left())
            with context.wrap_socket(plain, server_hostname=url.host) as secure:
                yield secure
    except OSError as error:
        raise Unreachable(_reason(error)) from error


class Answer:
    """What a server answers: its head at once, its body piece by piece.

    The answer to HEAD has no body. Raises `NoAnswer`: it is no HTTP, its head is too long, or it switches to something
    else; `OSError`: the connection failed, or time is up.
    """

    def __init__(self, connection: ssl.SSLSocket, method: str, most: int, deadline: Deadline) -> None:
        raw = _TimedReader(connection, most + MAX_OVERHEAD, deadline)
        with _as_no_answer():
            # It wants nothing of a socket but the file that is made of it.
            self.head = http.client.HTTPResponse(cast("socket.socket", _Readable(raw)), method=method)
            self.head.begin()
        if self.head.status < http.client.OK:
            raise NoAnswer("the server wants to speak something else")

    def header(self, name: str) -> str:
        """The values of a header, joined; empty without one."""
        return self.head.getheader(name) or ""

    def pieces(self, size: int) -> Iterator[bytes]:
        """The body in pieces of at most so many bytes.

        Raises `NoAnswer`: it ended before its end, or its chunks are none; `OSError`: the connection failed, or time is
        up.
        """
        with _as_no_answer():
            while piece := self.head.read(size):
                yield piece
        if self.head.length:
            raise NoAnswer("the answer ended before its end")


@contextmanager
def _as_no_answer() -> Iterator[None]:
    try:
        yield
    except (http.client.HTTPException, ValueError) as error:
        raise NoAnswer(type(error).__name__) from error


class _TimedReader(io.RawIOBase):
    """Reads before the deadline, and no more than so many bytes: a server that drips or never ends is cut."""

    def __init__(self, connection: ssl.SSLSocket, most: int, deadline: Deadline) -> None:
        super().__init__()
        self._connection = connection
        self._left = most
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._left <= 0:
            raise http.client.HTTPException("the answer is longer than what is read of it")
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Readable:
    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BufferedReader:
        del mode
        return io.BufferedReader(self._raw)


def _ask_proxy(connection: socket.socket, url: Url, deadline: Deadline) -> None:
    place = f"{url.host}:{PORT}"
    connection.settimeout(deadline.left())
    connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode("ascii"))
    head = b""
    while _END not in head:
        if len(head) > _MAX_PROXY_HEAD:
            raise Unreachable("the proxy's answer has no end")
        connection.settimeout(deadline.left())
        piece = connection.recv(_MAX_PROXY_HEAD)
        if not piece:
            raise Unreachable("the proxy hung up")
        head += piece
    line, _, _rest = head.partition(b"\r\n")
    words = line.split(b" ", 2)
    if not words[0].startswith(b"HTTP/1.") or words[1:2] != [_CONNECTED]:
        raise Unreachable(f"the membrane says: {b' '.join(words[2:]).decode('ascii', 'replace')}")
    if not head.endswith(_END):
        raise Unreachable("the server spoke before it was asked")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}"
    return (error.strerror or str(error) or type(error).__name__).lower()


MAX_ENTRIES = 32
MAX_KEPT = 4 * 2**20
MAX_SECONDS = 300.0

Key = tuple[str, str]
"""The URL and what was accepted."""

_PIECE = 64 * 1024
_MAX_HEADERS = 64
_MAX_VALUE = 4 * 1024
_MAX_REASON = 100
_KEPT_BACK = frozenset({"set-cookie", "set-cookie2"})
_PLAIN_CONTROLS = frozenset("\t\n\r")
_OK = 200
_FORBIDS = frozenset({"no-store", "no-cache", "private"})
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer."""

    status: int  # From 200 on
    reason: str  # The words after it
    headers: dict[str, str]  # In lower case; several values are joined by commas
    body: bytes  # All of it
    cached: bool = False  # Whether it was kept from an earlier request

    @classmethod
    def without_body(cls, answer: Answer) -> Fetched:
        """The head of an answer, its body left unread."""
        return cls(answer.head.status, _printable(answer.head.reason, _MAX_REASON), _headers(answer), b"")

    def shown(self, url: str, redirects: int) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "url": url,
            "status": self.status,
            "reason": self.reason,
            "headers": self.headers,
            "redirects": redirects,
            "cached": self.cached,
            **_body(self.body, self.headers),
        }


def read_answer(answer: Answer, most: int, budget: Budget) -> Fetched:
    """An answer with its body, for whose bytes the budget pays as they come; raises as `Answer.pieces`.

    Raises also `TooLarge`: it has more; `LimitReached`: the budget is used up.
    """
    pieces = []
    size = 0
    if answer.head.length is not None and answer.head.length > most:
        raise TooLarge(f"The answer has {answer.head.length:,} bytes; {most:,} are taken.")
    for piece in answer.pieces(_PIECE):
        budget.take(len(piece))
        size += len(piece)
        if size > most:
            raise TooLarge(f"The answer has more than {most:,} bytes.")
        pieces.append(piece)
    head = Fetched.without_body(answer)
    return Fetched(head.status, head.reason, head.headers, b"".join(pieces))


class Cache:
    """Keeps answers; what was used longest ago goes first. Safe to use from several threads."""

    def __init__(self, now: Monotonic = time.monotonic) -> None:
        self._now = now
        self._kept: dict[Key, tuple[float, Fetched]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Fetched | None:
        """The answer, unless it is too old."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None or found[0] <= self._now():
                return None
            self._kept[key] = found
            return replace(found[1], cached=True)

    def put(self, key: Key, fetched: Fetched) -> None:
        """Keep an answer if its server allows it."""
        seconds = seconds_to_keep(fetched)
        if not seconds:
            return
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (self._now() + seconds, fetched)
            while len(self._kept) > MAX_ENTRIES or sum(len(one.body) for _, one in self._kept.values()) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]


def seconds_to_keep(fetched: Fetched) -> float:
    """How long an answer may be kept; 0 where its server does not say that anybody may have it."""
    words = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (word.partition("=") for word in fetched.headers.get("cache-control", "").split(","))
    }
    varies = fetched.headers.get("vary", "").strip().lower()
    if fetched.status != _OK or _FORBIDS & set(words) or varies not in {"", "accept", "accept-encoding"}:
        return 0.0
    age = words.get("max-age", "")
    return min(float(age), MAX_SECONDS) if age.isascii() and age.isdigit() and len(age) <= _MAX_DIGITS else 0.0


def _headers(answer: Answer) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in answer.head.getheaders():
        lower = _printable(name.lower(), _MAX_REASON)
        if lower in _KEPT_BACK or (lower not in found and len(found) >= _MAX_HEADERS):
            continue
        joined = f"{found[lower]}, {value}" if lower in found else value
        found[lower] = _printable(joined, _MAX_VALUE)
    return found


def _body(body: bytes, headers: dict[str, str]) -> dict[str, str]:
    if headers.get("content-encoding", "identity").lower() == "identity":
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        # A control character takes six bytes in JSON; a file full of them is no text anyway.
        if all(sign >= " " or sign in _PLAIN_CONTROLS for sign in text):
            return {"text": text}
    return {"base64": base64.b64encode(body).decode("ascii")}


def _printable(text: str, most: int) -> str:
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text[:most])
