"""The listeners of one box, and the connections that come through them, on the host's side of the pipe.

The guest opens a stream for each connection; here it is checked, bounded and given to whoever asked for the listener,
in a task of its own. The guest is believed nothing: what it may send, and when, is checked frame by frame, what waits
here is at most the credit that the stream was given, and what no good guest would send raises `WireError`, at which
the channel closes the box.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.sandbox.backend import Bytes, Failed, Listener, ServeStream
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.streams import (
    Channel,
    CreditedStream,
    Frame,
    HostStream,
    News,
    WireError,
    control_payload,
    no_data,
    parse_credit,
    parse_object,
)

MAX_TEXT = 2000


class ServedStream(CreditedStream):
    """A connection that the guest opened and somebody on the host serves; a `GuestStream`.

    `turn` is held by whichever stream waits for the pipe, so that each sends a frame in its turn. The guest may send
    after `accept` only.
    """

    def __init__(
        self,
        stream: int,
        request: Mapping[str, Any],
        channel: Channel,
        turn: asyncio.Lock,
        *,
        may_send: int,
        may_receive: int,
    ) -> None:
        super().__init__(stream, channel, may_send=may_send, may_receive=may_receive)
        self.request = request
        self.ended = False  # whether the host has let go of it
        self._turn = turn
        self._buffer = bytearray()
        self._accepted = False
        self._told_eof = False
        self._heard_eof = False
        self._problem: OSError | None = None
        self._came = News()
        self._left = News()

    # -------------------------------------------------------- what comes in

    def received(self, payload: memoryview) -> None:
        """The guest sent data. Raises `WireError` when it may not."""
        if not self._accepted:
            raise WireError("data on a connection that was not accepted")
        if self._heard_eof:
            raise WireError("data after the end of data")
        self.charge(len(payload))
        if not self.ended:  # otherwise it was under way when the host let go
            self._buffer += payload
            self._came.tell()

    def heard_eof(self) -> None:
        """The program has no more to send. Raises `WireError` when it said so before, or was not accepted."""
        if not self._accepted or self._heard_eof:
            raise WireError("an end of data that cannot be")
        self._heard_eof = True
        self._came.tell()

    @property
    def cancelled(self) -> bool:
        """Whether the guest has let go of it."""
        return self._problem is not None

    def lost(self, why: str) -> None:
        """The guest has let go: the program, or the whole box, is gone."""
        if self._problem is None:
            self._problem = ConnectionResetError(errno.ECONNRESET, why)
        self._buffer = bytearray()
        for news in (self._left, self._came, self._credit_came):
            news.tell()

    # ----------------------------------------------------------- GuestStream

    async def gone(self) -> None:
        """Return when the program or the box is gone."""
        while self._problem is None:
            await self._left.wait()

    async def accept(self) -> None:
        """Tell the program that it has its connection."""
        self._require_beginning()
        self._require_life()
        self._accepted = True
        self._channel.send(frames.ACCEPT, self.id, control_payload({"credit": self._window_in}))

    async def refuse(self, status: int, text: str) -> None:
        """Tell the program why it has none."""
        self._require_beginning()
        self._end({"status": status, "text": text[:MAX_TEXT]})

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes; empty when the program has no more to send."""
        while not self._buffer:
            self._require_life()
            if self._heard_eof:
                return b""
            await self._came.wait()
        data: Bytes
        if len(self._buffer) <= limit:
            data, self._buffer = self._buffer, bytearray()
        else:
            data = self._buffer[:limit]
            del self._buffer[:limit]
        self._owe(len(data), open_still=not (self._heard_eof or self.ended or self._problem))
        return data

    async def write(self, data: Bytes) -> None:
        """Hand all of `data` over; returns when there is room for more."""
        rest = memoryview(data)
        while rest:
            await self._credit()
            async with self._turn:
                await self._channel.drained()
                self._require_life()
                rest = self._send_piece(rest)
        self._require_life()

    async def write_eof(self) -> None:
        """No more bytes for the program."""
        if self._accepted and not (self._told_eof or self.ended or self._problem):
            self._told_eof = True
            self._channel.send(frames.EOF, self.id)

    def abort(self) -> None:
        """End it with a reset."""
        self._end({"error": "ECONNRESET"})

    def close(self) -> None:
        """End it: in order if the program was told that there are no more bytes, with a reset otherwise."""
        self._end({} if self._told_eof else {"error": "ECONNRESET"})

    # ---------------------------------------------------------------- within

    def _require_beginning(self) -> None:
        if self._accepted or self.ended:
            raise RuntimeError("a connection is accepted or refused once")

    def _require_life(self) -> None:
        if self._problem is not None:
            raise ConnectionResetError(self._problem.errno, self._problem.strerror)
        if self.ended:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the connection was closed on the host")

    async def _credit(self) -> None:
        while self._may_send <= 0:
            self._require_life()
            await self._credit_came.wait()
        if not self._accepted or self._told_eof:
            raise RuntimeError("bytes are written after accept and before write_eof")

    def _end(self, outcome: Mapping[str, Any]) -> None:
        if self.ended:
            return
        self.ended = True
        self._buffer = bytearray()
        self._came.tell()
        self._credit_came.tell()
        self._channel.send(frames.RESULT, self.id, control_payload(outcome))


ANSWER_SECONDS = 20.0
MAX_UNSERVED = 1000
MAX_REFUSED = 4096
MAX_HOST = 1024
MAX_PORT = 65535


@dataclass(slots=True)
class _Open:
    """A listener that was asked for."""

    listener: Listener
    serve: ServeStream
    failed: Failed | None
    port: asyncio.Future[int]
    is_over: bool = False  # whether nobody serves it any more


class Listeners:
    """All of one channel's."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._open: dict[int, _Open] = {}
        self._streams: dict[int, ServedStream] = {}
        self._refused: dict[int, None] = {}
        self._unserved = 0
        self._last_id = 0
        self._turn = asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()  # those that serve connections now

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None) -> int:
        """Open one; see `Box.listen`."""
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        stream = self._channel.open({"kind": frames.LISTEN, "port": listener.port, "front": listener.front}, no_data)
        self._open[stream.id] = _Open(listener, serve, failed, port)
        stream.result.add_done_callback(lambda _: self._gone(stream))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(port)
        except TimeoutError:
            raise self._channel.broke("it does not say whether it listens") from None
        except asyncio.CancelledError:
            with contextlib.suppress(KaguraError):
                await self._channel.call_off(stream, 0.0)
            raise

    def accepted(self, stream: int, answer: Mapping[str, Any]) -> None:
        """The guest says that a listener of the host's listens.

        Raises:
            WireError: there is no such listener, or it listens already, or elsewhere.
        """
        found = self._open.get(stream)
        port = answer.get("port")
        if found is None or found.port.done():
            raise WireError("it accepts what nobody asked for")
        if type(port) is not int or not 1 <= port <= MAX_PORT or found.listener.port not in (0, port):
            raise WireError("it listens on a port that nobody asked for")
        found.port.set_result(port)

    def _gone(self, stream: HostStream) -> None:
        found = self._open.pop(stream.id)
        if (error := stream.result.exception()) is not None:
            if not found.port.done():
                found.port.set_exception(error)
                found.port.exception()
            return
        if found.port.done():
            if stream.result.result().get("error"):
                self._channel.broke("a listener ended before its box")
            return
        text = str(stream.result.result().get("text", ""))[:200]
        shown = "".join(sign if sign.isprintable() else "?" for sign in text) or "it does not say why"
        where = f"port {found.listener.port}" if found.listener.port else "any port"
        found.port.set_exception(SandboxUnavailable(f"box {self._channel.box_id} cannot listen on {where}: {shown}"))
        found.port.exception()

    # ------------------------------------------------------------ what comes in

    def receive(self, frame: Frame) -> None:
        """A frame on a stream of the guest's. Raises `WireError` when no good guest would have sent it."""
        number = frame.stream
        if frame.type == frames.OPEN:
            self._opened(number, parse_object(frame.payload))
            return
        if number in self._refused and frame.type == frames.CANCEL:
            del self._refused[number]
            return
        stream = self._streams.get(number)
        if stream is None or stream.cancelled:
            raise WireError(f"a frame of type {frame.type} for stream {number}, which is not open")
        match frame.type:
            case frames.DATA:
                stream.received(frame.payload)
            case frames.CREDIT:
                stream.credited(parse_credit(frame.payload))
            case frames.EOF:
                stream.heard_eof()
            case frames.CANCEL:
                stream.lost("the program in the box broke it off")
                self._let_go(stream)
            case _:
                raise WireError(f"a frame of type {frame.type} on a stream of its own")

    def _opened(self, number: int, request: Mapping[str, Any]) -> None:
        if number <= self._last_id:
            raise WireError(f"stream {number} is opened out of order")
        self._last_id = number
        found = self._open.get(_number(request, "listener", 0)) if request.get("kind") == frames.CONNECTION else None
        if found is None or found.is_over:
            self._unserved += 1
            if self._unserved > MAX_UNSERVED:
                raise WireError("it opens one stream after another that nobody serves")
            self._refuse(number, "nobody serves this")
            return
        credit = _number(request, "credit", frames.WINDOW)
        told = {"name": found.listener.name, **_target(found.listener, request)}
        if len(self._streams) >= frames.MAX_CONNECTIONS:
            self._refuse(number, "there are too many connections")
            return
        window = frames.window(len(self._streams))
        stream = ServedStream(number, told, self._channel, self._turn, may_send=credit, may_receive=window)
        self._streams[number] = stream
        task = asyncio.get_running_loop().create_task(_serve(found.serve, stream))
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._served(done, stream, found))

    def _refuse(self, number: int, text: str) -> None:
        # A good guest may break off a stream whose refusal is on its way; it does so soon.
        self._refused[number] = None
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._channel.send(frames.RESULT, number, control_payload({"status": 503, "text": text}))

    def _served(self, task: asyncio.Task[None], stream: ServedStream, found: _Open) -> None:
        self.tasks.discard(task)
        # A task that is cancelled before its first step never runs, and would not end its stream.
        stream.abort()
        self._let_go(stream)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, OSError) and stream.cancelled:
            return  # what a program does to its own connection is nobody's failure
        if found.failed is not None:
            found.failed(error)
        else:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a connection of box {self._channel.box_id} could not be served", "exception": error}
            )
            self._channel.fail(f"what serves its connections failed ({type(error).__name__})")

    def _let_go(self, stream: ServedStream) -> None:
        """Forget it when both sides have let go."""
        if stream.ended and stream.cancelled:
            self._streams.pop(stream.id, None)

    def withdraw(self) -> None:
        """Serve nobody any more, whatever the guest says; that it stops listening is for the caller to ask of it."""
        for found in self._open.values():
            found.is_over = True
        for stream in self._streams.values():
            stream.abort()
        for task in self.tasks:
            task.cancel()

    def end(self) -> None:
        """The box is gone: nobody is served any more."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.lost("the box is gone")
        for task in self.tasks:
            task.cancel()


async def _serve(serve: ServeStream, stream: ServedStream) -> None:
    try:
        await serve(stream)
    except BaseException:
        stream.abort()
        raise
    stream.close()


def _target(listener: Listener, request: Mapping[str, Any]) -> dict[str, Any]:
    if listener.front != "proxy":
        return {}
    host = request.get("host")
    if not isinstance(host, str) or not 0 < len(host) <= MAX_HOST:
        raise WireError("a connection that names no host")
    return {"host": host, "port": _number(request, "port", MAX_PORT, least=0)}


def _number(request: Mapping[str, Any], name: str, most: int, *, least: int = 1) -> int:
    value = request.get(name)
    if type(value) is not int or value < least or (most and value > most):
        raise WireError(f"a connection whose {name} is none")
    return value
