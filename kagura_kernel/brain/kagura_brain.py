"""The kagura_brain brain: the public package kagura-brain, which starts Claude Code, Codex, or Codex with Ollama.

The package is a launcher: a prompt goes in, and when the agent is done a text comes out. So nothing streams. The
agents have tools and settings of their own, which are all switched off (see `kagura_brain_programs`); ours reach them
over MCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kagura_kernel.brain.claude_command import with_death_signal
from kagura_kernel.brain.kagura_brain_programs import NAME, Access, Place, Program, access, arguments, find
from kagura_kernel.brain.kagura_brain_reading import Printed, Said, read_claude, read_codex
from kagura_kernel.brain.kagura_brain_tools import ToolSocket
from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainText,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, NotThisTime

INSTALL = "pip install 'kagura-kernel[brain]'"
"""What brings the package."""

_LAUNCHER = Path(__file__).with_name("kagura_brain_launcher.py")
_LONGEST_PLACE = 60  # characters; the path of a socket may have about a hundred

_PREFIX = "kagura-brain-"
_FORGOTTEN = 8 * 86_400  # seconds; longer than any run may take

_NOT_CHOSEN = "no program is chosen: set `brain_program` to claude, codex or ollama"


class KaguraBrain:
    """Thinks with the agent that the settings name. May run several turns at once; each has a process of its own."""

    def __init__(
        self, environ: Mapping[str, str], program: str = "", *, file: Path | None = None, max_retries: int = 4
    ) -> None:
        """A brain that has started nothing.

        Args:
            environ: The environment to sign in with; never this process's own unless it is handed in here.
            program: `claude`, `codex` or `ollama`; empty where none is chosen.
            file: Where the program is; None looks for it.
            max_retries: How often Claude Code asks an overloaded service again, with growing pauses.
        """
        self._environ = dict(environ)
        self._chosen = program
        self._file = file
        self._max_retries = max_retries

    @property
    def name(self) -> str:
        """`kagura_brain`."""
        return NAME

    def resolve_auth(self) -> AuthContext:
        """How it would sign in; looks for the package, the program, variables and a file."""
        if not self._chosen:
            return AuthContext(ready=False, method="", reason=_NOT_CHOSEN)
        if find_spec("kagura_brain") is None:
            return AuthContext(ready=False, method="program", reason=f"its package is missing: {INSTALL}")
        program = self._program()
        if program.file is None:
            return AuthContext(ready=False, method="program", reason=f"the program {program.backend} is not installed")
        found = access(program, self._environ).auth
        return AuthContext(ready=found.ready, method=found.method, reason=f"{self._chosen}: {found.reason}")

    def capabilities(self) -> BrainCapabilities:
        """It neither streams nor resumes; Claude Code reports its cost and keeps to a budget."""
        claude = self._chosen == "claude"
        return BrainCapabilities(streaming=False, reports_cost=claude, budget=claude)

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Think until done. Cancelling, or closing the iterator, ends the program and its whole process group.

        Raises:
            BrainNotConfigured: no program is chosen, it is not there, or it cannot sign in.
            BrainRefused: its service said no; `status` is its HTTP status where it says so.
            BrainLost: the program died, or printed what cannot be understood.
            NotThisTime: a limit was set that its program cannot keep; nothing was asked.
        """
        if (stopped := _spent_already(turn)) is not None:
            yield stopped
            return
        auth = self.resolve_auth()
        if not auth.ready:
            message = f"The {NAME} brain cannot think: {auth.reason}."
            raise BrainNotConfigured(message)
        program = self._program()
        if program.backend != "claude" and (turn.budget_usd is not None or turn.max_turns is not None):
            raise NotThisTime(
                f"{self._chosen.title()} keeps neither to `--budget` nor to `--max-turns`, and tells what it used when "
                "it is done. Leave them out, or use another brain."
            )
        found = access(program, self._environ)
        said = await self._think(turn, program, found)
        model = said.model or turn.model or self._chosen
        if said.text:
            yield BrainText(said.text)
        if said.usage != Usage():
            yield BrainUsage(said.usage, model)
        yield BrainDone(
            text=said.text,
            reported_usd=said.reported_usd,
            usage=said.usage,
            model=model,
            turns=said.turns,
            stopped=said.stopped,
        )

    def _program(self) -> Program:
        return Program(self._chosen, self._file) if self._file is not None else find(self._chosen, self._environ)

    async def _think(self, turn: Turn, program: Program, found: Access) -> Said:
        usual = tempfile.gettempdir()
        where = usual if len(usual) <= _LONGEST_PLACE else "/tmp"  # noqa: S108 - a directory of ours is made in it
        await asyncio.to_thread(_sweep, Path(where))
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
        try:
            place = Place(root)
            try:
                lay = partial(place.lay, program, turn, self._environ, max_retries=self._max_retries)
                await asyncio.to_thread(lay)
            except OSError as error:
                raise BrainLost(NAME, f"{program.backend} cannot be started ({error.strerror})") from error
            printed = await _Run(turn, program, found, place, self._environ).printed()
        finally:
            shutil.rmtree(root, ignore_errors=True)
        if program.backend == "claude":
            return read_claude(printed, [found.key])
        return read_codex(printed, [found.key], tools=bool(turn.tools))


class _Run:
    """The process of one turn, and the tools it is given."""

    def __init__(self, turn: Turn, program: Program, found: Access, place: Place, environ: Mapping[str, str]) -> None:
        self._wanted = arguments(program, found, place, turn)
        self._environ = place.environ(program, found, environ)
        self._place = place
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tools = ToolSocket(turn, self._fail)

    async def printed(self) -> Printed:
        """What the program printed. Cancelled, it and everything it started are gone when this ends.

        Raises:
            Exception: what a call of a tool raised.
        """
        await self._tools.listen(self._place.socket)
        process: asyncio.subprocess.Process | None = None
        talk: asyncio.Task[tuple[bytes, bytes]] | None = None
        try:
            process = await asyncio.create_subprocess_exec(
                *with_death_signal([sys.executable, "-I", str(_LAUNCHER)]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environ,
                cwd=self._place.work,
                start_new_session=True,
            )
            talk = asyncio.create_task(process.communicate(json.dumps(self._wanted).encode()))
            either: set[asyncio.Future[Any]] = {talk, self._failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            out, err = talk.result()
            return _printed(process.returncode or 0, out, err)
        finally:
            if process is not None:
                await _end(process, talk)
            await self._tools.stop()
            if not self._failed.done():
                self._failed.cancel()

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


async def _end(process: asyncio.subprocess.Process, talk: asyncio.Task[tuple[bytes, bytes]] | None) -> None:
    """Everything in its process group is gone when this returns, also where it is cancelled meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    waiting = asyncio.ensure_future(process.wait())
    tasks: set[asyncio.Future[Any]] = {waiting} if talk is None else {waiting, talk}
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _sweep(where: Path) -> None:
    """Remove what runs left whose kernel was killed."""
    for place in where.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = place.lstat()
            if found.st_uid == os.getuid() and found.st_mtime < time.time() - _FORGOTTEN:
                shutil.rmtree(place)


def _printed(code: int, out: bytes, err: bytes) -> Printed:
    try:
        found = json.loads(out)
        return Printed(int(found["returncode"]), str(found["stdout"]), str(found["stderr"]))
    except (ValueError, KeyError, TypeError):
        return Printed(code, "", err.decode(errors="replace")[-2000:])


def _spent_already(turn: Turn) -> BrainDone | None:
    """The end of a turn that may not even begin; the programs would take these limits for mistakes."""
    if turn.budget_usd is not None and turn.budget_usd <= 0:
        return BrainDone(reported_usd=0.0, stopped="budget")
    if turn.max_turns is not None and turn.max_turns <= 0:
        return BrainDone(reported_usd=0.0, stopped="turns")
    return None
