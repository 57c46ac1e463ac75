"""One pipe to one guest: commands, files and changes over frames.

The guest is never trusted to be well behaved: the first frame that is malformed, too large, out of turn or against
credit closes the channel with `SandboxProtocolError`, and whatever waited on it fails with that. Memory is bounded by
the windows of the streams, whatever the guest sends or refuses to read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from kagura_kernel.domain.commands import Command, CommandResult, Output, OutputListener, Stream
from kagura_kernel.domain.errors import (
    KaguraError,
    SandboxCommandTimeout,
    SandboxDied,
    SandboxIdleTimeout,
    SandboxProtocolError,
    SandboxUnavailable,
    UsageError,
)
from kagura_kernel.sandbox.backend import WORKSPACE, Failed, Listener, ServeStream
from kagura_kernel.sandbox.files import BoxFiles
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.listeners import Listeners
from kagura_kernel.sandbox.output import Printed
from kagura_kernel.sandbox.pipe import Buffer, Pipe
from kagura_kernel.sandbox.streams import (
    ROOM,
    DataHandler,
    Frame,
    FrameDecoder,
    HostStream,
    WireError,
    encode_control,
    header,
    no_data,
    parse_credit,
    parse_object,
)

CANCEL_GRACE = 0.15
LIMIT_GRACE = 0.5
INTERRUPTED = 2.0
"""Seconds that a program which stays may take to end an interrupted call, before it is ended with it."""

TICK = 0.05
NAMES: dict[int, Stream] = {frames.DATA: "stdout", frames.ERRDATA: "stderr"}


class Outcome(NamedTuple):
    """How a command ended, on the guest's word."""

    code: int  # Its exit code
    signal: int | None  # The signal that ended it
    cancelled: bool  # Whether it was ended because the host wanted it
    resident: Literal["", "new", "kept", "gone"]  # What became of a program that stays
    shown: bool  # Whether it left something to be shown


def read_outcome(outcome: dict[str, Any]) -> Outcome:
    """What the guest says of a command's end.

    Raises:
        WireError: it says something else.
    """
    code, signal, why = outcome.get("exit"), outcome.get("signal"), outcome.get("why", "")
    if code is None and why:
        code = 137
    if type(code) is not int or not 0 <= code <= 255:  # noqa: PLR2004 - the range of an exit code
        raise WireError("a result without an exit code")
    if signal is not None and (type(signal) is not int or not 0 < signal < 128):  # noqa: PLR2004 - and of a signal
        raise WireError("a result with an impossible signal")
    if why not in ("", "cancel"):
        raise WireError("a result with an unknown reason")
    resident = outcome.get("resident", "")
    if resident not in ("", "new", "kept", "gone"):
        raise WireError("a result with an unknown end")
    return Outcome(code, signal, bool(why), resident, outcome.get("shown") is True)


class _Execution:
    """One command on its way."""

    def __init__(self, channel: BoxChannel, command: Command, on_output: OutputListener | None) -> None:
        self._channel = channel
        self._command = command
        self._printed: Printed | None = Printed(command, on_output)
        self._timer: asyncio.TimerHandle | None = None
        self._limit: Literal["", "total", "idle"] = ""  # what was reached
        self._stream: HostStream | None = None

    async def run(self) -> CommandResult:
        started = time.monotonic()
        try:
            stream = self._stream = self._channel.open(self._request(), self._received, self._command.limits.clock)
        except ValueError:
            text = b"the command line is too long\n"
            return CommandResult(126, stderr=Output(text, b"", len(text)))
        feeder = self._feed(stream)
        self._watch(stream, stream.heard_at)
        try:
            outcome = await asyncio.shield(stream.result)
            duration = time.monotonic() - started
            if self._printed is not None:
                await self._printed.ready()
            return self._result(outcome, duration)
        except WireError as problem:
            self._discard()
            raise self._channel.broke(problem) from problem
        except BaseException:
            self._discard()
            await self._channel.call_off(stream, CANCEL_GRACE)
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if feeder is not None:
                feeder.cancel()

    def _request(self) -> dict[str, Any]:
        command = self._command
        return {
            "kind": frames.EXEC,
            "argv": command.argv,
            "cwd": command.cwd,
            "env": {**command.env, **command.secret_env},
            "stdin": bool(command.stdin),
            **({"resident": command.resident, "restart": command.restart} if command.resident else {}),
            **({"shows": command.shows} if command.shows else {}),
        }

    def _feed(self, stream: HostStream) -> asyncio.Task[None] | None:
        if not self._command.stdin:
            return None
        rest = stream.send_now(self._command.stdin)
        if not rest:
            stream.send_eof()
            return None
        return asyncio.get_running_loop().create_task(stream.send_last(rest))

    def _received(self, kind: int, payload: memoryview) -> None:
        if self._printed is None:
            return
        try:
            self._printed.add(NAMES[kind], payload)
        # Listeners and filters are anybody's code; a failure ends this command and must not touch the other streams.
        except Exception as problem:  # noqa: BLE001
            self._discard()
            if self._stream is not None:
                self._stream.fail(problem)

    def _watch(self, stream: HostStream, started: float, *, again: bool = False) -> None:
        """Stop the command at the first of its limits."""
        limits = self._command.limits
        dues: list[tuple[float, Literal["total", "idle"]]] = []
        if limits.total is not None:
            dues.append((started + limits.total, "total"))
        if limits.idle is not None:
            dues.append((stream.heard_at + limits.idle, "idle"))
        if stream.result.done() or not dues:
            return
        due, limit = min(dues)
        left = due - limits.clock()
        if left <= 0 and again:
            self._limit = limit
            self._channel.stop(stream, INTERRUPTED if self._command.resident else LIMIT_GRACE)
            return
        # The clock may stand still. And if this loop was held up, the guest's word may be waiting to be read.
        look = partial(self._watch, stream, started, again=left <= 0)
        self._timer = asyncio.get_running_loop().call_later(max(left, TICK), look)

    def _result(self, outcome: dict[str, Any], duration: float) -> CommandResult:
        code, signal, cancelled, resident, shown = read_outcome(outcome)
        limits, line, name = self._command.limits, self._command.line, self._command.name
        if self._printed is not None:
            self._printed.end()
        if cancelled and self._limit == "total":
            raise SandboxCommandTimeout(line, limits.total or 0.0, goes_on=resident in ("new", "kept"), name=name)
        if cancelled and self._limit == "idle":
            raise SandboxIdleTimeout(line, limits.idle or 0.0, goes_on=resident in ("new", "kept"), name=name)
        stdout, stderr = self._printed.finish() if self._printed is not None else (Output(), Output())
        return CommandResult(code, stdout, stderr, duration, signal, resident, shown)

    def _discard(self) -> None:
        if self._printed is not None:
            self._printed.discard()
            self._printed = None


Explain = Callable[[], Awaitable[str]]
"""Asked once when the pipe ends although nobody closed it: why, in half a sentence (exit code, out of memory, the
last lines of the guest's standard error); empty when it has no idea. It gets half a second."""

EXPLAIN_SECONDS = 0.5
STOP_SECONDS = 5.0
MAX_BACKLOG = 16 * 2**20
MAX_STREAMS = 256
TURN = 0.01
"""Seconds that one delivery may keep the loop; others live on it."""

SMALL_BITE = 4096


class BoxChannel:
    """One pipe to one guest, on one loop; it owns the pipe.

    Made, then `start`ed with the guest's payload, then waited for with `hello`; after that everything may be called at
    once and often.
    """

    def __init__(self, box_id: str, pipe: Pipe, *, workspace: str = WORKSPACE, explain: Explain | None = None) -> None:
        self.box_id = box_id
        self._pipe = pipe
        self._explain = explain
        self.files = BoxFiles(self, workspace)
        self._decoder = FrameDecoder()
        self._appetite = ROOM
        self._streams: dict[int, HostStream] = {}
        self.slots = asyncio.Semaphore(MAX_STREAMS)  # how many streams may be open at once; held while one is
        self._next_id = 1
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._started = False
        self._error: KaguraError | None = None
        self._ending = False
        self._tasks: set[asyncio.Task[None]] = set()
        # How long may be spent on finding out why the box died.
        self.explain_seconds = EXPLAIN_SECONDS
        # Whether the box is gone with its machine, or the way there; whoever explains its end says so.
        self.lost = False
        self._listeners = Listeners(self)

    # ------------------------------------------------------------------- life

    def start(self, payload: bytes) -> None:
        """Begin to read, and send the payload of `boot.guest_payload`; never blocks."""
        self._started = True
        self._pipe.start(self)
        self._pipe.write(payload)

    async def hello(self, timeout: float) -> None:  # noqa: ASYNC109 - the guest has this long, whoever waits
        """Wait for the guest's first frame.

        Raises:
            SandboxUnavailable: it did not come; with what was printed instead. The channel is closed.
        """
        if not self._started:
            raise RuntimeError("the channel was not started")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._hello)
        except (TimeoutError, KaguraError) as problem:
            why = getattr(problem, "reason", None) or getattr(problem, "why", f"nothing came for {timeout:g} s")
            printed = self._decoder.pending.decode("utf-8", "replace").strip()
            await self.close()
            raise SandboxUnavailable(
                f"the guest of {self.box_id} did not start: {why}" + (f"; it printed {printed!r}" if printed else "")
            ) from problem

    @property
    def closed(self) -> bool:
        """Whether the box is gone or going, closed or dead."""
        return self._error is not None or self._ending

    async def wait_closed(self) -> str:
        """Return when the pipe is closed: why the box died, or "" after `close`."""
        return await asyncio.shield(self._gone) if self._started else ""

    async def close(self) -> None:
        """Close the pipe, at which the guest kills everything and ends; may be called twice."""
        self._end(SandboxUnavailable(f"box {self.box_id} is closed"), "")
        current = asyncio.current_task()
        tasks = [task for task in self._tasks | self._listeners.tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def broke(self, why: WireError | str) -> SandboxProtocolError:
        """Close the channel because the guest broke the protocol; the error to raise."""
        error = SandboxProtocolError(self.box_id, str(why))
        self._end(error, f"it broke the protocol: {why}")
        return error

    def fail(self, why: str) -> None:
        """Close the channel because what it serves failed."""
        self._end(SandboxDied(self.box_id, why), why)

    def _end(self, error: KaguraError, why: str) -> None:
        if self._error is not None:
            return
        self._error = error
        self._pipe.close()
        for stream in list(self._streams.values()):
            stream.end(error)
        self._streams.clear()
        self._listeners.end()
        if not self._hello.done():
            self._hello.set_exception(error)
            self._hello.exception()
        if not self._gone.done():
            self._gone.set_result(why)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ------------------------------------------------------------ what it does

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """Run one command to its end; see `Box.run`."""
        if not command.argv:
            raise UsageError("A command needs at least the name of a program.")
        async with self.slots:
            return await _Execution(self, command, on_output).run()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Serve connections that programs in the box make to a loopback port; see `Box.listen`."""
        return await self._listeners.listen(listener, serve, failed)

    async def rest(self) -> None:
        """End every command, listener and connection, and stop every process but the guest, until `wake`.

        Raises:
            SandboxUnavailable: the box is gone.
        """
        self._listeners.withdraw()
        await asyncio.gather(*(self.call_off(stream, 0.0) for stream in list(self._streams.values())))
        await self._set_rest(on=True)

    async def wake(self) -> None:
        """Let the box go on; raises like `rest`."""
        await self._set_rest(on=False)

    async def _set_rest(self, *, on: bool) -> None:
        stream = self.open({"kind": frames.REST, "on": on}, no_data)
        await asyncio.shield(self._spawn(self._await_end(stream)))
        await stream.result

    # ---------------------------------------------------------------- streams

    def open(
        self, request: Mapping[str, Any], on_data: DataHandler, clock: Callable[[], float] | None = None
    ) -> HostStream:
        """Open a stream with a request; `clock` tells when the guest was last heard on it, by default the loop's.

        Raises:
            SandboxUnavailable: the box is dead or closed.
            SandboxProtocolError: it was closed because it broke the protocol.
            ValueError: the request is longer than a guest takes.
        """
        if self._error is not None:
            raise self._error
        frame = encode_control(frames.OPEN, self._next_id, request)
        if len(frame) > frames.MAX_REQUEST:
            raise ValueError("the request is too long")
        stream = HostStream(self._next_id, self, on_data, clock)
        self._next_id += 2
        self._streams[stream.id] = stream
        self._pipe.write(frame)
        return stream

    async def call_off(self, stream: HostStream, grace: float) -> None:
        """End a stream early and wait until the guest says that it has; a guest that does not is closed.

        Cancelling the wait does not end it: it goes on in the background.
        """
        if not stream.over.done():
            await asyncio.shield(self.stop(stream, grace))

    def stop(self, stream: HostStream, grace: float) -> asyncio.Task[None]:
        """Tell the guest to end a stream, and close a guest that does not: the work of waiting for its word."""
        self._pipe.write(encode_control(frames.CANCEL, stream.id, {"grace": grace}))
        return self._spawn(self._await_end(stream, STOP_SECONDS + grace))

    async def _await_end(self, stream: HostStream, seconds: float = STOP_SECONDS) -> None:
        done, _ = await asyncio.wait([stream.over], timeout=seconds)
        if not done:
            self.broke("it did not stop what it was told to stop")

    def send(self, kind: int, stream: int, *parts: bytes | memoryview) -> None:
        """Send one frame; never blocks. A guest that lets far too much pile up is closed."""
        self._pipe.write(header(kind, stream, sum(map(len, parts))), *parts)
        if self._pipe.backlog > MAX_BACKLOG:
            self.broke("it does not read")

    async def drained(self) -> None:
        """Return when the pipe takes data again, or is gone."""
        await self._pipe.drained()

    # --------------------------------------------------------- what comes in

    def get_buffer(self) -> memoryview:
        """Room to read into; little while the guest sends frames so small that they keep the loop busy."""
        return self._decoder.room()[: self._appetite]

    def buffer_updated(self, count: int) -> None:
        """The first `count` bytes of the room were filled."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for frame in self._decoder.filled(count):
                if self._error is not None:
                    return
                self._receive(frame)
        except WireError as problem:
            self.broke(problem)
        if loop.time() - now > TURN:
            self._appetite = max(SMALL_BITE, self._appetite // 4)
        elif self._appetite < ROOM:
            self._appetite *= 2

    def feed(self, data: Buffer) -> None:
        """Bytes that are already in memory."""
        rest = memoryview(data)
        while rest and self._error is None:
            room = self.get_buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            self.buffer_updated(count)

    def ended(self, why: str) -> None:
        """The pipe ended; unless somebody closed it, the box is dead, and is told so when the reason is known."""
        if self._error is None and not self._ending:
            self._ending = True
            self._spawn(self._die(why))

    async def _die(self, why: str) -> None:
        reason = ""
        if self._explain is not None:
            try:
                async with asyncio.timeout(self.explain_seconds):
                    reason = await self._explain()
            # Whatever goes wrong in finding the reason, the box is dead and everybody must hear it.
            except Exception:  # noqa: BLE001
                reason = ""
        self._end(SandboxDied(self.box_id, reason or why, lost=self.lost), reason or why)

    def _receive(self, frame: Frame) -> None:
        if frame.type == frames.HELLO:
            self._greeted(parse_object(frame.payload))
            return
        if not self._hello.done():
            raise WireError("something else came before its hello")
        if frame.stream % 2 == 0:
            self._listeners.receive(frame)
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            raise WireError(f"a frame for stream {frame.stream}, which is not open")
        match frame.type:
            case frames.DATA | frames.ERRDATA:
                stream.heard_at = stream.clock()
                stream.received(frame.type, frame.payload)
            case frames.CREDIT:
                stream.heard_at = stream.clock()
                stream.credited(parse_credit(frame.payload))
            case frames.ACCEPT:
                self._listeners.accepted(frame.stream, parse_object(frame.payload))
            case frames.RESULT:
                outcome = parse_object(frame.payload)
                del self._streams[frame.stream]
                stream.end(outcome)
            case _:
                raise WireError(f"a frame of type {frame.type} on a stream of the host's")

    def _greeted(self, greeting: dict[str, Any]) -> None:
        if self._hello.done():
            raise WireError("a second hello")
        if greeting.get("version") != frames.VERSION:
            raise WireError("a guest of another version")
        self._hello.set_result(greeting)

    @property
    def hardened(self) -> bool:
        """Whether the guest could hide itself from its commands; False before it said hello."""
        said_hello = self._hello.done() and self._hello.exception() is None
        return said_hello and self._hello.result().get("hardened") is True
