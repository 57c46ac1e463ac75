"""The egress of one run: every connection that its box asks for goes through here, decided, relayed and recorded.

A program that asks in a loop must not fill the journal, and what it did must stay true: the same refusal is recorded
the 1st, 2nd, 4th, 8th time. Of the connections to one target the first hundreds are recorded one by one; later ones
share rows that stand for 2, 4, 8 … of them, whose bytes and seconds are sums.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, EgressBusy, EgressDenied, EgressRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided, EgressEnd
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.membrane.egress.gate import Address, Admitted, Gate
from kagura_kernel.membrane.egress.stream import (
    PLACES,
    BoxStream,
    EgressLimits,
    Meter,
    Pace,
    Places,
    SocketStream,
    relay,
)

Record = Callable[[EgressDecided | EgressClosed], None]
"""Keeps a fact. Called on the loop; what it raises ends the connection, for what is not recorded does not happen."""

MAX_DISTINCT = 1024
"""Refused targets that are told apart; what comes after them is counted together."""

MAX_SINGLE = 500
"""Connections to one target that have rows of their own."""

MAX_SINGLE_RUN = 5000
"""Connections of a run that have rows of their own."""

MAX_TOGETHER = 4096
"""Connections that one pair of rows stands for at most: what a process that is killed has not written yet."""

MAX_ADDRESSES = 8
"""Addresses that one row names."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Connections to one target that share their rows."""

    first: Connection
    most: int
    begun: int = 0
    ended: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0
    ends: Counter[EgressEnd] = field(default_factory=Counter)
    addresses: dict[str, None] = field(default_factory=dict)
    detail: str = ""

    @property
    def full(self) -> bool:
        return self.begun >= self.most

    @property
    def over(self) -> bool:
        return self.full and self.ended >= self.begun

    def add(self, connection: Connection, seconds: float) -> None:
        self.ended += 1
        self.bytes_out += connection.out.count
        self.bytes_in += connection.into.count
        self.seconds += seconds
        self.ends[connection.ended] += 1
        self.detail = connection.detail or self.detail
        if connection.address:
            self.addresses.pop(connection.address, None)
            self.addresses[connection.address] = None
            if len(self.addresses) > MAX_ADDRESSES:
                del self.addresses[next(iter(self.addresses))]

    def told(self) -> str:
        """What the row of several connections says about them."""
        if self.ended == 1:
            return self.detail
        ends = ", ".join(f"{times} {end}" for end, times in self.ends.most_common())
        others = f" Dialled: {', '.join(self.addresses)}." if len(self.addresses) > 1 else ""
        return f"{self.ended} connections: {ends}.{others} {self.detail}".rstrip()


@dataclass(slots=True, eq=False)
class Connection:
    """One allowed connection while it lasts: what would be recorded if it ended now."""

    id: str
    admitted: Admitted
    out: Meter
    into: Meter
    began: float
    address: str = ""
    ended: EgressEnd = "cancelled"
    detail: str = ""
    batch: _Batch | None = None

    def over(self, ended: EgressEnd, detail: str = "") -> None:
        """It has ended, and how."""
        self.ended = ended
        self.detail = detail


@dataclass(eq=False, repr=False)
class Records:
    """Writes the facts of one run; `end` when it gets no more connections."""

    record: Record
    run_id: str
    session_id: str
    clock: Clock

    def __post_init__(self) -> None:
        self._refusals: Counter[tuple[str, int, str]] = Counter()
        self._single: Counter[tuple[str, int]] = Counter()
        self._batches: dict[tuple[str, int], _Batch] = {}

    def refused(self, connection_id: str, refusal: EgressRefused) -> None:
        """A connection was not allowed."""
        key = (refusal.host, refusal.port, refusal.code)
        if key not in self._refusals and len(self._refusals) >= MAX_DISTINCT:
            key = ("", 0, refusal.code)
        self._refusals[key] += 1
        times = self._refusals[key]
        if times & (times - 1):
            return
        self.record(
            EgressDecided(
                **self._of_the_run(),
                connection_id=connection_id,
                host=refusal.host,
                port=refusal.port,
                allowed=False,
                reason=refusal.message,
                times=times,
            )
        )

    def allowed(self, connection: Connection) -> None:
        """A connection may be made; recorded before it is, by a row of its own or by one for several."""
        key = _place(connection)
        if self._single[key] < MAX_SINGLE and self._single.total() < MAX_SINGLE_RUN:
            self._decided(connection, 1)
            self._single[key] += 1
            return
        batch = self._batches.get(key)
        if batch is None or batch.full:
            most = 2 if batch is None else min(2 * batch.most, MAX_TOGETHER)
            self._decided(connection, most)
            batch = self._batches[key] = _Batch(connection, most)
        batch.begun += 1
        connection.batch = batch

    def closed(self, connection: Connection) -> None:
        """An allowed connection is over."""
        batch = connection.batch or _Batch(connection, 1, 1)
        batch.add(connection, self.clock.monotonic() - connection.began)
        if batch.over:
            self._closed(batch)

    def end(self) -> None:
        """No connection is allowed any more; what was summed up to now is written. May be called twice."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            # One that is full ends, or has ended, with its last connection.
            if not batch.full:
                batch.most = batch.begun
                if batch.ended == batch.begun:
                    self._closed(batch)

    def _of_the_run(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "session_id": self.session_id, "at": self.clock.now()}

    def _decided(self, connection: Connection, times: int) -> None:
        admitted = connection.admitted
        several = f" This row stands for up to {times} connections." if times > 1 else ""
        self.record(
            EgressDecided(
                **self._of_the_run(),
                connection_id=connection.id,
                host=admitted.target.host,
                port=admitted.target.port,
                allowed=True,
                rule=admitted.rule,
                reason=f"{admitted.target} is {admitted.reason}.{several}",
                addresses=tuple(map(str, admitted.checked.allowed)),
                refused_addresses=tuple(f"{address}: {why}" for address, why in admitted.checked.refused),
                times=times,
            )
        )

    def _closed(self, batch: _Batch) -> None:
        host, port = _place(batch.first)
        self.record(
            EgressClosed(
                **self._of_the_run(),
                connection_id=batch.first.id,
                host=host,
                port=port,
                address=next(reversed(batch.addresses), ""),
                bytes_out=batch.bytes_out,
                bytes_in=batch.bytes_in,
                duration=batch.seconds,
                ended=batch.ends.most_common(1)[0][0],
                detail=batch.told(),
                times=batch.ended,
            )
        )


def _place(connection: Connection) -> tuple[str, int]:
    target = connection.admitted.target
    return target.host, target.port


T = TypeVar("T")

Connect = Callable[[Admitted], Coroutine[Any, Any, tuple[BoxStream, Address]]]
"""Makes the other end of an admitted connection, ready for the box's bytes, and says which address it was.

Raises `EgressRefused`. Closes what it opened when it is cancelled; whoever called it closes what it gave.
"""


class _HungUp(Exception):
    """The program has left before it had its connection; there is nobody to tell."""


@dataclass(eq=False, repr=False)
class Egress:
    """Serves the connections of one run's box, on one loop."""

    gate: Gate  # Decides and connects
    record: Record  # Where each decision and each end goes
    _: KW_ONLY
    run_id: str = ""  # The run
    session_id: str = ""  # Its session
    # On one connection and on all of them; give the gate the same
    limits: EgressLimits = field(default_factory=EgressLimits)
    clock: Clock = field(default_factory=SystemClock)  # Measures idle and total time, and stamps the records
    places: Places = PLACES  # What connections may be held; all runs of a process share them

    def __post_init__(self) -> None:
        self._records = Records(self.record, self.run_id, self.session_id, self.clock)
        self._out = Meter(self.limits.run_bytes_out)
        self._into = Meter(self.limits.run_bytes_in)
        self._pace = Pace(self.limits.rate, self.limits.burst, self.limits.patience)
        self._waiting = 0
        self._connected = 0
        self._closed = False
        self._numbers = count(1)

    @property
    def open_connections(self) -> int:
        """Connected, or being connected, now."""
        return self._connected

    async def serve(
        self, stream: BoxStream, target_host: str, target_port: int, connect: Connect | None = None
    ) -> None:
        """One connection from its question to its end; the stream is closed when this returns, however it does.

        Host and port are taken as the box wrote them. Cancelling it ends the connection and leaves no socket and no
        question behind; so does a program that hangs up while it waits, a question only after a while. `connect` is
        done instead of only connecting, where the membrane speaks first.

        Raises:
            ApprovalAborted: the person who was asked called the run off; the stream has been refused.
        """
        connection_id = f"con-{next(self._numbers)}"
        began = self.clock.monotonic()
        try:
            admitted = await self._admit(stream, target_host, target_port)
            self._take_place(admitted)
            connection = Connection(
                connection_id,
                admitted,
                Meter(self.limits.bytes_out, self._out),
                Meter(self.limits.bytes_in, self._into),
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
        self._require_open(_shown(host), port)
        if self._waiting >= self.limits.waiting:
            raise EgressBusy(_shown(host), port, "has to wait, and too many connections do already")
        pause = self._pace.take(self.clock.monotonic())
        if pause is None:
            why = f"is asked for too fast: only {self.limits.rate:g} new connections a second are made for a run"
            raise EgressBusy(_shown(host), port, why, "Try again later, or use a connection for more than one request.")
        self._waiting += 1
        try:
            if pause:
                await _while_wanted(stream, self.clock.sleep(pause))
            return await _while_wanted(stream, self.gate.admit(host, port), linger=self.limits.linger)
        finally:
            self._waiting -= 1

    def _require_open(self, host: str, port: int) -> None:
        if self._closed:
            raise EgressDenied(host, port, "is asked for when the run is over")

    def _take_place(self, admitted: Admitted) -> None:
        target = admitted.target
        # A person, or a resolver, may have taken their time.
        self._require_open(target.host, target.port)
        if self._connected >= self.limits.connections:
            why = f"is one connection too many: the box has {self._connected} open"
            raise EgressBusy(target.host, target.port, why, "Close some first.")
        if not self._out.left or not self._into.left:
            raise EgressDenied(target.host, target.port, "is granted, but the run has used up its bytes")
        if not self.places.take(self._connected):
            why = f"is one connection too many: all runs together have {self.places.taken} open"
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
            self.places.give()

    async def _connect(self, admitted: Admitted) -> tuple[BoxStream, Address]:
        connection, address = await self.gate.connect(admitted)
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
                async with asyncio.timeout(self.limits.answer):
                    await stream.accept()
            except (TimeoutError, OSError):
                connection.over("reset", "The box did not take the connection that it asked for.")
                stream.abort()
                return
            how = await relay(stream, other, connection.out, connection.into, self.limits, self.clock)
            connection.over(how.ended, how.detail)

    async def _refuse(self, stream: BoxStream, refusal: EgressRefused) -> None:
        try:
            async with asyncio.timeout(self.limits.answer):
                await stream.refuse(refusal)
        except (TimeoutError, OSError):
            # A box that does not want to hear why it gets nothing still gets nothing.
            stream.abort()


async def _while_wanted(
    stream: BoxStream, work: Coroutine[Any, Any, T], *, linger: float = 0.0, drop: Callable[[T], object] | None = None
) -> T:
    """What the work gives; it is cancelled when the program has hung up and, after that, `linger` seconds have passed.

    `drop` frees what the work gave when nobody is there to take it.

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
