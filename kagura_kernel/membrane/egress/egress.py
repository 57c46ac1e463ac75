"""The egress of one run: every connection that its box asks for goes through here, decided, relayed and recorded."""

from __future__ import annotations

import asyncio
from itertools import count

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, EgressBusy, EgressDenied, EgressRefused
from kagura_kernel.membrane.egress.gate import Admitted, Gate
from kagura_kernel.membrane.egress.limits import EgressLimits, Meter
from kagura_kernel.membrane.egress.records import Connection, Record, Records
from kagura_kernel.membrane.egress.relay import relay
from kagura_kernel.membrane.egress.stream import BoxStream


class Egress:
    """Serves the connections of one run's box, on one loop.

    Args:
        gate: Decides and connects.
        record: Where each decision and each end goes.
        run_id: The run.
        session_id: Its session.
        limits: On one connection and on all of them; give the gate the same.
        clock: Measures idle and total time, and stamps the records.
    """

    def __init__(
        self,
        gate: Gate,
        record: Record,
        *,
        run_id: str = "",
        session_id: str = "",
        limits: EgressLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._gate = gate
        self._limits = limits or EgressLimits()
        self._clock: Clock = clock or SystemClock()
        self._records = Records(record, run_id, session_id, self._clock)
        self._out = Meter(self._limits.run_bytes_out)
        self._into = Meter(self._limits.run_bytes_in)
        self._waiting = 0
        self._connected = 0
        self._numbers = count(1)

    @property
    def bytes_out(self) -> int:
        """From the box, all connections so far."""
        return self._out.count

    @property
    def bytes_in(self) -> int:
        """To the box, all connections so far."""
        return self._into.count

    @property
    def open_connections(self) -> int:
        """Connected, or being connected, now."""
        return self._connected

    async def serve(self, stream: BoxStream, target_host: str, target_port: int) -> None:
        """One connection from its question to its end; the stream is closed when this returns, however it does.

        Host and port are taken as the box wrote them. Cancelling it ends the connection and leaves no socket and no
        question behind.

        Raises:
            ApprovalAborted: the person who was asked called the run off; the stream has been refused.
        """
        connection_id = f"con-{next(self._numbers)}"
        began = self._clock.monotonic()
        try:
            admitted = await self._admit(target_host, target_port)
            self._require_room(admitted)
            connection = Connection(
                connection_id,
                admitted,
                Meter(self._limits.bytes_out, self._out),
                Meter(self._limits.bytes_in, self._into),
                began,
            )
            await self._keep(stream, connection)
        except EgressRefused as refusal:
            self._records.refused(connection_id, refusal)
            await self._refuse(stream, refusal)
        except ApprovalAborted:
            called_off = EgressDenied(_shown(target_host), target_port, "was asked for, and the run was called off")
            self._records.refused(connection_id, called_off)
            await self._refuse(stream, called_off)
            raise
        finally:
            stream.close()

    async def _admit(self, host: str, port: int) -> Admitted:
        if self._waiting >= self._limits.waiting:
            raise EgressBusy(_shown(host), port, "has to wait, and too many connections do already")
        self._waiting += 1
        try:
            return await self._gate.admit(host, port)
        finally:
            self._waiting -= 1

    def _require_room(self, admitted: Admitted) -> None:
        target = admitted.target
        if self._connected >= self._limits.connections:
            why = f"is one connection too many: the box has {self._connected} open"
            raise EgressBusy(target.host, target.port, why, "Close some first.")
        if not self._out.left or not self._into.left:
            raise EgressDenied(target.host, target.port, "is granted, but the run has used up its bytes")

    async def _keep(self, stream: BoxStream, connection: Connection) -> None:
        self._connected += 1
        try:
            self._records.allowed(connection)
            try:
                await self._carry(stream, connection)
            finally:
                self._records.closed(connection)
        finally:
            self._connected -= 1

    async def _carry(self, stream: BoxStream, connection: Connection) -> None:
        try:
            other, address = await self._gate.connect(connection.admitted)
        except EgressRefused as refusal:
            connection.over("unreachable", refusal.message)
            await self._refuse(stream, refusal)
            return
        connection.address = str(address)
        with other:
            try:
                async with asyncio.timeout(self._limits.answer):
                    await stream.accept()
            except (TimeoutError, OSError):
                connection.over("reset", "The box did not take the connection that it asked for.")
                stream.abort()
                return
            how = await relay(stream, other, connection.out, connection.into, self._limits, self._clock)
            connection.over(how.ended, how.detail)

    async def _refuse(self, stream: BoxStream, refusal: EgressRefused) -> None:
        try:
            async with asyncio.timeout(self._limits.answer):
                await stream.refuse(refusal)
        except (TimeoutError, OSError):
            # A box that does not want to hear why it gets nothing still gets nothing.
            stream.abort()


def _shown(host: str) -> str:
    # What a box sends may hold anything; what is recorded is one printable word.
    return ascii(host[:80])[1:-1]
