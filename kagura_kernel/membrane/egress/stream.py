"""A connection as the box holds it, and carrying its bytes under the limits on what leaves a box.

`BoxStream` is the seam: `SocketStream` is a plain socket, `GuestBoxStream` a stream that the guest carries over the
pipe. Each direction holds at most one chunk, and reads the next one when the other side has taken it; so a reader that
stops stops the writer. A limit is exact: not one byte more is passed on, and the connection is reset on both sides, so
that nobody takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.sandbox.backend import ByteStream, GuestStream

if TYPE_CHECKING:
    from kagura_kernel.domain.events import EgressEnd


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """The limits on one run's connections; a limit reached ends the connection, never the run."""

    bytes_out: int = 2**30  # From the box, one connection
    bytes_in: int = 2 * 2**30  # To the box, one connection
    run_bytes_out: int = 4 * 2**30  # From the box, all connections of the run together
    run_bytes_in: int = 16 * 2**30  # To the box, all connections of the run together
    idle: float = 300.0  # Seconds without a byte in either direction
    total: float = 3600.0  # Seconds that one connection may last
    resolve: float = 10.0  # Seconds for the look-up of a name
    connect: float = 10.0  # Seconds until one of a name's addresses has answered
    answer: float = 10.0  # Seconds that a box may take to hear whether it has its connection
    connections: int = 256  # Connected, or being connected, at once
    waiting: int = 1024  # Waiting for their turn, or for an answer of a person or of a resolver, at once
    rate: float = 50.0  # New connections a second, in the long run; what comes faster waits for its turn
    burst: int = 512  # New connections that may come as fast as they like before `rate` holds
    patience: float = 10.0  # Seconds that one may wait for its turn; one that would wait longer is refused
    # Seconds that a look-up or a question to a person goes on after the program that waited for it has hung up: one
    # that was only tired of waiting tries again, and finds the same question open
    linger: float = 15.0
    addresses: int = 8  # Of one name that are tried


class Meter:
    """The bytes of one direction: of a connection, which is also counted against its run."""

    def __init__(self, limit: int, run: Meter | None = None) -> None:
        self.count = 0
        self._limit = limit
        self._run = run

    @property
    def left(self) -> int:
        """How many more may pass."""
        own = max(0, self._limit - self.count)
        return own if self._run is None else min(own, self._run.left)

    def add(self, count: int) -> None:
        """So many have passed."""
        self.count += count
        if self._run is not None:
            self._run.add(count)


class Pace:
    """When the next of many may go: a bucket of `burst` that fills with `rate` a second."""

    def __init__(self, rate: float, burst: int, patience: float) -> None:
        self._each = 1 / rate
        self._burst = burst / rate
        self._patience = patience
        self._full_at = float("-inf")

    def take(self, now: float) -> float | None:
        """Seconds until the turn of this one, 0 for most; None when that would be too long, and it has no turn."""
        full_at = max(self._full_at, now) + self._each
        wait = full_at - self._burst - now
        if wait > self._patience:
            return None
        self._full_at = full_at
        return wait if wait > SHORTEST else 0.0


SHORTEST = 0.001
"""Seconds that are worth a wait; less may be what sums of fractions leave."""


SHARE = 3
"""One of so many descriptors that the process may have is for connections; runs, boxes and the person need the rest."""

FEW = 16
"""A run that holds fewer connections gets some of the places that are kept from those with many."""


class Places:
    """The connections that all runs of this process may hold together, for each takes a descriptor.

    The last quarter is for runs that hold few: one run, or some together, cannot keep another from the network.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self.taken = 0

    @property
    def most(self) -> int:
        """How many there are."""
        return self._most()

    def take(self, held: int) -> bool:
        """Take one, if there is one for a run that holds so many; give it back."""
        most = self.most
        if self.taken >= (most if held < FEW else most - most // 4):
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """One is free again."""
        self.taken -= 1


def _descriptors() -> int:
    # Asked each time: the person may raise the limit while we run.
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MANY if soft == resource.RLIM_INFINITY else min(MANY, soft // SHARE)


MANY = 16_384
"""Connections of a process whose descriptors are as good as unlimited."""

PLACES = Places(_descriptors)
"""Those of this process. Runs of several cockpits share them, for descriptors belong to the process."""


Bytes = bytes | bytearray | memoryview

CHUNK = 256 * 1024
"""At most so many bytes are read at once; with it the memory of a connection is bounded."""


class BoxStream(ByteStream, Protocol):
    """The box's end of one connection."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell the box why it has no connection, in words that are meant for it. Nothing else follows but `close`."""


class SocketStream:
    """A connected stream socket as a `BoxStream` without a word before the bytes; it owns the socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self.over: Callable[[], object] | None = None
        """Called when it ends, perhaps twice."""

    async def gone(self) -> None:
        """Return when it was reset, or nothing can pass in either direction."""
        with select.epoll() as poll:
            poll.register(self._socket.fileno(), 0)  # hang-ups and errors alone
            over = asyncio.Event()
            self._loop.add_reader(poll.fileno(), over.set)
            try:
                await over.wait()
            finally:
                self._loop.remove_reader(poll.fileno())

    async def accept(self) -> None:
        """Nothing: the first byte says it."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """A reset: a bare socket has no words."""
        del refusal
        self.abort()

    async def read(self, limit: int) -> bytes:
        """Bytes of the socket."""
        return await self._loop.sock_recv(self._socket, min(limit, CHUNK))

    async def write(self, data: Bytes) -> None:
        """Bytes into the socket."""
        await self._loop.sock_sendall(self._socket, data)

    async def write_eof(self) -> None:
        """Shut the sending side."""
        with contextlib.suppress(OSError):  # the other side may have gone first
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close with a reset."""
        with contextlib.suppress(OSError):  # not every family of sockets knows it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Close in order."""
        if self.over is not None:
            self.over()
        self._socket.close()


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


@dataclass(frozen=True, slots=True)
class Relayed:
    """How a connection ended."""

    ended: EgressEnd  # `done` when both sides had no more to say; otherwise what cut it
    detail: str = ""  # More about an end that is not `done`, one sentence


class _Cut(Exception):
    def __init__(self, ended: EgressEnd, detail: str) -> None:
        super().__init__(detail)
        self.how = Relayed(ended, detail)


class _Activity:
    """When a byte last went by."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began = self.last = clock.monotonic()

    def seen(self) -> None:
        self.last = self._clock.monotonic()

    async def watch(self, limits: EgressLimits) -> None:
        while True:
            now = self._clock.monotonic()
            quiet, lasted = now - self.last, now - self.began
            if lasted >= limits.total:
                raise _Cut("time", f"It lasted {limits.total:g} s, the limit for one connection.")
            if quiet >= limits.idle:
                raise _Cut("idle", f"No byte went by for {limits.idle:g} s.")
            await self._clock.sleep(min(limits.idle - quiet, limits.total - lasted))


async def relay(
    stream: BoxStream, other: BoxStream, out: Meter, into: Meter, limits: EgressLimits, clock: Clock
) -> Relayed:
    """Carry bytes until both sides are done or something ends it. Closes neither side, resets both after a cut.

    The box's end is accepted, the other one connected. The meters count and limit what leaves the box and what reaches
    it.
    """
    activity = _Activity(clock)
    watch = asyncio.ensure_future(activity.watch(limits))
    ways = [
        asyncio.ensure_future(_carry(stream, other, out, activity, "out of the box")),
        asyncio.ensure_future(_carry(other, stream, into, activity, "into the box")),
    ]
    how = Relayed("done")
    try:
        await _until_done(watch, ways)
    except _Cut as cut:
        how = cut.how
    finally:
        # Before anything is closed: nobody may be waiting on a descriptor whose number is about to be free.
        await _stop([watch, *ways])
    if how.ended != "done":
        stream.abort()
        other.abort()
    return how


async def _until_done(watch: asyncio.Future[None], ways: Sequence[asyncio.Future[None]]) -> None:
    while not all(way.done() for way in ways):
        under_way = [task for task in (watch, *ways) if not task.done()]
        done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _stop(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        # Their errors have been told, or are what an end in the middle of something looks like.
        with contextlib.suppress(asyncio.CancelledError, OSError, _Cut):
            await task


async def _carry(source: BoxStream, sink: BoxStream, meter: Meter, activity: _Activity, direction: str) -> None:
    try:
        while data := await source.read(CHUNK):
            activity.seen()
            allowed = min(len(data), meter.left)
            # Counted before it is handed over: connections of one run share what is left.
            meter.add(allowed)
            await sink.write(data if allowed == len(data) else memoryview(data)[:allowed])
            activity.seen()
            if allowed < len(data):
                raise _Cut("limit", f"The limit of bytes {direction} was reached after {meter.count}.")
        await sink.write_eof()
    except OSError as error:
        raise _Cut("reset", f"One side broke it off: {(error.strerror or str(error)).lower()}.") from error
