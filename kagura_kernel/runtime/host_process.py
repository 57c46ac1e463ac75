"""One program on the host while it runs: its pipes, its limits, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from kagura_kernel.domain.commands import Stream
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.runtime.host_family import MARKER, Keeper, signal_group, stop_family

READ_BYTES = 65536
DRAIN_SECONDS = 1.0
REAP_SECONDS = 1.0
POLL_SECONDS = 0.02

Feed = Callable[[Stream, bytes], None]
Limit = Literal["total", "idle"]


class HostProcess:
    """A program in a session of its own. Whoever makes one calls `end`, whatever happened.

    Args:
        argv: Program and arguments.
        directory: Where it runs.
        environment: All it sees of variables.
        stdin: What it reads.
        feed: Hears every chunk it prints.

    Raises:
        OSError: it could not be started.
    """

    def __init__(
        self, argv: Sequence[str], directory: Path, environment: Mapping[str, str], stdin: bytes, feed: Feed
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed = feed
        self._marker = secrets.token_hex(8)
        self._unwritten = memoryview(stdin)
        self._open: dict[int, IO[bytes]] = {}
        self._drained = asyncio.Event()
        self._exited = asyncio.Event()
        self._pidfd = -1
        self._ended = False
        self._keeper: Keeper | None = None
        self._popen = subprocess.Popen(  # noqa: S603 - a person approved exactly this
            list(argv),
            cwd=directory,
            env={**environment, MARKER: self._marker},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        try:
            self._attend()
        except BaseException:
            self.end()
            raise

    async def finish(self, limits: CommandLimits, grace: float) -> Limit | None:
        """Wait for the end: its own (None), or the one that a limit brings."""
        reached = await self._until_exit(limits)
        if reached is not None:
            await self.stop_gently(grace)
        self._stop_family()
        # What was printed before the end may still lie in the pipes; a stranger may hold them open for ever.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), DRAIN_SECONDS)
        return reached

    async def stop_gently(self, grace: float) -> None:
        """Ask the group to end, and give it this many seconds."""
        signal_group(self._popen.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wait_exit(), grace)

    def end(self) -> int:
        """Kill what is left, free everything, and tell the exit status (negative: a signal). May be called twice."""
        self._stop_family()
        try:
            status = self._popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            # It became somebody else's (`exec sudo …`), and they may not be stopped from here.
            status = -signal.SIGKILL
        self._ended = True
        if self._keeper is not None:
            self._keeper.dismiss()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        for fd in list(self._open):
            self._close(fd)
        self._close_stdin()
        self._exited.set()
        self._drained.set()
        return status

    def _attend(self) -> None:
        self._keeper = Keeper(self._popen.pid, self._marker)
        if self._popen.stdout is not None:
            self._listen("stdout", self._popen.stdout)
        if self._popen.stderr is not None:
            self._listen("stderr", self._popen.stderr)
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)
            self._loop.add_writer(self._popen.stdin.fileno(), self._write)
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._exited.set)
        self._last_output = self._loop.time()

    def _listen(self, stream: Stream, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._open[pipe.fileno()] = pipe
        self._loop.add_reader(pipe.fileno(), self._read, stream, pipe.fileno())

    async def _until_exit(self, limits: CommandLimits) -> Limit | None:
        began = self._loop.time()
        while not self._exited.is_set():
            now = self._loop.time()
            left: dict[Limit, float] = {}
            if limits.total is not None:
                left["total"] = began + limits.total - now
            if limits.idle is not None:
                left["idle"] = self._last_output + limits.idle - now
            for limit, seconds in left.items():
                if seconds <= 0:
                    return limit
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wait_exit(), min(left.values(), default=None))
        return None

    async def _wait_exit(self) -> None:
        if self._pidfd >= 0:
            await self._exited.wait()
            return
        while self._popen.poll() is None:  # noqa: ASYNC110 - the system has nothing to wait on
            await asyncio.sleep(POLL_SECONDS)
        self._exited.set()

    def _stop_family(self) -> None:
        # Once it is reaped its number may belong to somebody else; where exits are polled for, that is a short moment.
        if self._popen.returncode is None:
            stop_family(self._popen.pid, self._marker)
        elif self._pidfd < 0 and not self._ended:
            signal_group(self._popen.pid, signal.SIGKILL)

    def _read(self, stream: Stream, fd: int) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._last_output = self._loop.time()
            self._feed(stream, data)
            return
        self._close(fd)

    def _write(self) -> None:
        pipe = self._popen.stdin
        if pipe is None:
            return
        try:
            self._unwritten = self._unwritten[os.write(pipe.fileno(), self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:
            # It does not want to read on; that is its own affair.
            self._unwritten = memoryview(b"")
        if not self._unwritten:
            self._close_stdin()

    def _close_stdin(self) -> None:
        pipe = self._popen.stdin
        if pipe is not None and not pipe.closed:
            self._loop.remove_writer(pipe.fileno())
            pipe.close()

    def _close(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open.pop(fd).close()
        if not self._open:
            self._drained.set()
