"""A server's bridge in the box: one command, and the one connection that it makes to the host."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commands import Command, CommandResult, OutputChunk
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.plugins.jail.box import JailLog
from kagura_kernel.sandbox.backend import Box, GuestStream, Listener
from kagura_kernel.tools.toolsets.foreign_tools import Breach

PACKAGE = "kagura_kernel.tools.bridge"
MODULES = ("messages", "program", "remote", "main")
"""Of the bridge; each is compiled in the box when it is first imported."""

_PACKAGES = ("kagura_kernel", "kagura_kernel.tools", PACKAGE)

STUB = """
import json, sys

packages, sources, start = json.loads(sys.stdin.buffer.read().decode("ascii"))
waiting = dict(sources)
ModuleSpec = type(sys.__spec__)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in packages:
            return ModuleSpec(name, Finder, is_package=True)
        return ModuleSpec(name, Finder) if name in waiting else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        if name in waiting:
            exec(compile(waiting[name], "<%s>" % name, "exec", dont_inherit=True), module.__dict__)

sys.meta_path.insert(0, Finder)
from kagura_kernel.tools.bridge.main import main
code = main(start)
sys.stderr.flush()
import os
os._exit(code)
"""


def bridge_argv() -> tuple[str, ...]:
    """The command that waits for a bridge on its standard input, and becomes it."""
    return ("python3", "-I", "-S", "-B", "-u", "-c", STUB)


def bridge_payload(start: Mapping[str, Any]) -> bytes:
    """What has to stand on that command's standard input, to its end."""
    return json.dumps((_PACKAGES, _sources(), start), ensure_ascii=True).encode("ascii")


@cache
def _sources() -> tuple[tuple[str, str], ...]:
    folder = resources.files(PACKAGE)
    return tuple((f"{PACKAGE}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in MODULES)


_NO_LIMITS = CommandLimits(total=None, idle=None)
_CHUNK = 64 * 1024
_TOKEN = 16
_TOKEN_SECONDS = 10.0
_END_SECONDS = 1.0
_LAST_WORDS = 5.0
_KILLED = 9
_NOT_FOUND = 127

Heard = Callable[[bytes], Awaitable[None]]
"""Takes what came, in order; raises `Breach` for what no good server sends."""

Over = Callable[[str], None]
"""Told once why it is over, half a sentence."""


@dataclass(eq=False, repr=False)
class Boxed:
    """A bridge and what is behind it; made on the box's loop, opened once."""

    name: str  # The toolset's
    box: Box  # The run's
    start: Mapping[str, Any]  # What is bridged; see `bridge.main.main`
    heard: Heard  # Takes what the server sends
    over: Over  # Told when it is over
    _: KW_ONLY
    clock: Clock  # Measures how fast it complains
    log_bytes: int  # Kept of what it writes to its standard error

    def __post_init__(self) -> None:
        self._log = JailLog(self.log_bytes, self.clock)
        self._token = secrets.token_hex(_TOKEN)
        self._stream: GuestStream | None = None
        self._connected = asyncio.Event()
        self._ending = ""
        self._closing = False
        self._heard_all = asyncio.Event()
        self._command: asyncio.Task[None] | None = None
        self._write_turn = asyncio.Lock()

    @property
    def log(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._log.text

    @property
    def ending(self) -> str:
        """Why it is over, half a sentence; empty while it is not."""
        return self._ending

    async def open(self) -> None:
        """Start the bridge, and wait until it has connected or is over.

        Raises:
            SandboxError: the box is gone, or has no port.
        """
        port = await self.box.listen(Listener(0, "raw", f"toolset {self.name}"), self._serve, self._failed)
        start = {**self.start, "port": port, "token": self._token}
        self._command = asyncio.create_task(self._run(bridge_payload(start)), name=f"toolset {self.name}")
        connected = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait({connected, self._command}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()

    async def write(self, data: bytes) -> None:
        """Hand over bytes; returns when there is room for more.

        Raises:
            OSError: it is over.
        """
        async with self._write_turn:
            if self._stream is None or self._ending or self._closing:
                raise ConnectionResetError(self._ending or "it is not connected")
            await self._stream.write(data)

    def end(self, why: str) -> None:
        """It is over; only the first reason stands. `close` frees what it holds."""
        if not self._ending and self._command is not None:
            self._command.cancel()
        self._finish(why)

    async def close(self) -> None:
        """Let it end by itself for a moment, then end it; nothing of it is left in the box. May be called twice."""
        if self._command is None:
            self.end("it was closed")
            return
        self._closing = True
        # One that does not even read what it was sent will not read that there is no more of it.
        if not self._ending and self._stream is not None and not self._write_turn.locked():
            with suppress(OSError):
                await self._stream.write_eof()
            await asyncio.wait({self._command}, timeout=_END_SECONDS)
        self.end("it was closed")
        await asyncio.wait({self._command})

    # ------------------------------------------------------------------ within

    @property
    def _taken(self) -> bool:
        return self._stream is not None or bool(self._ending)

    async def _serve(self, stream: GuestStream) -> None:
        if self._taken:
            await stream.refuse(503, "this port has its one connection")
            return
        await stream.accept()
        rest = await self._introduced(stream)
        if rest is None or self._taken:
            stream.abort()
            return
        self._stream = stream
        self._connected.set()
        await self._listen(stream, rest)

    async def _introduced(self, stream: GuestStream) -> bytes | None:
        """What came after the token; None from anybody but the bridge."""
        token = self._token.encode("ascii")
        said = b""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TOKEN_SECONDS):
                while len(said) < len(token):
                    data = await stream.read(_CHUNK)
                    if not data:
                        return None
                    said += data
        return said[len(token) :] if hmac.compare_digest(said[: len(token)], token) else None

    async def _listen(self, stream: GuestStream, data: bytes) -> None:
        try:
            if data:
                await self.heard(data)
            while data := bytes(await stream.read(_CHUNK)):
                await self.heard(data)
        except Breach as breach:
            self.end(str(breach))
        except OSError:
            # The reason is what the end of its program says.
            pass
        self._heard_all.set()
        if not self._ending and self._command is not None:
            await asyncio.wait({self._command}, timeout=_LAST_WORDS)
        self.end("it hung up")

    async def _run(self, payload: bytes) -> None:
        command = Command(bridge_argv(), stdin=payload, limits=_NO_LIMITS, keep_bytes=1024)
        try:
            result = await self.box.run(command, self._printed)
            why = _why(result)
        except KaguraError as error:
            why = await self.box.wait_closed() or error.message
        if self._stream is not None:
            # What it said before its end may still be on its way.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await self._heard_all.wait()
        self._finish(why)

    def _finish(self, why: str) -> None:
        if self._ending:
            return
        self._ending = why
        if self._stream is not None:
            self._stream.abort()
        self.over(why)

    def _printed(self, chunk: OutputChunk) -> None:
        if not self._log.add(chunk.data):
            self.end("it wrote to its standard error without end")

    def _failed(self, error: BaseException) -> None:
        self.end(f"serving it failed ({type(error).__name__})")


def _why(result: CommandResult) -> str:
    if result.exit_code == _NOT_FOUND:
        # Whether the bridge has connected says nothing: it may have ended before that was heard.
        no_bridge = result.stderr.data.strip() == f"{bridge_argv()[0]}: command not found".encode()
        return "there is no python3 in its box" if no_bridge else "its program is not in the box"
    if result.signal == _KILLED or result.exit_code == 128 + _KILLED:
        return "its program was killed"
    if result.exit_code > 128:  # noqa: PLR2004 - what a shell makes of a signal
        return f"signal {result.exit_code - 128} ended its program"
    return f"its program ended with exit code {result.exit_code}"
