"""The host's end of what programs in a run's box call: checked, bounded, carried to a plugin's jail, and recorded.

A program in a box is believed nothing. What it may hold here (connections, calls, bytes of frames that have not come
to their end or have not been taken) is bounded for the whole run, so that a flood of anything costs its own calls and
nobody else's memory or time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import (
    JournalError,
    KaguraError,
    PluginCallRefused,
    PluginFailed,
    PluginTimeout,
    UnknownName,
)
from kagura_kernel.domain.events import Noted, PluginCalled
from kagura_kernel.membrane.egress.limits import Pace
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.plugins import framing
from kagura_kernel.plugins.call_limits import CallLimits, Room
from kagura_kernel.plugins.calling import EnabledPlugin
from kagura_kernel.plugins.guest_connection import CallRequest, GuestConnection
from kagura_kernel.sandbox.guest_streams import GuestStream

log = logging.getLogger(__name__)

BYTES_A_TURN = 8 * 1024
VALUES_A_TURN = 500
LONGEST_NAME = 100
LONGEST_ERROR = 500
LONGEST_ANSWERED_ERROR = 8000


class GuestCalls:
    """Serves the connections of one run's box to its plugins, on one loop.

    Args:
        plugins: Those of the run; they stay the same to its end.
        record: Where each call is written down.
        clock: The time.
        limits: On all of it.
    """

    def __init__(
        self,
        plugins: Sequence[EnabledPlugin],
        record: RecordFact,
        *,
        clock: Clock | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        self.limits = limits or CallLimits()
        self.slots = asyncio.Semaphore(self.limits.calls)
        self.room_in = Room(self.limits.room)
        self.room_out = Room(self.limits.room)
        self._record = record
        self._clock: Clock = clock or SystemClock()
        self._by_module = {module: plugin for plugin in plugins for module in plugin.modules}
        self._pace = Pace(self.limits.rate, self.limits.burst, float("inf"))
        self._coming = Pace(self.limits.connection_rate, self.limits.connection_burst, float("inf"))
        self._connections: dict[GuestConnection, asyncio.Task[Any]] = {}
        self._closed = False
        self._made = 0
        self._refused = 0

    async def serve(self, stream: GuestStream) -> None:
        """One connection to its end; the stream is closed when this returns, however it does.

        Raises:
            JournalError: a call could not be written down.
        """
        task = asyncio.current_task()
        if self._closed or task is None or not self._has_place():
            await stream.refuse(503, "too many connections to plugins")
            stream.close()
            return
        connection = GuestConnection(stream, self)
        self._connections[connection] = task
        try:
            await connection.serve()
        except JournalError:
            raise
        # What a program in a box does to a connection must not end its run, whatever we have got wrong.
        except Exception:
            log.exception("a connection to plugins failed on the host")
        finally:
            del self._connections[connection]

    def _has_place(self) -> bool:
        if len(self._connections) < self.limits.connections:
            return True
        # One that has said nothing goes before one that has begun to, and that before one that waits for its answer.
        idle = next((one for one in self._connections if one.idle), None)
        found = idle or next((one for one in self._connections if one.waits), None)
        if found is not None:
            found.end()
        return found is not None

    def used(self, connection: GuestConnection) -> None:
        """It has said something: others are idle for longer."""
        self._connections[connection] = self._connections.pop(connection)

    async def admission(self) -> None:
        """Wait until one more connection may be taken."""
        if wait := self._coming.take(self._clock.monotonic()):
            await self._clock.sleep(wait)

    async def turn(self, body: bytes) -> None:
        """Wait until the next request may be looked at, one that is so long and holds so much."""
        if wait := self._charge(1 + _weight(body)):
            await self._clock.sleep(wait)

    async def answer(self, request: CallRequest) -> bytes:
        """Carry one call out and write it down: the frame that answers it.

        Raises:
            JournalError: it could not be written down.
        """
        began = self._clock.monotonic()
        plugin = self._by_module.get(request.module)
        frame, error = b"", None
        try:
            value = await self._call(plugin, request)
            frame = self._value(request, value)
        except JournalError:
            raise
        except asyncio.CancelledError:
            self._write_down(request, plugin, began, b"", PluginCallRefused("It was cut off before it had answered."))
            raise
        except KaguraError as problem:
            error = problem
        # Whatever a plugin's end gets wrong is one call's failure, and never the run's.
        except Exception:
            log.exception("a call of %s.%s failed on the host", request.module[:100], request.function[:100])
            error = PluginCallRefused("The call failed outside of the plugin. The log of the kernel says why.")
        if error is not None:
            frame = _refusal(request, error)
        self._write_down(request, plugin, began, frame, error)
        self._charge(_weight(frame))
        return frame

    async def close(self) -> None:
        """Cut what is under way and serve nobody any more; may be called twice."""
        self._closed = True
        tasks = set(self._connections.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ------------------------------------------------------------------ privates

    def _charge(self, turns: int) -> float:
        """Count so many turns against the pace; seconds until the last of them."""
        now, wait = self._clock.monotonic(), 0.0
        for _ in range(turns):
            wait = self._pace.take(now) or 0.0
        return wait

    async def _call(self, plugin: EnabledPlugin | None, request: CallRequest) -> Any:
        if plugin is None:
            raise PluginCallRefused(UnknownName("module", request.module[:LONGEST_NAME], [*self._by_module]).message)
        known = [spec.name for spec in plugin.modules[request.module]]
        if request.function not in known:
            what = f"function of {request.module}"
            raise PluginCallRefused(UnknownName(what, request.function[:LONGEST_NAME], known).message)
        self._made += 1
        if self._made > self.limits.total:
            raise PluginCallRefused(f"This run has made its {self.limits.total} calls. Go on in another run.")
        try:
            async with asyncio.timeout(self.limits.call_seconds):
                return await plugin.call(request.module, request.function, request.arguments, request.named)
        except TimeoutError as error:
            raise PluginTimeout(plugin.name, request.function, self.limits.call_seconds) from error

    def _value(self, request: CallRequest, value: Any) -> bytes:
        try:
            return framing.encode({"id": request.id, "ok": True, "value": value}, self.limits.frame_bytes)
        except framing.FrameError as error:
            raise PluginCallRefused(f"The answer of {request.function} cannot be handed over: {error}.") from error

    def _write_down(
        self,
        request: CallRequest,
        plugin: EnabledPlugin | None,
        began: float,
        frame: bytes,
        error: KaguraError | None,
    ) -> None:
        if plugin is None:
            self._refused += 1
            if self._refused > self.limits.refusals:
                if self._refused == self.limits.refusals + 1:
                    self._record(Noted, text="Further calls of modules that there are not are not recorded.")
                return
        self._record(
            PluginCalled,
            plugin="" if plugin is None else plugin.name,
            module=_word(request.module),
            function=_word(request.function),
            ok=error is None,
            error_code="" if error is None else error.code,
            error="" if error is None else error.message[:LONGEST_ERROR],
            duration=self._clock.monotonic() - began,
            bytes_in=request.size,
            bytes_out=max(0, len(frame) - framing.HEADER.size),
        )


def _refusal(request: CallRequest, error: KaguraError) -> bytes:
    # The program gets the plugin's own words; that they are an exception's is said beside.
    text, kind = (error.text, error.kind) if isinstance(error, PluginFailed) else (error.message, "")
    told = {"code": error.code, "kind": kind[:LONGEST_NAME], "message": text[:LONGEST_ANSWERED_ERROR]}
    return framing.encode({"id": request.id, "ok": False, "error": told})


def _weight(data: bytes) -> int:
    """How many turns this takes beyond its own."""
    return len(data) // BYTES_A_TURN + data.count(b",") // VALUES_A_TURN


def _word(name: str) -> str:
    # What a box sends may hold anything; what is recorded is one printable word.
    return ascii(name[:LONGEST_NAME])[1:-1]
