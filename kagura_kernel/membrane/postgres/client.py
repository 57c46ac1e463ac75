"""A program in the box that wants a session, seen from its own side: what it says first, and how it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ConfigurationError, EgressRefused
from kagura_kernel.membrane.egress.stream import CHUNK, Bytes, GuestBoxStream, SocketStream
from kagura_kernel.membrane.postgres.service import SYSTEM_TRUST, PostgresService
from kagura_kernel.membrane.postgres.wire import (
    BROKEN,
    GSS_REQUEST,
    SSL_REQUEST,
    Key,
    Startup,
    WireBroken,
    fatal,
    negotiated,
    read_packet,
    signed_in,
    told,
)

if TYPE_CHECKING:
    from kagura_kernel.sandbox.backend import GuestStream


_RECORD = 16 * 1024


def make_context(service: PostgresService) -> ssl.SSLContext | None:
    """What TLS with this database is done with; None when there is to be none. Reads files of this machine.

    Raises:
        ConfigurationError: its `sslrootcert` cannot be used.
    """
    if service.sslmode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["postgresql"])
    root = service.options.get("sslrootcert", "")
    context.check_hostname = service.sslmode == "verify-full"
    if not root and not context.check_hostname:
        # What these two modes promise: nobody reads along, and no more than that.
        context.verify_mode = ssl.CERT_NONE
    elif root in ("", SYSTEM_TRUST):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            context.load_verify_locations(Path(root).expanduser())
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or "it holds no certificate"
            problem = f"sslrootcert cannot be read: {why.lower()}"
            raise ConfigurationError(f"The database on {service.target}", [problem]) from error
    return context


class TlsStream(SocketStream):
    """A connected stream socket, spoken to in TLS, as a `BoxStream` from `shake_hands` on; it owns the socket.

    What waits in memory is at most one chunk each way.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, host: str) -> None:
        super().__init__(connection)
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        self._sending = asyncio.Lock()

    async def shake_hands(self) -> None:
        """Agree on keys, and check the certificate as far as the context says.

        Raises:
            OSError: it failed, an `ssl.SSLError` mostly.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await self._flush()  # tells the server why
                raise
            else:
                await self._flush()
                return

    async def read(self, limit: int) -> bytes:
        """Bytes of the other side; empty when it said that there are no more.

        Raises:
            OSError: it is gone; also when it left without saying so.
        """
        while True:
            try:
                data = self._tls.read(min(limit, _RECORD))
            except ssl.SSLWantReadError:
                await self._flush()  # an answer to what only TLS itself said
                await self._receive()
            except ssl.SSLZeroReturnError:
                return b""
            else:
                # Read after its end, this gives nothing rather than an error.
                return data

    async def write(self, data: Bytes) -> None:
        """Bytes for the other side.

        Raises:
            OSError: it is gone.
        """
        rest = memoryview(data)
        while rest:
            written = self._tls.write(rest[:CHUNK])
            rest = rest[written:]
            await self._flush()

    async def write_eof(self) -> None:
        """Say that no more bytes come; the other side may go on sending."""
        # It wants the other side's word too, which comes when it comes.
        with contextlib.suppress(OSError):
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            while data := self._to_send.read(CHUNK):
                await super().write(data)

    async def _receive(self) -> None:
        if data := await super().read(CHUNK):
            self._received.write(data)
        else:
            self._received.write_eof()


NO = b"N"
"""There is no encryption on the way to the membrane: it is a pipe."""

PASSED_ON = frozenset({"client_encoding", "datestyle", "extra_float_digits", "intervalstyle", "timezone"})
"""What a client may wish for its session: how values are written. The rest is the service's, or nobody's."""

MOST_OF_A_WISH = 100
EARLY = 4096
"""Bytes that are taken from a program before it is let in; the rest waits in the box."""


async def ask(guest: GuestStream) -> Startup | Key | None:
    """What the program wants, a session or to cancel one; None when it hung up, or was told that it cannot be.

    Raises:
        OSError: the program is gone.
    """
    encryption = {SSL_REQUEST, GSS_REQUEST}
    problem = "asks for encryption again"
    try:
        while isinstance(packet := await read_packet(guest), int) and packet in encryption:
            # Each is asked for once: who asks on and on wants no session.
            encryption.discard(packet)
            await guest.write(NO)
    except WireBroken as error:
        packet, problem = 0, str(error)
    if not isinstance(packet, int):
        return packet
    await guest.write(fatal(BROKEN, problem))
    await guest.write_eof()
    return None


def wishes(parameters: Mapping[str, str]) -> dict[str, str]:
    """Those of a client's parameters that a server is told."""
    return {
        name: value
        for name, value in parameters.items()
        if name.lower() in PASSED_ON and value.isascii() and value.isprintable() and len(value) <= MOST_OF_A_WISH
    }


class ClientStream(GuestBoxStream):
    """A program that has asked for a session, as a `BoxStream`: accepted it hears the greeting, refused an error."""

    def __init__(self, guest: GuestStream, asked: Startup) -> None:
        super().__init__(guest)
        self._asked = asked
        self._early: Bytes = b""
        self.greeting = b""  # What it hears after it was let in; set before `accept`

    async def gone(self) -> None:
        """Return when the program has hung up before it was answered.

        It has nothing to say before it is let in, so that one which only stops sending has left as well.
        """
        try:
            if not self._early:
                # Cancelled, this has taken nothing.
                self._early = bytes(await self._stream.read(EARLY))
                if not self._early:
                    return
        except OSError:
            return
        await self._stream.gone()

    async def accept(self) -> None:
        """Let it in."""
        older = negotiated(self._asked.unknown) if self._asked.newer or self._asked.unknown else b""
        await self.write(older + signed_in() + self.greeting)

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell it why it is not let in."""
        await self.write(told(refusal))
        await self.write_eof()

    async def read(self, limit: int) -> Bytes:
        """Bytes of the program."""
        if self._early:
            data, self._early = self._early[:limit], self._early[limit:]
            return data
        return await self._stream.read(limit)


class CancelStream(ClientStream):
    """A program that has asked to cancel: it says nothing more, and hears nothing but the end."""

    def __init__(self, guest: GuestStream) -> None:
        super().__init__(guest, Startup({}))

    async def gone(self) -> None:
        """Never: what it asked for is done even if it does not wait for the end."""
        await asyncio.get_running_loop().create_future()

    async def accept(self) -> None:
        """Nothing is said."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """A server does not say it either."""
        del refusal
        await self.write_eof()

    async def read(self, limit: int) -> Bytes:
        """Nothing."""
        del limit
        return b""
