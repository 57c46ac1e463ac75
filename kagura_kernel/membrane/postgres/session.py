"""The server's end of what was opened for a program in the box."""

from __future__ import annotations

from collections.abc import Callable

from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.membrane.egress.stream import BoxStream, Bytes


class Session:
    """A session that was signed in to, as a `BoxStream`; from here on its bytes are the program's own.

    Args:
        stream: The connection, TLS included; it is owned.
        over: Called when the session ends; may be called twice.
    """

    def __init__(self, stream: BoxStream, over: Callable[[], None]) -> None:
        self._stream = stream
        self._over = over

    async def gone(self) -> None:
        """Return when it was reset."""
        await self._stream.gone()

    async def accept(self) -> None:
        """Nothing: it is accepted."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """A reset."""
        del refusal
        self.abort()

    async def read(self, limit: int) -> Bytes:
        """Bytes of the server."""
        return await self._stream.read(limit)

    async def write(self, data: Bytes) -> None:
        """Bytes for the server."""
        await self._stream.write(data)

    async def write_eof(self) -> None:
        """No more bytes for the server."""
        await self._stream.write_eof()

    def abort(self) -> None:
        """End it with a reset."""
        self._over()
        self._stream.abort()

    def close(self) -> None:
        """End it."""
        self._over()
        self._stream.close()


class Cancelled(Session):
    """A connection over which a session was asked to stop: it has nothing more to say, and hears nothing."""

    async def read(self, limit: int) -> Bytes:
        """The end."""
        del limit
        return b""

    async def write(self, data: Bytes) -> None:
        """Dropped."""
        del data

    async def write_eof(self) -> None:
        """Nothing."""
