"""TLS on a connection that already stands, as the `sslmode` of a database says; no bytes are read ahead of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.membrane.egress.stream import CHUNK, Bytes, SocketStream
from kagura_kernel.membrane.postgres.service import SYSTEM_TRUST, PostgresService

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


class TlsStream:
    """A connected stream socket, spoken to in TLS, as a `BoxStream` from `shake_hands` on; it owns the socket.

    What waits in memory is at most one chunk each way.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._plain = SocketStream(connection)
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

    async def gone(self) -> None:
        """Return when it was reset."""
        await self._plain.gone()

    async def accept(self) -> None:
        """Nothing: the first byte says it."""

    async def refuse(self, refusal: object) -> None:
        """A reset."""
        del refusal
        self.abort()

    async def read(self, limit: int) -> Bytes:
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

    def abort(self) -> None:
        """Close with a reset."""
        self._plain.abort()

    def close(self) -> None:
        """Close in order."""
        self._plain.close()

    async def _flush(self) -> None:
        async with self._sending:
            while data := self._to_send.read(CHUNK):
                await self._plain.write(data)

    async def _receive(self) -> None:
        if data := await self._plain.read(CHUNK):
            self._received.write(data)
        else:
            self._received.write_eof()
