"""One gVisor box without Docker, from the start of its keeper to its end; not yet handed out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import guest_argv
from kagura_kernel.sandbox.box import send_as_root, send_workspace
from kagura_kernel.sandbox.bubblewrap.host import advise, read_facts
from kagura_kernel.sandbox.bubblewrap.python_view import PythonView
from kagura_kernel.sandbox.bubblewrap.request import uncounted_notes
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.supervisor.client import Ending

_ROOT = str(Path(__file__).resolve().parents[3])
_PROGRAM = """import sys
sys.path.append(sys.argv[1])
from kagura_kernel.sandbox.supervisor.gvisor import main
main(int(sys.argv[2]))"""
_MESSAGE = 1 << 17
_START_TIMEOUT = 40.0
_WORDS = 4096
# A guest has nothing to say on its standard error; one that talks on is not listened to.
_HEARD = 1 << 20


class KeptBox:
    """A box that a keeper of its own holds; belongs to one loop."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, words: int) -> None:
        self._process = process
        self._control: socket.socket | None = control
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._gone: asyncio.Future[Ending] = self._loop.create_future()
        self._words = words
        self._said = b""
        self._heard = 0
        os.set_blocking(words, False)
        self._loop.add_reader(control.fileno(), self._read)
        self._loop.add_reader(words, self._hear)

    async def started(self, job: Mapping[str, Any]) -> tuple[str, ...]:
        """Hand over the job and wait until runsc runs; the controllers that the system cannot count.

        Raises:
            SandboxUnavailable: it cannot be made.
            PathNotShown: a further directory of the host cannot be shown.
        """
        if self._control is not None:
            self._control.send(json.dumps(job).encode())
        answer = await asyncio.wait_for(asyncio.shield(self._answer), _START_TIMEOUT)
        if answer["op"] != "started":
            if answer["part"] == "shown":
                raise PathNotShown(*answer["why"].split(" cannot be shown: ", 1))
            raise SandboxUnavailable(answer["why"])
        return tuple(answer["notes"])

    def enter(self, argv: Sequence[str], streams: Sequence[int]) -> None:
        """Start a second process in the box, as its root; the streams stay the caller's.

        Raises:
            SandboxUnavailable: the box is gone.
        """
        try:
            if self._control is None:
                raise BrokenPipeError
            socket.send_fds(self._control, [json.dumps({"op": "enter", "argv": list(argv)}).encode()], list(streams))
        except OSError as error:
            raise SandboxUnavailable("the keeper of the box is gone") from error

    async def gone(self) -> Ending:
        """Return when nothing of the box is left."""
        return await asyncio.shield(self._gone)

    def kill(self) -> None:
        """End everything in it; may be called twice."""
        if self._control is not None:
            # Only this direction: the keeper still says how it ended.
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    def destroy(self) -> None:
        """Kill a keeper that does not do as it is told; the system then ends its box."""
        if self._control is not None:
            self._process.kill()

    # ---------------------------------------------------------------- inside

    def _read(self) -> None:
        while self._control is not None:
            try:
                data = self._control.recv(_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._end(None)
                return
            message = json.loads(data)
            if message["op"] == "gone":
                self._end(message)
            elif not self._answer.done():
                self._answer.set_result(message)

    def _end(self, message: dict[str, Any] | None) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        self._hear()
        self._deafen()
        words = self._said.decode("utf-8", "replace")
        ending = Ending(message["status"], message["out_of_memory"], words) if message else Ending(None, words=words)
        if not self._answer.done():
            self._answer.set_result({"op": "failed", "part": "box", "why": ending.why})
        # The keeper has nothing left to do; a process that nobody waits for would stay as a name.
        waiting = self._loop.run_in_executor(None, self._process.wait)
        waiting.add_done_callback(lambda _: self._bury(ending))

    def _bury(self, ending: Ending) -> None:
        if not self._gone.done():
            self._gone.set_result(ending)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._words >= 0:
                data = os.read(self._words, 1 << 16)
                self._said = (self._said + data)[-_WORDS:]
                self._heard += len(data)
                if not data or self._heard > _HEARD:
                    self._deafen()

    def _deafen(self) -> None:
        if self._words >= 0:
            self._loop.remove_reader(self._words)
            os.close(self._words)
            self._words = -1


async def launch(python: str, streams: Sequence[int]) -> KeptBox:
    """A keeper that waits for its job; `streams` are the guest's input and output, still the caller's.

    Raises:
        SandboxUnavailable: no process can be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # A socket, like the guest's other two: see `gvisor_opened.Streams`.
    words, said = (end.detach() for end in socket.socketpair())
    starting = asyncio.ensure_future(asyncio.to_thread(_popen, python, streams, said, theirs))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A thread cannot be called back; without its kernel the keeper ends at once, and is waited for.
        ours.close()
        os.close(words)
        process = await starting
        await asyncio.to_thread(process.wait)
        raise
    except OSError as error:
        ours.close()
        os.close(words)
        raise SandboxUnavailable(f"{python} does not start ({error.strerror})") from error
    ours.setblocking(False)  # noqa: FBT003 - the method's only argument
    return KeptBox(process, ours, words)


def _popen(python: str, streams: Sequence[int], said: int, theirs: socket.socket) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            [python, "-I", "-S", "-c", _PROGRAM, _ROOT, str(theirs.fileno())],
            env={},
            cwd="/",
            stdin=streams[0],
            stdout=streams[1],
            stderr=said,
            pass_fds=[theirs.fileno()],
            # A session of its own: an interrupt of the kernel's process group does not reach it.
            start_new_session=True,
        )
    finally:
        os.close(said)
        theirs.close()


_HELLO_SECONDS = 40.0
_LAST_WORDS = 0.6
_END_SECONDS = 12.0


class Opened:
    """A box whose guest has said hello, not yet handed out."""

    def __init__(self, kept: KeptBox, channel: BoxChannel, view: PythonView, notes: tuple[str, ...]) -> None:
        self.id = channel.box_id
        self.channel = channel
        self.notes = notes
        self.on_end: Callable[[], object] = lambda: None
        self._kept = kept
        self._view = view

    async def end(self) -> None:
        """End everything in it and wait until nothing is left; may be called twice."""
        self.on_end()
        await self.channel.close()
        self._kept.kill()
        try:
            await asyncio.wait_for(self._kept.gone(), _END_SECONDS)
        except TimeoutError:
            self._kept.destroy()
            await self._kept.gone()

    async def fill(self, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project into the workspace; what was left out."""
        if spec.workspace is None:
            return ()
        if spec.policy.writable:
            return await send_workspace(self.channel, spec)
        return await self._fill_as_root(spec)

    async def _fill_as_root(self, spec: BoxSpec) -> tuple[str, ...]:
        """Fill a workspace that nobody in the box may write: as its root, who leaves before any command runs."""
        with Streams() as streams:
            self._kept.enter(guest_argv(self._view.python), streams.theirs)
            streams.close_theirs()
            channel = BoxChannel.over_fds(self.id, *streams.hand_over(), workspace=WORKSPACE)
        same = self._view.python == sys.executable
        return await send_as_root(channel, spec, {"PATH": "/usr/bin:/bin"}, same_python=same)


class Streams:
    """The two directions of one guest; closes whatever was not handed over.

    They are sockets: nobody can open another process's socket through /proc, but in gVisor every process of the same
    user can open its pipe.
    """

    def __init__(self) -> None:
        self._ends: set[int] = set()
        try:
            guest_in, self._write = self._pair()
            self._read, guest_out = self._pair()
        except OSError as error:
            self._close(self._ends)
            raise SandboxUnavailable(f"no socket can be made ({error.strerror})") from error
        self.theirs = (guest_in, guest_out)

    def _pair(self) -> tuple[int, int]:
        one, other = (end.detach() for end in socket.socketpair())
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


async def open_box(python: str, view: PythonView, job: dict[str, Any], payload: bytes) -> Opened:
    """Start a keeper and its box, and wait until the guest has said hello.

    Args:
        python: Interpreter for the keeper.
        view: The Python that the box sees.
        job: The keeper's job.
        payload: The guest's.

    Raises:
        SandboxUnavailable: it does not start; the text says what runsc said, and what mends it where that is known.
        PathNotShown: a further directory of the host cannot be shown.
    """
    with Streams() as streams:
        kept = await launch(python, streams.theirs)
        streams.close_theirs()

        async def explain() -> str:
            with contextlib.suppress(TimeoutError):
                return (await asyncio.wait_for(kept.gone(), _LAST_WORDS)).why
            return ""

        channel = BoxChannel.over_fds(new_box_id(), *streams.hand_over(), workspace=WORKSPACE, explain=explain)
    opened = Opened(kept, channel, view, ())
    try:
        channel.start(payload)
        missing = await kept.started(job)
        await channel.hello(_HELLO_SECONDS)
    except SandboxUnavailable as error:
        await asyncio.shield(opened.end())
        said = (await kept.gone()).words.strip().splitlines()
        why = error.reason.rstrip(".") + (f" ({said[-1][:300]})" if said and said[-1][:300] not in error.reason else "")
        raise SandboxUnavailable(f"runsc did not start a box: {why}", advise(why, read_facts()) or None) from error
    except BaseException:
        await asyncio.shield(opened.end())
        raise
    opened.notes = tuple(uncounted_notes(missing))
    return opened
