"""The kernel's side of the supervisor: one small process that starts and ends boxes (see `main`)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.pipe import FdPipe
from kagura_kernel.sandbox.supervisor.launched import Launched, launch, options_of

_MESSAGE = 1 << 17
_START_TIMEOUT = 40.0
_FULL = 0.02
_PIPE_BYTES = 2**19
_LAST_WORDS = 0.4
_END_SECONDS = 12.0


class StartRefused(Exception):
    """The supervisor could not start a box; `part` says what failed (`overlay`, `workspace`, `limits`, …)."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part
        self.why = why


@dataclass(frozen=True, slots=True)
class Ending:
    """How a box ended."""

    status: int | None  # exit code of its first process, negative for a signal; None when the supervisor was lost
    out_of_memory: bool = False  # whether the system killed something in it for want of memory
    words: str = ""  # the end of what it wrote to standard error

    @property
    def why(self) -> str:
        """Half a sentence."""
        if self.status is None:
            return "the process that kept it was killed"
        told = self.words.strip().splitlines()
        last = f" ({told[-1][:300]})" if told else ""
        if self.out_of_memory:
            return f"it ran out of memory{last}"
        # Process 1 ended by a signal is reported by bubblewrap as 128 and the signal's number.
        number = -self.status if self.status < 0 else self.status - 128
        if number > 0:
            return f"signal {number} ended it{last}"
        return f"it ended with exit code {self.status}{last}"


class Started(NamedTuple):
    """A box that the supervisor holds."""

    notes: tuple[str, ...]  # what a reader should know of it
    gone: asyncio.Future[Ending]  # has a result when nothing of the box is left


class SupervisorClient:
    """Starts the supervisor on first use, and again when it was lost. Belongs to one loop.

    Args:
        view: What boxes see of a Python, as `PythonView.as_setup` gives it.
        python: Interpreter that it runs on; needs the standard library only.
        mapping: Commands that map further ids for an ordinary user's (`root_layer.mapping_commands`); all of its boxes
            then have a root of their own.
        gvisor: Whether its boxes are gVisor's.
    """

    def __init__(
        self,
        view: Mapping[str, Any],
        python: str = sys.executable,
        mapping: Sequence[Sequence[str]] = (),
        *,
        gvisor: bool = False,
    ) -> None:
        self._view = view
        self._options = options_of(mapping, gvisor=gvisor)
        self._python = python
        self._lock = asyncio.Lock()
        self._launched: Launched | None = None
        self._ending: threading.Thread | None = None
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        self._starting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._gone: dict[str, asyncio.Future[Ending]] = {}
        self.uncounted: tuple[str, ...] = ()

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor, while there is one."""
        return self._launched.process.pid if self._launched is not None else None

    async def start(self, box_id: str, request: Mapping[str, Any], streams: Sequence[int]) -> Started:
        """Have a box started; `streams` are the guest's standard input and output, still owned by the caller.

        Raises:
            StartRefused: this box cannot be made, or none can be made here.
            SandboxUnavailable: there is no supervisor.
        """
        await self._ensure()
        loop = asyncio.get_running_loop()
        gone = self._gone[box_id] = loop.create_future()
        started = self._starting[box_id] = loop.create_future()
        try:
            # A socket cannot say when there is room for a whole message.
            while not self._send({"op": "start", "id": box_id, **request}, streams):  # noqa: ASYNC110
                await asyncio.sleep(_FULL)
            async with asyncio.timeout(_START_TIMEOUT):
                answer = await started
        except BaseException:
            self.kill(box_id)
            raise
        finally:
            self._starting.pop(box_id, None)
        if answer["op"] == "failed":
            raise StartRefused(answer["part"], answer["why"])
        return Started(tuple(answer["notes"]), gone)

    def enter(self, box_id: str, words: Sequence[str], streams: Sequence[int]) -> None:
        """Start a second process in a box of gVisor; the streams stay the caller's.

        Raises:
            SandboxUnavailable: there is no supervisor, or no room for the message.
        """
        if not self._send({"op": "enter", "id": box_id, "words": list(words)}, streams):
            raise SandboxUnavailable("the supervisor of boxes is busy")

    def kill(self, box_id: str) -> None:
        """Kill everything in a box; nothing happens when it is gone."""
        if box_id in self._gone and self._launched is not None and not self._send({"op": "kill", "id": box_id}):
            asyncio.get_running_loop().call_later(_FULL, self.kill, box_id)

    async def close(self) -> None:
        """End the supervisor and with it every box; may be called twice."""
        self._drop("it was closed")
        if self._ending is not None:
            await asyncio.to_thread(self._ending.join)

    # ---------------------------------------------------------------- inside

    async def _ensure(self) -> None:
        async with self._lock:
            if self._launched is not None and self._ready is not None and self._ready.done():
                return
            try:
                await self._launch()
            except BaseException:
                self._drop("it did not start")
                raise

    async def _launch(self) -> None:
        try:
            self._launched = launch(self._python, self._options, self._view)
        except OSError as error:
            raise SandboxUnavailable(f"{self._python} does not start ({error.strerror})") from error
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._launched.socket.fileno(), self._read)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                answer = await self._ready
        except TimeoutError as error:
            raise SandboxUnavailable("the supervisor of boxes did not answer") from error
        if answer["op"] != "ready":
            raise StartRefused("supervisor", answer["why"])
        self.uncounted = tuple(answer["uncounted"])

    def _send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> bool:
        """Send one message; False when there is no room now. A supervisor that is gone shows when reading."""
        if self._launched is None:
            raise SandboxUnavailable("the supervisor of boxes is gone")
        try:
            socket.send_fds(self._launched.socket, [json.dumps(message).encode()], list(descriptors))
        except BlockingIOError:
            return False
        except OSError as error:
            self._drop(str(error))
            raise SandboxUnavailable("the supervisor of boxes is gone") from error
        return True

    def _read(self) -> None:
        while self._launched is not None:
            try:
                data = self._launched.socket.recv(_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._drop("it was killed")
                return
            self._take(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "ready" | "refused" if self._ready is not None:
                _settle(self._ready, message)
            case "started" | "failed":
                _settle(self._starting.get(message["id"]), message)
            case "gone":
                ending = Ending(message["status"], message["out_of_memory"], message["words"])
                _settle(self._gone.pop(message["id"], None), ending)
                failed = {"op": "failed", "part": "box", "why": ending.why}
                _settle(self._starting.get(message["id"]), failed)

    def _drop(self, why: str) -> None:
        """Forget a supervisor that is gone, or is to go; the end of the socket is what ends it."""
        if self._launched is not None:
            asyncio.get_running_loop().remove_reader(self._launched.socket.fileno())
            # What it still has to free is not the loop's to wait for.
            self._ending = self._launched.end()
        self._launched = None
        lost = f"the supervisor of boxes is gone: {why}"
        _settle(self._ready, {"op": "refused", "why": lost})
        for started in self._starting.values():
            _settle(started, {"op": "failed", "part": "supervisor", "why": lost})
        for gone in self._gone.values():
            _settle(gone, Ending(None))
        self._gone.clear()


def _settle(future: asyncio.Future[Any] | None, value: Any) -> None:
    if future is not None and not future.done():
        future.set_result(value)


class GuestStreams:
    """The two directions of one guest; closes whatever was not handed over.

    Pipes, or sockets: nobody can open another process's socket through /proc, but in gVisor every process of the same
    user can open its pipe.
    """

    def __init__(self, *, sockets: bool = False) -> None:
        self._ends: set[int] = set()
        try:
            guest_in, self._write = self._pair(sockets=sockets)
            self._read, guest_out = self._pair(sockets=sockets)
        except OSError as error:
            self._close(self._ends)
            kind = "socket" if sockets else "pipe"
            raise SandboxUnavailable(f"no {kind} can be made ({error.strerror})") from error
        if not sockets:
            # The guest itself, and large outputs, then pass in one piece; a user with many pipes gets the usual size.
            with contextlib.suppress(OSError):
                for descriptor in (guest_in, guest_out):
                    fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.theirs = (guest_in, guest_out)

    def _pair(self, *, sockets: bool) -> tuple[int, int]:
        if sockets:
            one, other = (end.detach() for end in socket.socketpair())
        else:
            one, other = os.pipe2(os.O_CLOEXEC)
        self._ends |= {one, other}
        return one, other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._ends)

    def close_theirs(self) -> None:
        """The guest has its ends by now."""
        self._close(self._ends & set(self.theirs))

    def hand_over(self) -> tuple[int, int]:
        """Our ends, to read from and to write to; the caller closes them."""
        self._ends -= {self._read, self._write}
        return self._read, self._write

    def _close(self, descriptors: set[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._ends -= descriptors


class OpenedBox:
    """A box whose guest was sent its payload; made by `open_box`, not yet handed out."""

    def __init__(self, supervisor: SupervisorClient, started: Started, channel: BoxChannel) -> None:
        self.id = channel.box_id
        self.channel = channel
        self.notes, self._gone = started
        self.on_end: Callable[[], object] = lambda: None
        self.supervisor = supervisor

    async def end(self) -> None:
        """End everything in it and wait until nothing is left; may be called twice."""
        self.on_end()
        await self.channel.close()
        self.supervisor.kill(self.id)
        await asyncio.wait([self._gone], timeout=_END_SECONDS)


async def open_box(
    supervisor: SupervisorClient, request: Mapping[str, Any], payload: bytes, *, hello: float, sockets: bool = False
) -> OpenedBox:
    """Start a box for a `start` message, but for its name, and wait `hello` seconds for its guest to say hello.

    Raises:
        StartRefused: the box cannot be made; of part `guest` when its program ended instead of saying hello.
        SandboxUnavailable: there is no supervisor, or the guest does not answer.
    """
    with GuestStreams(sockets=sockets) as streams:
        box_id = new_box_id()
        started = await supervisor.start(box_id, request, streams.theirs)
        streams.close_theirs()

        async def explain() -> str:
            await asyncio.wait([started.gone], timeout=_LAST_WORDS)
            return started.gone.result().why if started.gone.done() else ""

        channel = BoxChannel(box_id, FdPipe(*streams.hand_over()), explain=explain)
    opened = OpenedBox(supervisor, started, channel)
    try:
        channel.start(payload)
        await _greet(channel, started.gone, hello)
    except BaseException:
        await asyncio.shield(opened.end())
        raise
    return opened


async def _greet(channel: BoxChannel, gone: asyncio.Future[Ending], seconds: float) -> None:
    """Wait for the guest; when its program ended instead, that one's own words say why."""
    hello = asyncio.ensure_future(channel.hello(seconds))
    try:
        await asyncio.wait((hello, gone), return_when=asyncio.FIRST_COMPLETED)
        if hello.done() and hello.exception() is not None:
            # The pipe ends a little before the supervisor says why.
            await asyncio.wait((gone,), timeout=_LAST_WORDS)
        if gone.done():
            raise StartRefused("guest", gone.result().why) from (hello.exception() if hello.done() else None)
        await hello
    finally:
        hello.cancel()
        await asyncio.gather(hello, return_exceptions=True)
