"""The Claude program in a box, as a transport of the SDK: the same lines as on the host, over the box's pipe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from claude_agent_sdk import CLIConnectionError

from kagura_kernel.brain.claude_transport import ProgramTransport
from kagura_kernel.brain.inside import InsideBox, InsideProgram

LONGEST_LINE = 32 * 2**20
"""Bytes of one message; a picture that was read makes the longest."""

RATE, BURST = 4 * 2**20, 16 * 2**20
"""Bytes a second that are read in the long run, and so many as fast as they come: what comes faster waits in the box,
so that a program which prints without end leaves the loop to other runs."""

_EACH = 2048  # what reading a message costs beside its length
_IN_A_THREAD = 128 * 1024
_SYSTEM_FILE = "system.txt"


class Throttle:
    """How long somebody has to wait who reads faster than `rate` a second, beyond the first `burst`."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._owed = 0.0
        self._at = float("-inf")

    def take(self, now: float, amount: float) -> float:
        """Seconds to wait before this much more is read; 0 for most."""
        paid = (now - self._at) * self._rate
        self._owed = max(0.0, self._owed - paid) + amount
        self._at = now
        return max(0.0, (self._owed - self._burst) / self._rate)


class SealedProgram(ProgramTransport):
    """One run of the program in a box. `connect` starts it; `close` and `kill` may be called at any time and twice."""

    def __init__(self, inside: InsideBox, line: Sequence[str], environ: Mapping[str, str], system: str) -> None:
        """A program that is not started.

        Args:
            inside: The box.
            line: Program and arguments; `{system}` in an argument becomes the path of the system prompt.
            environ: What it finds in its environment beside the box's own.
            system: What is added to its system prompt.
        """
        self._inside = inside
        self._line = list(line)
        self._environ = dict(environ)
        self._system = system
        self._program: InsideProgram | None = None
        self._killed = False

    async def connect(self) -> None:
        """Start it.

        Raises:
            SandboxError: the box is gone.
        """
        path = await self._inside.put(_SYSTEM_FILE, self._system)
        line = [part.replace("{system}", path) for part in self._line]
        if not self._killed:
            self._program = await self._inside.start(line, self._environ)

    async def write(self, data: str) -> None:
        """Send text; raises `CLIConnectionError` when the program is gone."""
        try:
            await self._started().write(data.encode())
        except OSError as error:
            message = "the program does not read any more"
            raise CLIConnectionError(message) from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Its messages until it is gone."""
        pending = bytearray()
        throttle = Throttle(RATE, BURST)
        async for chunk in self._started().output():
            searched = len(pending)
            pending += chunk
            while (end := pending.find(b"\n", searched)) >= 0:
                line = bytes(pending[:end])
                del pending[: end + 1]
                searched = 0
                if pause := throttle.take(asyncio.get_running_loop().time(), _EACH + len(line)):
                    await asyncio.sleep(pause)
                if line.startswith(b"{"):
                    large = len(line) > _IN_A_THREAD
                    yield await asyncio.to_thread(json.loads, line) if large else json.loads(line)
            if len(pending) > LONGEST_LINE:
                self.kill()
                message = "the program sent a message without end"
                raise CLIConnectionError(message)

    async def end_input(self) -> None:
        """Nothing to do: `close` ends its input, upon which it ends."""

    async def close(self) -> None:
        """End it: its input first, then by force. It is gone when this returns."""
        if self._program is not None:
            await self._program.close()

    def kill(self) -> None:
        """End it and everything it started, at once."""
        self._killed = True
        if self._program is not None:
            self._program.kill()

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self._program is not None and not self._program.ending()

    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""
        return "" if self._program is None else self._program.last_words()

    def ending(self) -> str:
        """Why it is gone, half a sentence."""
        return "" if self._program is None else self._program.ending()

    def _started(self) -> InsideProgram:
        if self._program is None:
            message = "the program is not started"
            raise CLIConnectionError(message)
        return self._program
