"""The egress of a run put into its box: a proxy on the box's loopback, whose connections go through the membrane."""

from __future__ import annotations

from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.names import Target
from kagura_kernel.membrane.egress.stream import Bytes
from kagura_kernel.membrane.egress.variables import PROXY_PORT
from kagura_kernel.sandbox.backend import Box, Failed, GuestStream, Listener


async def open_egress(box: Box, egress: Egress, port: int = PROXY_PORT, failed: Failed | None = None) -> int:
    """Give programs in the box a proxy (HTTP and SOCKS 5) whose connections `egress` decides and carries: its port.

    Args:
        box: The box; the proxy lasts as long as it does.
        egress: Serves every connection.
        port: On the box's loopback; 0 lets the box choose.
        failed: Told of an error that is not the program's: the run was called off, a fact could not be recorded.
            Without it such an error ends the box.

    Raises:
        SandboxUnavailable: the port is taken in the box, it has no loopback, or it is gone.
    """

    async def serve(stream: GuestStream) -> None:
        request = stream.request
        await egress.serve(GuestBoxStream(stream), request["host"], request["port"])

    return await box.listen(Listener(port, "proxy", "egress"), serve, failed)


async def forward(box: Box, egress: Egress, target: Target, failed: Failed | None = None) -> None:
    """Let programs in the box reach a target at the same port of their own loopback, in whatever protocol.

    Raises:
        SandboxUnavailable: the port cannot be listened on in the box, or the box is gone.
    """

    async def serve(stream: GuestStream) -> None:
        await egress.serve(GuestBoxStream(stream), target.host, target.port)

    await box.listen(Listener(target.port, "raw", f"forward {target}"), serve, failed)


class GuestBoxStream:
    """A connection that the guest carries, as a `BoxStream`."""

    def __init__(self, stream: GuestStream) -> None:
        self._stream = stream

    async def gone(self) -> None:
        """Return when the program has hung up before it was answered."""
        await self._stream.gone()

    async def accept(self) -> None:
        """Tell the program that it has its connection."""
        await self._stream.accept()

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell the program why it has none."""
        await self._stream.refuse(refusal.status, refusal.message)

    async def read(self, limit: int) -> Bytes:
        """Bytes of the program."""
        return await self._stream.read(limit)

    async def write(self, data: Bytes) -> None:
        """Bytes for the program."""
        await self._stream.write(data)

    async def write_eof(self) -> None:
        """No more bytes for the program."""
        await self._stream.write_eof()

    def abort(self) -> None:
        """End it with a reset."""
        self._stream.abort()

    def close(self) -> None:
        """End it: in order after `write_eof`, with a reset without it."""
        self._stream.close()
