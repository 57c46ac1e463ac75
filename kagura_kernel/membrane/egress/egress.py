"""The egress of one run: every connection that its box asks for goes through here, decided, relayed and recorded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, EgressBusy, EgressDenied, EgressRefused
from kagura_kernel.membrane.egress.dialling import Address
from kagura_kernel.membrane.egress.gate import Admitted, Gate
from kagura_kernel.membrane.egress.limits import PLACES, EgressLimits, Meter, Pace, Places
from kagura_kernel.membrane.egress.records import Connection, Record, Records
from kagura_kernel.membrane.egress.relay import relay
from kagura_kernel.membrane.egress.stream import BoxStream, SocketStream

T = TypeVar("T")

Connect = Callable[[Admitted], Coroutine[Any, Any, tuple[BoxStream, Address]]]
"""Makes the other end of an admitted connection, ready for the box's bytes, and says which address it was.

Raises `EgressRefused`. Closes what it opened when it is cancelled; whoever called it closes what it gave.
"""


class _HungUp(Exception):
    """The program has left before it had its connection; there is nobody to tell."""


class Egress:
    """Serves the connections of one run's box, on one loop.

    Args:
        gate: Decides and connects.
        record: Where each decision and each end goes.
        run_id: The run.
        session_id: Its session.
        limits: On one connection and on all of them; give the gate the same.
        clock: Measures idle and total time, and stamps the records.
        places: What connections may be held; all runs of a process share them.
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
        places: Places = PLACES,
    ) -> None:
        self._gate = gate
        self._limits = limits or EgressLimits()
        self._clock: Clock = clock or SystemClock()
        self._records = Records(record, run_id, session_id, self._clock)
        self._out = Meter(self._limits.run_bytes_out)
        self._into = Meter(self._limits.run_bytes_in)
        self._pace = Pace(self._limits.rate, self._limits.burst, self._limits.patience)
        self._places = places
        self._waiting = 0
        self._connected = 0
        self._closed = False
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

    async def serve(
        self, stream: BoxStream, target_host: str, target_port: int, connect: Connect | None = None
    ) -> None:
        """One connection from its question to its end; the stream is closed when this returns, however it does.

        Host and port are taken as the box wrote them. Cancelling it ends the connection and leaves no socket and no
        question behind; so does a program that hangs up while it waits, a question only after a while.

        Args:
            stream: The program's.
            target_host: As the box wrote it.
            target_port: Likewise.
            connect: What is done instead of only connecting, where the membrane speaks first.

        Raises:
            ApprovalAborted: the person who was asked called the run off; the stream has been refused.
        """
        connection_id = f"con-{next(self._numbers)}"
        began = self._clock.monotonic()
        try:
            admitted = await self._admit(stream, target_host, target_port)
            self._take_place(admitted)
            connection = Connection(
                connection_id,
                admitted,
                Meter(self._limits.bytes_out, self._out),
                Meter(self._limits.bytes_in, self._into),
                began,
            )
            await self._keep(stream, connection, connect or self._connect)
        except EgressRefused as refusal:
            self._records.refused(connection_id, refusal)
            await self._refuse(stream, refusal)
        except ApprovalAborted:
            called_off = EgressDenied(_shown(target_host), target_port, "was asked for, and the run was called off")
            self._records.refused(connection_id, called_off)
            await self._refuse(stream, called_off)
            raise
        except _HungUp:
            return
        finally:
            stream.close()

    def close(self) -> None:
        """Make no more connections, and write down what is not written yet of those that are over.

        Those that are open go on, and are written down as they end. May be called twice. Raises what recording raises.
        """
        self._closed = True
        self._records.end()

    async def _admit(self, stream: BoxStream, host: str, port: int) -> Admitted:
        if self._closed:
            raise EgressDenied(_shown(host), port, "is asked for when the run is over")
        if self._waiting >= self._limits.waiting:
            raise EgressBusy(_shown(host), port, "has to wait, and too many connections do already")
        pause = self._pace.take(self._clock.monotonic())
        if pause is None:
            why = f"is asked for too fast: only {self._limits.rate:g} new connections a second are made for a run"
            raise EgressBusy(_shown(host), port, why, "Try again later, or use a connection for more than one request.")
        self._waiting += 1
        try:
            if pause:
                await _while_wanted(stream, self._clock.sleep(pause))
            return await _while_wanted(stream, self._gate.admit(host, port), linger=self._limits.linger)
        finally:
            self._waiting -= 1

    def _take_place(self, admitted: Admitted) -> None:
        target = admitted.target
        if self._connected >= self._limits.connections:
            why = f"is one connection too many: the box has {self._connected} open"
            raise EgressBusy(target.host, target.port, why, "Close some first.")
        if not self._out.left or not self._into.left:
            raise EgressDenied(target.host, target.port, "is granted, but the run has used up its bytes")
        if not self._places.take(self._connected):
            why = f"is one connection too many: all runs together have {self._places.taken} open"
            raise EgressBusy(target.host, target.port, why, "Close some first, or raise the limit of open files.")

    async def _keep(self, stream: BoxStream, connection: Connection, connect: Connect) -> None:
        self._connected += 1
        try:
            self._records.allowed(connection)
            try:
                await self._carry(stream, connection, connect)
            finally:
                self._records.closed(connection)
        finally:
            self._connected -= 1
            self._places.give()

    async def _connect(self, admitted: Admitted) -> tuple[BoxStream, Address]:
        connection, address = await self._gate.connect(admitted)
        return SocketStream(connection), address

    async def _carry(self, stream: BoxStream, connection: Connection, connect: Connect) -> None:
        try:
            connecting = connect(connection.admitted)
            other, address = await _while_wanted(stream, connecting, drop=lambda made: made[0].close())
        except EgressRefused as refusal:
            connection.over("unreachable", refusal.message)
            await self._refuse(stream, refusal)
            return
        except _HungUp:
            connection.over("reset", "The program hung up before it was connected.")
            raise
        connection.address = str(address)
        with contextlib.closing(other):
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


async def _while_wanted(
    stream: BoxStream, work: Coroutine[Any, Any, T], *, linger: float = 0.0, drop: Callable[[T], object] | None = None
) -> T:
    """What the work gives; it is cancelled when the program has hung up and, after that, `linger` seconds have passed.

    Args:
        stream: The program's.
        work: What it waits for.
        linger: Seconds.
        drop: Frees what the work gave when nobody is there to take it.

    Raises:
        _HungUp: the program has hung up; also when the work was done meanwhile.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(stream.gone())
    taken = False
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not task.done():
            if linger:
                await asyncio.wait({task}, timeout=linger)
            # A refusal is still one that is written down.
            if not task.done() or task.exception() is None:
                raise _HungUp
        taken = True
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait({task, gone})
        if not task.cancelled() and task.exception() is None and not taken and drop is not None:
            drop(task.result())


def _shown(host: str) -> str:
    # What a box sends may hold anything; what is recorded is one printable word.
    return ascii(host[:80])[1:-1]
