"""A program in the box that wants a session, seen from its own side: what it says first, and how it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.membrane.egress.stream import Bytes
from kagura_kernel.membrane.postgres.telling import BROKEN, told
from kagura_kernel.membrane.postgres.wire import (
    GSS_REQUEST,
    SSL_REQUEST,
    Key,
    Startup,
    WireBroken,
    fatal,
    negotiated,
    read_packet,
    signed_in,
)

if TYPE_CHECKING:
    from kagura_kernel.sandbox.guest_streams import GuestStream

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


class ClientStream:
    """A program that has asked for a session, as a `BoxStream`: accepted it hears the greeting, refused an error.

    Attributes:
        greeting: What it hears after it was let in; set before `accept`.
    """

    def __init__(self, guest: GuestStream, asked: Startup) -> None:
        self._guest = guest
        self._asked = asked
        self._early: Bytes = b""
        self.greeting = b""

    async def gone(self) -> None:
        """Return when the program has hung up before it was answered.

        It has nothing to say before it is let in, so that one which only stops sending has left as well.
        """
        try:
            if not self._early:
                # Cancelled, this has taken nothing.
                self._early = bytes(await self._guest.read(EARLY))
                if not self._early:
                    return
        except OSError:
            return
        await self._guest.gone()

    async def accept(self) -> None:
        """Let it in."""
        older = negotiated(self._asked.unknown) if self._asked.newer or self._asked.unknown else b""
        await self._guest.write(older + signed_in() + self.greeting)

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell it why it is not let in."""
        await self._guest.write(told(refusal))
        await self._guest.write_eof()

    async def read(self, limit: int) -> Bytes:
        """Bytes of the program."""
        if self._early:
            data, self._early = self._early[:limit], self._early[limit:]
            return data
        return await self._guest.read(limit)

    async def write(self, data: Bytes) -> None:
        """Bytes for the program."""
        await self._guest.write(data)

    async def write_eof(self) -> None:
        """No more bytes for the program."""
        await self._guest.write_eof()

    def abort(self) -> None:
        """End it with a reset."""
        self._guest.abort()

    def close(self) -> None:
        """End it: in order after `write_eof`, with a reset without it."""
        self._guest.close()


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
