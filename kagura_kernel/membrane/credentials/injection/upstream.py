"""The upstream's side of the proxy: where a request goes, what headers pass either way, and the connection.

Headers: what a request loses and gains, and what of an answer reaches the box. Bodies: the secret's bytes become as
many `*`, also across the borders of chunks, so that a length that was announced stays true. Connections: the address
that the egress gate checked is the one that is dialled, and its certificate must bear the upstream's name. A request is
sent once: it is tried again only on a connection that had been closed before it, and only when it has no body.

h11 frames both sides. A client library (httpx, httpcore) sends the whole body before it reads the answer, so that an
upstream which answers early, or a program that hangs up while the upstream is silent, would be noticed too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

import h11

from kagura_kernel.domain.errors import EgressUnreachable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.membrane.credentials.provider_http import machine_trust
from kagura_kernel.membrane.credentials.scrub import Covering, LookedFor, Scrubber
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.egress.hosts import bracketed, make_target
from kagura_kernel.membrane.egress.policy import EgressPolicy

if TYPE_CHECKING:
    from kagura_kernel.membrane.egress.gate import Gate


class Forms:
    """The bytes in which the secrets of one lease turn up, old ones included; it only grows."""

    def __init__(self) -> None:
        self._secrets: list[Secret] = []
        self._scrubber = Scrubber(lambda: self._secrets)

    def add(self, secrets: Iterable[Secret]) -> None:
        """Know these too."""
        self._secrets += [secret for secret in secrets if secret not in self._secrets]

    def __call__(self) -> LookedFor:
        """All of them."""
        return self._scrubber.for_text()

    def hide(self, data: bytes) -> bytes:
        """A whole text."""
        body = censored(self)
        return body.feed(data) + body.finish()


def censored(look_for: Callable[[], LookedFor]) -> Covering:
    """One body, with as many `*` for a secret. What might be the beginning of one waits for the next chunk, or the end.

    It is asked for each chunk what to look for: there may be more.
    """
    return Covering(look_for, lambda size, _again: b"*" * size)


Headers = list[tuple[bytes, bytes]]

_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings"})
# A credential of its own, a part of an answer (which could show a secret piece by piece), an encoding that cannot be
# looked into, another path or method than those of the request, an origin: none of these leaves the box. A cookie
# would outlive the lease.
_NOT_SENT = frozenset(
    (
        b"host content-length expect authorization cookie cookie2 range request-range if-range a-im accept-encoding "
        b"accept-charset x-http-method-override x-http-method x-method-override forwarded x-host x-real-ip x-client-ip "
        b"true-client-ip"
    ).split()
)
_NOT_SENT_BEGINNINGS = (b"proxy-", b"x-forwarded-", b"x-original-", b"x-rewrite-")
_NOT_DELIVERED = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc"})
_LOCATIONS = frozenset({b"location", b"content-location"})
_LINK = re.compile(r"<([^<>]*)>")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a lease leads."""

    scheme: str  # `https`, or `http` on loopback
    host: str  # Name or address, without brackets
    port: int  # TCP port
    prefix: str  # Path before every request's own, without a slash at its end

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """From a base URL that `HeaderInjection` has checked."""
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """For the Host header."""
        name = bracketed(self.host)
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def target(self) -> str:
        """Host and port, for records."""
        return f"{bracketed(self.host)}:{self.port}"

    def path(self, target: bytes) -> bytes:
        """A request's target, as the upstream sees it."""
        return self.prefix.encode() + target

    def inside(self, url: str, asked: bytes, base: str) -> str:
        """A reference of an answer as the box should follow it: below `base` where the upstream itself is meant.

        `asked` is the target that the upstream was asked for.
        """
        try:
            absolute = urljoin(f"{self.scheme}://{self.authority}{asked.decode('ascii')}", url)
            parts = urlsplit(absolute)
            port = parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            return url
        ours = (parts.scheme, parts.hostname, port) == (self.scheme, self.host, self.port) and parts.username is None
        if not ours or not (parts.path + "/").startswith(self.prefix + "/"):
            return absolute if ours else url
        rest = absolute.split("/", 3)[3] if absolute.count("/") > 2 else ""  # noqa: PLR2004 - those of scheme and path
        return f"{base}/{('/' + rest)[len(self.prefix) :].lstrip('/')}"


def outgoing(headers: Iterable[tuple[bytes, bytes]], upstream: Upstream, injected: tuple[bytes, bytes]) -> Headers:
    """The headers that the upstream is sent.

    What names the injected header in any spelling is taken out: some servers read `_` as `-`.
    """
    given = list(headers)
    named = _named_by_connection(given)
    sent: Headers = [(b"host", upstream.authority.encode())]
    ours = injected[0].replace(b"_", b"-")
    for name, value in given:
        plain = name.replace(b"_", b"-")
        if plain in _HOP | _NOT_SENT | {ours} | named or plain.startswith(_NOT_SENT_BEGINNINGS):
            continue
        sent.append((name, value))
    sent += [(name, value) for name, value in given if name in {b"content-length", b"transfer-encoding"}]
    return [*sent, (b"accept-encoding", b"identity"), (b"connection", b"keep-alive"), injected]


def incoming(
    headers: Iterable[tuple[bytes, bytes]],
    upstream: Upstream,
    asked: bytes,
    base: str,
    hide: Callable[[bytes], bytes],
) -> Headers:
    """The headers that the box is answered with."""
    given = list(headers)
    named = _named_by_connection(given) - {b"content-length"}
    delivered: Headers = []
    for name, value in given:
        if name in _HOP | _NOT_DELIVERED | named or name.startswith(b"proxy-"):
            continue
        shown = value
        if name in _LOCATIONS:
            shown = upstream.inside(value.decode("latin-1"), asked, base).encode("latin-1", "replace")
        elif name == b"link":
            shown = _LINK.sub(
                lambda found: f"<{upstream.inside(found.group(1), asked, base)}>", value.decode("latin-1")
            ).encode("latin-1", "replace")
        delivered.append((hide(name), hide(shown)))
    return delivered


def _named_by_connection(headers: Headers) -> set[bytes]:
    return {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}


class RequestWatch(Protocol):
    """Looks into one request and its answer; made for that request alone."""

    @property
    def longest(self) -> int:
        """Bytes that its body may have: it is held until it has been looked at."""

    def admit(self, method: bytes, target: bytes) -> None:
        """Look at what is asked for.

        Raises:
            BadRequest: it is not passed on.
        """

    def headers(self, headers: Headers) -> Headers:
        """Those of the request's headers that may leave the box."""

    async def body(self, body: bytes) -> None:
        """Look at the whole body, before any of the request is sent.

        Raises:
            BadRequest: it is not passed on.
        """

    def answer(self, status: int) -> None:
        """An answer begins."""

    def heard(self, piece: bytes) -> None:
        """A piece of the answer's body, as the upstream sent it."""

    def heard_all(self) -> None:
        """There is no more of the answer, whole or broken off; called once after `answer`."""

    def ended(self) -> None:
        """The request is over, however it went; called once, last."""


GateFor = Callable[[EgressPolicy], "Gate"]
"""Makes the gate for one upstream from a policy that grants nothing else."""

CHUNK = 64 * 1024
IDLE_SECONDS = 3.0
"""So long a connection waits for its next use; servers hang up after five at the earliest."""

MOST_IDLE = 8
_HEAD_BYTES = 256 * 1024
_LOCALHOST = ("127.0.0.1", "::1")


class UpstreamBroke(OSError):
    """The upstream hung up, or does not speak HTTP/1.1."""


class UpstreamConnection:
    """One connection to the upstream, for one request at a time; its methods raise `OSError` when that is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self.used = False
        self.since = 0.0

    @property
    def gone(self) -> bool:
        """Whether the upstream has hung up while nobody used it."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def send(self, event: h11.Event) -> None:
        """Send a part of the request."""
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def response(self) -> h11.Response:
        """The head of the answer; what is only provisional is passed over."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:  # noqa: PLR2004 - HTTP
                raise UpstreamBroke("it changed the protocol")

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the answer, piece by piece."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    def again(self) -> bool:
        """Get ready for another request; whether that can be."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        if self._http.trailing_data[0] or self.gone:
            return False
        self._http.start_next_cycle()
        self.used = True
        self.since = asyncio.get_running_loop().time()
        return True

    def close(self) -> None:
        """At once; nothing that was not sent is sent any more."""
        self._writer.transport.abort()

    async def _event(self) -> type[h11.PAUSED | h11.NEED_DATA] | h11.Event:
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._http.receive_data(await self._reader.read(CHUNK))
            except h11.RemoteProtocolError as error:
                raise UpstreamBroke("it hung up, or what it says is not HTTP/1.1") from error


@dataclass(eq=False, repr=False)
class UpstreamPool:
    """Connections to one upstream."""

    upstream: Upstream  # Which
    gate: Gate  # Lets nothing else through
    seconds: float  # Until a connection stands, TLS included
    trust: ssl.SSLContext | None = None  # For TLS; None is what this machine trusts

    def __post_init__(self) -> None:
        self._idle: list[UpstreamConnection] = []

    async def connection(self, *, fresh: bool = False) -> UpstreamConnection:
        """One that nobody else uses.

        Raises:
            EgressRefused: it cannot be reached, or must not be.
        """
        now = asyncio.get_running_loop().time()
        while self._idle and not fresh:
            waiting = self._idle.pop()
            if not waiting.gone and now - waiting.since < IDLE_SECONDS:
                return waiting
            waiting.close()
        return await self._connect()

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keep it for the next request, when it can have one."""
        if len(self._idle) < MOST_IDLE and connection.again():
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close what waits."""
        while self._idle:
            self._idle.pop().close()

    async def _connect(self) -> UpstreamConnection:
        upstream, secure = self.upstream, self.upstream.scheme == "https"
        socket, _ = await self.gate.connect(await self.gate.admit(upstream.host, upstream.port))
        try:
            async with asyncio.timeout(self.seconds):
                reader, writer = await asyncio.open_connection(
                    sock=socket,
                    limit=CHUNK,
                    ssl=(self.trust or machine_trust()) if secure else None,
                    server_hostname=upstream.host if secure else None,
                )
        except OSError as error:  # a timeout is one too
            raise EgressUnreachable(upstream.host, upstream.port, self._why(error)) from error
        except BaseException:
            with contextlib.suppress(OSError):
                socket.close()
            raise
        return UpstreamConnection(reader, writer)

    def _why(self, error: OSError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"shows a certificate that is not accepted: {error.verify_message.lower().rstrip('.')}"
        timed_out = isinstance(error, TimeoutError)
        return f"did not agree on TLS within {self.seconds:g} s" if timed_out else "broke off the connection"


def policy_for(upstream: Upstream, addresses: tuple[str, ...] = ()) -> EgressPolicy:
    """The policy that grants one upstream and nothing else."""
    hosts = [upstream.host, *addresses, *(_LOCALHOST if upstream.host == "localhost" else ())]
    return EgressPolicy({make_target(host, upstream.port): "inject" for host in hosts})
