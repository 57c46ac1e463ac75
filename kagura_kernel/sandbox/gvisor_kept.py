"""The kernel's side of one gVisor box's keeper: starts it, tells it what to do, hears how the box ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.sandbox.keeper import Ending

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = """import sys
sys.path.append(sys.argv[1])
from kagura_kernel.sandbox.gvisor_keeper import main
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
