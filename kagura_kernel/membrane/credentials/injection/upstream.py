"""The other end: one upstream over TLS, reached through the egress gate's checks, kept open for a moment between uses.

The address that was checked is the one that is dialled, and its certificate must bear the upstream's name. A request is
sent once: it is tried again only on a connection that had been closed before it, and only when it has no body.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import TYPE_CHECKING

import h11

from kagura_kernel.domain.errors import EgressUnreachable
from kagura_kernel.membrane.credentials.injection.rewriting import Upstream
from kagura_kernel.membrane.egress.names import make_target
from kagura_kernel.membrane.egress.policy import EgressPolicy

if TYPE_CHECKING:
    from kagura_kernel.membrane.egress.gate import Gate

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
    """One connection to the upstream; it carries one request at a time."""

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
        """Send a part of the request.

        Raises:
            OSError: the upstream is gone.
        """
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def response(self) -> h11.Response:
        """The head of the answer; what is only provisional is passed over.

        Raises:
            OSError: there is none.
        """
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:  # noqa: PLR2004 - HTTP
                raise UpstreamBroke("it changed the protocol")

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the answer, piece by piece.

        Raises:
            OSError: it ends too early.
        """
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


class UpstreamPool:
    """Connections to one upstream.

    Args:
        upstream: Which.
        gate_for: Makes its gate.
        addresses: Addresses outside the public network that it may have.
        seconds: Until a connection stands, TLS included.
        trust: For TLS; None is what this machine trusts.
    """

    def __init__(
        self,
        upstream: Upstream,
        gate_for: GateFor,
        *,
        addresses: tuple[str, ...] = (),
        seconds: float,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._upstream = upstream
        self._gate = gate_for(policy_for(upstream, addresses))
        self._seconds = seconds
        self._trust = trust
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
        upstream = self._upstream
        socket, _ = await self._gate.connect(await self._gate.admit(upstream.host, upstream.port))
        secure = upstream.scheme == "https"
        try:
            async with asyncio.timeout(self._seconds):
                reader, writer = await asyncio.open_connection(
                    sock=socket,
                    limit=CHUNK,
                    ssl=(self._trust or _machine_trust()) if secure else None,
                    server_hostname=upstream.host if secure else None,
                )
        except ssl.SSLCertVerificationError as error:
            why = f"shows a certificate that is not accepted: {error.verify_message.lower().rstrip('.')}"
            raise EgressUnreachable(upstream.host, upstream.port, why) from error
        except TimeoutError as error:
            raise EgressUnreachable(
                upstream.host, upstream.port, f"did not agree on TLS within {self._seconds:g} s"
            ) from error
        except OSError as error:
            raise EgressUnreachable(upstream.host, upstream.port, "broke off the connection") from error
        except BaseException:
            with contextlib.suppress(OSError):
                socket.close()
            raise
        return UpstreamConnection(reader, writer)


def policy_for(upstream: Upstream, addresses: tuple[str, ...] = ()) -> EgressPolicy:
    """The policy that grants one upstream and nothing else."""
    hosts = [upstream.host, *addresses, *(_LOCALHOST if upstream.host == "localhost" else ())]
    return EgressPolicy({make_target(host, upstream.port): "inject" for host in hosts})


@cache
def _machine_trust() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()
