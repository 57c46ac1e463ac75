"""The box's end of one connection: HTTP/1.1 as a server speaks it, and what is told of each request.

A request is read strictly, and refused rather than repaired, so that nothing has two readings: what h11 would forgive
is refused before it parses, and then what is not passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

import h11

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.membrane.credentials.injection.upstream import Headers
from kagura_kernel.sandbox.backend import GuestStream

RequestEnd = Literal["done", "refused", "broken", "limit", "time", "ended"]
"""How a request ended: answered in full; refused here; one side broke it off; a limit of bytes; a limit of time; the
lease was closed meanwhile."""


@dataclass(frozen=True, slots=True)
class InjectedRequest:
    """One request that a program in a box sent through a lease, when it is over. Never a secret, never a query."""

    lease_id: str
    provider: str
    scope: str
    method: str  # `GET`, …; empty when it could not be read
    host: str  # The upstream's host and port
    path: str  # As it was sent, without its query, at most 500 characters, secrets as `*`
    status: int = 0  # What the program was answered; 0 when it was no answer
    bytes_out: int = 0  # Of the request's body
    bytes_in: int = 0  # Of the answer's body
    duration: float = 0.0  # Seconds
    ended: RequestEnd = "done"  # How it ended
    # More about an end that is not `done`, a sentence; where there is one, it begins with an error's code
    detail: str = ""

    def facts(self) -> dict[str, Any]:
        """What an event tells of it; whose lease it was is not part of it."""
        return {
            "method": self.method,
            "host": self.host,
            "path": self.path,
            "status": self.status,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "duration": self.duration,
            "why": self.detail or ("" if self.ended == "done" else self.ended),
        }


RecordRequest = Callable[[InjectedRequest], None]
"""Takes each request when it is over; when it raises, the connection is cut."""


@dataclass(frozen=True, slots=True)
class InjectionView:
    """One way in which a lease can be used just now, for a person or a brain."""

    name: str  # `PROVIDER:SCOPE`
    way: Literal["header", "file", "env"]  # `header`, `file` or `env`
    where: str  # The base URL or file in the box, or the variables' names
    stands_for: str = ""  # For `header`: the upstream


@dataclass(frozen=True, slots=True)
class InjectionLimits:
    """The limits on one loopback URL; one that is reached ends a request or a connection, never the run."""

    connections: int = 64  # Open at once
    head_bytes: int = 64 * 1024  # Of the head of one request
    head: float = 10.0  # Seconds from its first byte to its last
    keep: float = 60.0  # Seconds that a connection may wait for its next request
    connect: float = 10.0  # Seconds until the upstream is connected, TLS included
    idle: float = 300.0  # Seconds without a byte in either direction
    parted: float = 10.0  # The same for a program that has closed its side of the connection
    total: float = 3600.0  # Seconds that one request may last
    bytes_out: int = 2**30  # Of the body of one request,
    bytes_in: int = 2 * 2**30  # and of one answer
    lease_bytes_out: int = 4 * 2**30  # Of all requests together,
    lease_bytes_in: int = 16 * 2**30  # and of all answers
    rate: float = 100.0  # Requests a second, in the long run; what comes faster is refused
    burst: int = 500  # Requests that may come as fast as they like before `rate` holds


SINGLE = 200
"""So many requests of a lease have a row each; later ones, and refused ones from the first on, are summed up."""

MOST = 4096
"""So many requests one row stands for at most."""

KINDS = 64
"""So many sorts of requests of a lease are told apart: a program makes up methods as it likes."""


@dataclass(slots=True)
class _Batch:
    """Requests of one sort that get one row: so many, twice as many as the row before."""

    most: int
    count: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    last: InjectedRequest | None = None

    def add(self, request: InjectedRequest) -> None:
        self.count += 1
        self.bytes_out += request.bytes_out
        self.bytes_in += request.bytes_in
        self.duration += request.duration
        self.last = request


class Summing:
    """Turns requests into rows; `end` when no more come.

    Args:
        record: Takes what is to be a row, and how many requests it stands for: it is like the last of them, with the
            bytes and seconds of all. When it raises, so does whoever added.
    """

    def __init__(self, record: Callable[[InjectedRequest, int], None]) -> None:
        self._record = record
        self._single: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._batches: dict[tuple[str, str, int, bool], _Batch] = {}

    def add(self, request: InjectedRequest) -> None:
        """One request is over."""
        lease, refused = request.lease_id, request.ended == "refused"
        if not refused and self._single[lease] < SINGLE:
            self._single[lease] += 1
            self._record(request, 1)
            return
        key = lease, request.method, request.status, refused
        if key not in self._batches and self._kinds[lease] >= KINDS:
            key = lease, "", 0, refused
        if key not in self._batches:
            self._kinds[lease] += 1
            self._batches[key] = _Batch(1)
        batch = self._batches[key]
        batch.add(request)
        if batch.count >= batch.most:
            self._batches[key] = _Batch(min(2 * batch.most, MOST))
            self._write(batch)

    def end(self) -> None:
        """Write what was summed up to now."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._write(batch)

    def _write(self, batch: _Batch) -> None:
        if batch.last is not None:
            whole = replace(batch.last, bytes_out=batch.bytes_out, bytes_in=batch.bytes_in, duration=batch.duration)
            self._record(whole, batch.count)


_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_VERSIONS = frozenset({b"1.0", b"1.1"})
_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE", b"TRACK"})
_ROUNDS = 8
_OLD_ESCAPE = re.compile(rb"%u([0-9a-fA-F]{4})")
_BETWEEN_SEGMENTS = re.compile(r"[/\\]")
_PARAMETERS = re.compile(r"[;?#].*", re.DOTALL)
_IGNORED = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060\ufeff]")


class BadRequest(Exception):
    """A request that is not passed on."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status  # What the program is answered
        self.text = text  # Why, one sentence; says nothing that the program did not send itself


def check_head(head: bytes) -> None:
    """Refuse the raw bytes of a head, its empty line included, when they can be read in two ways.

    Raises:
        BadRequest: bare line feeds or carriage returns, folded lines, two lengths, a length beside chunks.
    """
    if _BARE.search(head):
        raise BadRequest(400, "A line ends in something other than CR LF.")
    _, *lines = head[: -len(b"\r\n\r\n")].split(b"\r\n")
    lengths: list[bytes] = []
    codings = 0
    for line in lines:
        if line[:1] in {b" ", b"\t", b""}:
            raise BadRequest(400, "A header is folded over two lines, or empty.")
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            lengths.append(value)
        codings += name.lower() == b"transfer-encoding"
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise BadRequest(400, "The body has two lengths.")
    if codings and lengths:
        raise BadRequest(400, "The body has a length and is chunked as well.")


def check_request(request: h11.Request, port: int) -> None:
    """Refuse a well-formed request that asks for something else than the one upstream behind this port.

    Raises:
        BadRequest: another host, an absolute form, a path that leaves its folder, a method or protocol that is not
            passed on.
    """
    if request.http_version not in _VERSIONS:
        raise BadRequest(505, "HTTP/1.1 is spoken here.")
    if request.method.upper() in _REFUSED_METHODS:
        raise BadRequest(405, f"{request.method.decode()} is not passed on.")
    if not request.target.startswith(b"/"):
        raise BadRequest(400, "The target must be a path: this address leads to one upstream and is no proxy.")
    if b"#" in request.target or _leaves(request.target):
        raise BadRequest(400, "The path holds a fragment, or a part that leads out of its folder.")
    names = [name for name, _ in request.headers]
    hosts = [value for name, value in request.headers if name == b"host"]
    ours = {f"{host}:{port}".encode() for host in ("127.0.0.1", "localhost", "[::1]")}
    if len(hosts) != 1 or hosts[0].lower() not in ours:
        raise BadRequest(421, f"The Host header must name this address, 127.0.0.1:{port}, once.")
    if request.http_version == b"1.0" and b"transfer-encoding" in names:
        raise BadRequest(400, "HTTP/1.0 knows no chunks.")
    if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in request.headers):
        raise BadRequest(501, "WebSockets are not passed through a lease.")


def _leaves(target: bytes) -> bool:
    """Whether any server might read a way out of its folder in it: each decodes as often, and drops, what it likes."""
    path = target.partition(b"?")[0]
    for _ in range(_ROUNDS):
        decoded = unquote_to_bytes(_OLD_ESCAPE.sub(_in_utf8, path))
        if decoded == path:
            return _climbs(path)
        path = decoded
    return True


def _in_utf8(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1], 16)).encode("utf-8", "surrogatepass")


def _climbs(path: bytes) -> bool:
    try:
        text = unicodedata.normalize("NFKC", path.decode("utf-8"))
    except UnicodeDecodeError:
        # Such as a dot of two bytes, which lenient decoders take for one.
        return True
    segments = (_IGNORED.sub("", _PARAMETERS.sub("", part)) for part in _BETWEEN_SEGMENTS.split(text))
    return "\0" in text or any(segment in {".", ".."} for segment in segments)


CHUNK = 64 * 1024
LINGER_SECONDS = 1.0
LINGER_BYTES = 256 * 1024
_END = b"\r\n\r\n"


class Caller:
    """A program in the box that has connected; one request after the other.

    The raw head is checked before h11 sees it, so it is cut out here; each request has an h11 connection of its own.
    Every method raises `OSError` when the program is gone.
    """

    def __init__(self, stream: GuestStream, limits: InjectionLimits) -> None:
        self._stream = stream
        self._limits = limits
        self._buffer = bytearray()
        self._early = bytearray()
        self._http = h11.Connection(h11.SERVER)
        self._writing = asyncio.Lock()
        self.answered = False

    async def request(self) -> h11.Request | None:
        """The next request; None when the program has no more.

        Raises:
            BadRequest: what came is none, or took too long.
        """
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self.answered = False
        head = await self._head()
        if not head:
            return None
        check_head(head)
        try:
            self._http.receive_data(head)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, "This is no HTTP/1.1 request.") from error
        if not isinstance(event, h11.Request):
            raise BadRequest(400, "This is no HTTP/1.1 request.")
        if self._buffer:
            self._http.receive_data(bytes(self._buffer))
            self._buffer.clear()
        if not _has_body(event):
            self._http.next_event()
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the request, piece by piece; a program that waits for a go-ahead gets it here.

        Raises:
            BadRequest: the body breaks its framing, or ends too early.
        """
        while not self.heard:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(400, "The body breaks its framing.") from error
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(bytes(await self._stream.read(CHUNK)))
            elif isinstance(event, h11.Data):
                yield bytes(event.data)

    @property
    def heard(self) -> bool:
        """Whether the whole request has been read."""
        return self._http.their_state not in {h11.IDLE, h11.SEND_BODY, h11.ERROR}

    async def said_all(self) -> None:
        """Return when the program has no more to send; what it says before that is kept for its next request.

        Only once the whole request has been read. Cancelled, nothing is lost.
        """
        while len(self._early) < self._limits.head_bytes:
            data = await self._stream.read(CHUNK)
            if not data:
                return
            self._early += data
        # Whoever asks so much at once is there; more than one head of it is not taken before its turn.
        await asyncio.get_running_loop().create_future()

    async def answer(self, status: int, reason: bytes, headers: Headers) -> None:
        """Begin the answer."""
        self.answered = True
        await self._send(h11.Response(status_code=status, reason=reason, headers=headers))

    async def send(self, data: bytes) -> None:
        """A piece of the answer's body."""
        if data:
            await self._send(h11.Data(data=data))

    async def finish(self) -> bool:
        """End the answer; whether the connection can have another request."""
        await self._send(h11.EndOfMessage())
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._buffer += self._http.trailing_data[0] + bytes(self._early)
            self._early.clear()
            return True
        return False

    async def refuse(self, status: int, code: str, text: str, *, close: bool) -> bool:
        """Answer with our own words instead; whether the connection can have another request.

        Plain text, which git and curl show as it is.
        """
        # Some of the text may be the program's own, and half a character has no UTF-8.
        body = f"{code}: {text}\n".encode("utf-8", "backslashreplace")
        headers: Headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"x-kagura-error", code.encode()),
        ]
        if close or not self.heard:
            headers.append((b"connection", b"close"))
        await self.answer(status, b"", headers)
        await self.send(body)
        return await self.finish()

    async def part(self) -> None:
        """Say that nothing follows, and read on a little: closing over unread bytes would take the answer back."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._stream.write_eof()
                left = LINGER_BYTES
                while left > 0 and (data := await self._stream.read(CHUNK)):
                    left -= len(data)

    async def _send(self, event: h11.Event) -> None:
        async with self._writing:
            if isinstance(event, h11.InformationalResponse) and self._http.our_state is not h11.SEND_RESPONSE:
                return
            try:
                data = self._http.send(event)
            except h11.LocalProtocolError as error:
                # More or less of a body than was announced: nothing that may look whole.
                raise OSError("the answer breaks its framing") from error
            if data:
                await self._stream.write(data)

    async def _head(self) -> bytes:
        try:
            if not self._buffer:
                async with asyncio.timeout(self._limits.keep):
                    if not await self._more():
                        return b""
            async with asyncio.timeout(self._limits.head):
                return await self._rest_of_head()
        except TimeoutError:
            if not self._buffer:
                return b""
            raise BadRequest(408, f"The head took longer than {self._limits.head:g} s.") from None

    async def _rest_of_head(self) -> bytes:
        searched = 0
        while (at := self._buffer.find(_END, searched)) < 0:
            searched = max(0, len(self._buffer) - len(_END))
            # Told at once, without waiting for an end that a bare line feed may never have.
            if b"\n\n" in self._buffer:
                raise BadRequest(400, "A line ends in something other than CR LF.")
            if len(self._buffer) > self._limits.head_bytes:
                break
            if not await self._more():
                raise BadRequest(400, "The head ends too early.")
        if at < 0 or at > self._limits.head_bytes:
            raise BadRequest(431, f"The head is longer than {self._limits.head_bytes} bytes.")
        end = at + len(_END)
        head = bytes(self._buffer[:end])
        del self._buffer[:end]
        return head

    async def _more(self) -> bool:
        data = await self._stream.read(CHUNK)
        self._buffer += data
        return bool(data)


def _has_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value)) for name, value in request.headers
    )
