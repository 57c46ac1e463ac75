"""Carrying bytes between a box and the other side: counted, limited, with half-closes kept and memory flat.

Each direction holds at most one chunk, and reads the next one when the other side has taken it; so a reader that
stops stops the writer. A limit is exact: not one byte more is passed on, and the connection is reset on both sides, so
that nobody takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import EgressEnd
from kagura_kernel.membrane.egress.limits import EgressLimits, Meter
from kagura_kernel.membrane.egress.stream import CHUNK, BoxStream


@dataclass(frozen=True, slots=True)
class Relayed:
    """How a connection ended.

    Attributes:
        ended: `done` when both sides had no more to say; otherwise what cut it.
        detail: More about an end that is not `done`, one sentence.
    """

    ended: EgressEnd
    detail: str = ""


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

    Args:
        stream: The box's end, accepted.
        other: The other end, connected.
        out: Counts and limits what leaves the box.
        into: Counts and limits what reaches it.
        limits: Idle and total time.
        clock: Measures them.
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
