"""The host's end of what programs in a run's box call: checked, bounded, carried to a plugin's jail, and recorded.

A program in a box is believed nothing. What it may hold here (connections, calls, bytes of frames that have not come
to their end or have not been taken) is bounded for the whole run, so that a flood of anything costs its own calls and
nobody else's memory or time.

What breaks the protocol (a frame too long, no JSON, an id that is under way) ends the connection; where nothing else
is under way the program is told why. A program that stops sending while calls are under way has gone, and they are
cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.membrane.egress.stream import Pace
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.plugins import frames
from kagura_kernel.plugins.calls import CallLimits, EnabledPlugin, Room
from kagura_kernel.sandbox.backend import GuestStream

if TYPE_CHECKING:
    from collections.abc import Mapping


READ_BYTES = 64 * 1024
IN_A_THREAD = 256 * 1024
_LARGEST_ID = 2**53
_FIELDS = frozenset({"id", "module", "function", "arguments", "named"})


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What a program wants of a plugin."""

    id: int  # The program's own number for it
    module: str  # As it was imported
    function: str
    arguments: Sequence[Any]  # In their order
    named: Mapping[str, Any]  # By name
    size: int  # Bytes of the request


class GuestConnection:
    """One connection; owns the stream."""

    def __init__(self, stream: GuestStream, serving: GuestCalls) -> None:
        self._stream = stream
        self._serving = serving
        self._limits = serving.limits
        self._own_slots = asyncio.Semaphore(self._limits.calls_a_connection)
        self._writing = asyncio.Lock()
        self._buffer = bytearray()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._busy = False
        self._ended = False
        self._in_order = False
        self._fault: BaseException | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is under way on it, not even a request that has begun."""
        return self.waits and not (self._buffer or self._busy)

    @property
    def waits(self) -> bool:
        """Whether no call is under way on it."""
        return not (self._calls or self._ended)

    def end(self) -> None:
        """End it; `serve` returns soon."""
        self._ended = True
        self._stream.abort()
        if self._reading is not None:
            self._reading.cancel()

    async def serve(self) -> None:
        """Answer its requests until the program has gone. Raises `JournalError`: a call could not be written down."""
        reading = self._reading = asyncio.create_task(self._read(), name="calls of a program")
        try:
            await asyncio.wait({reading})
        finally:
            reading.cancel()
            under_way = {reading, *self._calls.values()}
            for task in under_way:
                task.cancel()
            await asyncio.wait(under_way)
            # Not before: an answer may have been on its way.
            if self._in_order:
                await self._stream.write_eof()
            self._stream.close()
        if self._fault is not None:
            raise self._fault
        if not reading.cancelled():
            reading.result()

    async def _read(self) -> None:
        try:
            await self._serving.admission()
            await self._stream.accept()
            while await self._next():
                pass
            self._in_order = True
        except frames.FrameError as error:
            await self._refuse(error)
        except OSError:
            self._stream.abort()

    async def _refuse(self, why: frames.FrameError) -> None:
        """Say what was wrong with its last frame; what came after it cannot be understood, and is not read."""
        if self._calls:
            self._stream.abort()
            return
        told = {"code": PluginCallRefused.code, "kind": "", "message": f"The request was refused: {why}."}
        with contextlib.suppress(OSError):
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._stream.write(frames.encode({"id": None, "ok": False, "error": told}))
                self._in_order = True

    # ------------------------------------------------------------------- in

    async def _next(self) -> bool:
        """Take one request; whether there was one."""
        if not self._buffer and not await self._fill():
            return False
        self._busy = True
        room = 0
        try:
            async with asyncio.timeout(self._limits.frame_seconds):
                await self._fill_to(frames.HEADER.size)
            size = frames.length(self._buffer[: frames.HEADER.size], self._limits.frame_bytes)
            if size > self._limits.small:
                room = await self._serving.room_in.take(size)
            request = await self._request(size)
            self._serving.used(self)
            await self._take_slots()
            self._start(_Call(request, room))
            room = 0
            return True
        finally:
            self._busy = False
            self._serving.room_in.give(room)

    async def _request(self, size: int) -> CallRequest:
        end = frames.HEADER.size + size
        if len(self._buffer) < end:
            async with asyncio.timeout(self._limits.frame_seconds):
                await self._fill_to(end)
        body = bytes(memoryview(self._buffer)[frames.HEADER.size : end])
        del self._buffer[:end]
        await self._serving.turn(body)
        decode = partial(frames.decode, body, self._limits.frame_bytes)
        request = read_request(await asyncio.to_thread(decode) if size > IN_A_THREAD else decode(), size)
        if request.id in self._calls:
            raise frames.FrameError("its id is under way already")
        return request

    async def _fill(self) -> bool:
        data = await self._stream.read(READ_BYTES)
        self._buffer += data
        return bool(data)

    async def _fill_to(self, count: int) -> None:
        while len(self._buffer) < count:
            if not await self._fill():
                raise frames.FrameError("it ends before its length")

    # ------------------------------------------------------------------ out

    async def _take_slots(self) -> None:
        await self._own_slots.acquire()
        try:
            await self._serving.slots.acquire()
        except BaseException:
            self._own_slots.release()
            raise

    def _start(self, call: _Call) -> None:
        task = asyncio.create_task(self._carry_out(call), name=f"call {call.request.module[:100]}")
        self._calls[call.request.id] = task
        # A task that is cancelled before its first step never runs, and would give nothing back.
        task.add_done_callback(lambda done: self._over(done, call))

    async def _carry_out(self, call: _Call) -> None:
        frame = await self._serving.answer(call.request)
        self._give_room(call)
        room = await self._serving.room_out.take(len(frame)) if len(frame) > self._limits.small else 0
        try:
            # Those that wait for others here are bounded by the connection's slots.
            async with self._writing, asyncio.timeout(self._limits.answer_seconds):
                await self._stream.write(frame)
        finally:
            self._serving.room_out.give(room)

    def _give_room(self, call: _Call) -> None:
        self._serving.room_in.give(call.room)
        call.room = 0

    def _over(self, task: asyncio.Task[None], call: _Call) -> None:
        self._give_room(call)
        self._serving.slots.release()
        self._own_slots.release()
        self._calls.pop(call.request.id, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, OSError):
            self._fault = self._fault or error
        # The answer did not get through, in whole or in part: nothing after it could be understood.
        self.end()


@dataclass(slots=True)
class _Call:
    """One call under way, and what it holds of the room for long requests."""

    request: CallRequest
    room: int


def read_request(message: Any, size: int) -> CallRequest:
    """The request that a frame holds. Raises `FrameError`: it holds none."""
    if not isinstance(message, dict) or not message.keys() <= _FIELDS:
        raise frames.FrameError("it is no request")
    number, module, function = message.get("id"), message.get("module"), message.get("function")
    arguments, named = message.get("arguments", []), message.get("named", {})
    if type(number) is not int or not 0 <= number < _LARGEST_ID:
        raise frames.FrameError("its id is none")
    if not isinstance(module, str) or not isinstance(function, str):
        raise frames.FrameError("it names no function")
    if not isinstance(arguments, list) or not isinstance(named, dict):
        raise frames.FrameError("its arguments are none")
    return CallRequest(number, module, function, arguments, named, size)


log = logging.getLogger(__name__)

BYTES_A_TURN = 8 * 1024
VALUES_A_TURN = 500
LONGEST_NAME = 100
LONGEST_ERROR = 500
LONGEST_ANSWERED_ERROR = 8000


class GuestCalls:
    """Serves the connections of one run's box to its plugins, on one loop."""

    def __init__(
        self,
        plugins: Sequence[EnabledPlugin],
        record: RecordFact,
        *,
        clock: Clock | None = None,
        limits: CallLimits | None = None,
        held: Callable[[], str] = str,
    ) -> None:
        self.limits = limits or CallLimits()
        self._held = held  # Why nothing is called now, as a clause; empty where it may be
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

        Raises `JournalError`: a call could not be written down.
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

        Raises `JournalError`: it could not be written down.
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
        if why := self._held():
            raise PluginCallRefused(f"{request.function} was not called: {why}.")
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
            return frames.encode({"id": request.id, "ok": True, "value": value}, self.limits.frame_bytes)
        except frames.FrameError as error:
            raise PluginCallRefused(f"The answer of {request.function} cannot be handed over: {error}.") from error

    def _write_down(
        self, request: CallRequest, plugin: EnabledPlugin | None, began: float, frame: bytes, error: KaguraError | None
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
            bytes_out=max(0, len(frame) - frames.HEADER.size),
        )


def _refusal(request: CallRequest, error: KaguraError) -> bytes:
    # The program gets the plugin's own words; that they are an exception's is said beside.
    text, kind = (error.text, error.kind) if isinstance(error, PluginFailed) else (error.message, "")
    told = {"code": error.code, "kind": kind[:LONGEST_NAME], "message": text[:LONGEST_ANSWERED_ERROR]}
    return frames.encode({"id": request.id, "ok": False, "error": told})


def _weight(data: bytes) -> int:
    """How many turns this takes beyond its own."""
    return len(data) // BYTES_A_TURN + data.count(b",") // VALUES_A_TURN


def _word(name: str) -> str:
    # What a box sends may hold anything; what is recorded is one printable word.
    return ascii(name[:LONGEST_NAME])[1:-1]
