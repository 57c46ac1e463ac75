"""The Claude program as a child process: started with exactly the environment it is given, ended with its group.

The SDK's own transport merges this process's environment into the child's; this one merges nothing. The program is
the leader of its own session, so an interrupt of the kernel does not reach it, and `kill` reaches everything it
started. When this process dies without a word the program goes too, see `with_death_signal`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from claude_agent_sdk import CLIConnectionError, ProcessError, Transport

_CHUNK = 2**16
_LONGEST_LINE = 64 * 2**20
_STDERR_LINES = 20
_GRACE = 3.0  # seconds to save the session after its input has ended


class ProgramTransport(Transport):
    """The program, wherever it runs. `connect` starts it; `close` and `kill` may be called at any time and twice."""

    @abstractmethod
    def kill(self) -> None:
        """End it and everything it started, at once."""

    @abstractmethod
    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""

    @abstractmethod
    def ending(self) -> str:
        """Why it is gone, half a sentence; empty if it was never there, or still is."""


class ClaudeProgram(ProgramTransport):
    """One run of the program. `connect` starts it; `close` and `kill` may be called at any time and twice."""

    def __init__(self, line: Sequence[str], environ: Mapping[str, str], cwd: Path, system: str) -> None:
        """A program that is not started.

        Args:
            line: Program and arguments; `{system}` in an argument becomes the path of the system prompt.
            environ: Its whole environment.
            cwd: Its working directory, which exists.
            system: The system prompt, handed over as a nameless file that it inherits.
        """
        self._line = list(line)
        self._environ = dict(environ)
        self._cwd = cwd
        self._system = system
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=_STDERR_LINES)
        self._error_task: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Its process id, which is also that of its group; None before it is started."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.returncode

    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""
        return self._errors[-1] if self._errors else ""

    def ending(self) -> str:
        """Its exit code, in words."""
        return "" if self.exit_code is None else f"its program ended with exit code {self.exit_code}"

    async def connect(self) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        with tempfile.TemporaryFile() as prompt:
            prompt.write(self._system.encode())
            prompt.seek(0)
            line = [part.replace("{system}", f"/dev/fd/{prompt.fileno()}") for part in self._line]
            self._process = await asyncio.create_subprocess_exec(
                *line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._cwd,
                env=self._environ,
                pass_fds=(prompt.fileno(),),
                start_new_session=True,
            )
        self._error_task = asyncio.create_task(self._keep_errors())

    async def write(self, data: str) -> None:
        """Send text; raises `CLIConnectionError` when the program is gone."""
        stdin = None if self._process is None else self._process.stdin
        async with self._write_lock:
            if stdin is None or stdin.is_closing():
                message = "the program's input is closed"
                raise CLIConnectionError(message)
            try:
                stdin.write(data.encode())
                await stdin.drain()
            except (ConnectionError, RuntimeError) as error:
                message = "the program does not read any more"
                raise CLIConnectionError(message) from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Its messages until it closes its output; raises `ProcessError` when it then ends badly."""
        process = self._process
        if process is None or process.stdout is None:
            message = "the program is not started"
            raise CLIConnectionError(message)
        pending = b""
        while chunk := await process.stdout.read(_CHUNK):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)
            if len(pending) > _LONGEST_LINE:
                message = "the program sent a message without end"
                raise CLIConnectionError(message)
        code = await process.wait()
        if code != 0:
            message = "the program ended"
            raise ProcessError(message, exit_code=code)

    async def end_input(self) -> None:
        """Close its standard input, upon which it saves its session and ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """End it: its input first, then by force. It and its group are gone when this returns."""
        process = self._process
        if process is None:
            return
        await self.end_input()
        try:
            await asyncio.wait_for(process.wait(), _GRACE)
        except TimeoutError:
            pass  # it had its time
        finally:
            self.kill()
        await process.wait()
        await self._drain(process)
        if self._error_task is not None:
            await asyncio.wait({self._error_task})

    def kill(self) -> None:
        """End it and everything it started, at once; the system collects it within moments."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    @staticmethod
    async def _drain(process: asyncio.subprocess.Process) -> None:
        """Read what nobody wants, so that the pipe comes to its end and is closed."""
        # A reader that is still at work does the same.
        with suppress(RuntimeError):
            while process.stdout is not None and await process.stdout.read(_CHUNK):
                pass

    async def _keep_errors(self) -> None:
        stream = None if self._process is None else self._process.stderr
        while stream is not None and (chunk := await stream.read(_CHUNK)):
            self._errors.extend(line for line in chunk.decode(errors="replace").splitlines() if line.strip())
