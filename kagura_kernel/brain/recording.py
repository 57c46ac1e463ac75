"""Recording: a brain that is another brain and writes its side of the run to a cassette.

The cassette holds what the brain said and which tools it called with which arguments, as they were; nothing is taken
out of it. What the tools answered is not in it. Only a run that came to its end leaves a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kagura_kernel.brain.cassette import Called, CassetteHeader, Counted, Spoken, entry_line, header_line
from kagura_kernel.brain.cassette_file import open_plain, starts_as_cassette
from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainProvider,
    BrainText,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.errors import BrainError, UsageError
from kagura_kernel.domain.tools import ToolCall, ToolResult


class RecordingBrain:
    """Another brain, recorded. It behaves as that one does; each run replaces the cassette."""

    def __init__(self, inner: BrainProvider, path: Path) -> None:
        """A recorder.

        Args:
            inner: The brain that thinks.
            path: Where the cassette goes when a run has ended; until then nothing changes there. A link is followed,
                and a relative one counts from where this process stands now.

        Raises:
            UsageError: no cassette can be written there; see `check_recording`.
        """
        check_recording(path)
        self._inner = inner
        self._path = path.resolve()

    @property
    def name(self) -> str:
        """The other brain's name."""
        return self._inner.name

    def resolve_auth(self) -> AuthContext:
        """How the other brain would sign in."""
        return self._inner.resolve_auth()

    def capabilities(self) -> BrainCapabilities:
        """What the other brain can do."""
        return self._inner.capabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Run the other brain and write as it goes.

        Raises:
            UsageError: the cassette cannot be written there; found before the brain is started.
            KaguraError: what the other brain raises.
        """
        tape = _Tape(self._path)
        header = CassetteHeader(datetime.now(UTC).isoformat(timespec="seconds"), self.name, turn.model, turn.task)
        tape.write(header_line(header))
        calls = _CallGroups(turn, tape)
        events = self._inner.run(replace(turn, call_tool=calls.call))
        try:
            async for event in events:
                _record(tape, event)
                if isinstance(event, BrainDone):
                    tape.keep()
                yield event
        finally:
            # The protocol promises an iterator; one that can be closed must be, or its program would live on.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()


def _record(tape: _Tape, event: BrainEvent) -> None:
    match event:
        case BrainText(text, partial=False):
            tape.write(entry_line(Spoken(text)))
        case BrainUsage(usage, model):
            tape.write(entry_line(Counted(usage, model)))
        case BrainDone():
            tape.write(entry_line(event))
        case _:
            return


class _CallGroups:
    """Calls that were under way at once are one group, written where its first call began."""

    def __init__(self, turn: Turn, tape: _Tape) -> None:
        self._turn = turn
        self._tape = tape
        self._group: list[ToolCall] = []
        self._under_way = 0
        self._place = 0

    async def call(self, call: ToolCall) -> ToolResult:
        """`Turn.call_tool`, noted."""
        if self._under_way == 0:
            self._group = []
            self._place = self._tape.place()
        self._group.append(call)
        self._tape.put(self._place, entry_line(Called(tuple(self._group))))
        self._under_way += 1
        try:
            return await self._turn.call_tool(call)
        finally:
            self._under_way -= 1


def check_recording(path: Path) -> None:
    """Make sure that a cassette could be written at a place now; nothing is changed there.

    Raises:
        UsageError: its folder is missing or cannot be written, or something lies there that is no cassette.
    """
    if why := _why_not(path):
        message = f"The cassette {path} cannot be written: {why}. Nothing was changed; record to another place."
        raise UsageError(message)


def _why_not(path: Path) -> str:
    try:
        path = path.resolve()
        # A real attempt: rights alone say nothing about a read-only disk. The file never gets a name.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except FileNotFoundError:
        return "its folder is missing, or takes no files"
    except NotADirectoryError:
        return "its folder is a file"
    except (OSError, RuntimeError, ValueError) as error:
        return f"its folder cannot be used ({getattr(error, 'strerror', None) or error})"
    try:
        path.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"its name cannot be used ({error.strerror})"
    return _why_not_over(path)


def _why_not_over(path: Path) -> str:
    if path.is_dir():
        return "it is a folder"
    if not os.access(path, os.W_OK):
        return "it may not be written"
    try:
        with open_plain(path) as file:
            return "" if starts_as_cassette(file) else "what lies there is no cassette"
    except BrainError:
        return "what lies there is no cassette, or may not be read"


class _Tape:
    """The lines so far. Nothing is on the disk before the end, where a box could see it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        check_recording(path)

    def write(self, line: str) -> None:
        self._lines.append(line)

    def place(self) -> int:
        self._lines.append("")
        return len(self._lines) - 1

    def put(self, place: int, line: str) -> None:
        self._lines[place] = line

    def keep(self) -> None:
        """Make it the cassette, whole or not at all."""
        # The run may have taken minutes, in which somebody may have put something of his own there.
        if why := _why_not(self._path):
            raise self._failed(why)
        part: Path | None = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self._path.parent, prefix=".cassette-", delete=False
            ) as file:
                part = Path(file.name)
                file.writelines(f"{line}\n" for line in self._lines)
            part.replace(self._path)
        except BaseException as error:
            if part is not None:
                part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise self._failed(error.strerror or str(error)) from error
            raise

    def _failed(self, why: str) -> UsageError:
        return UsageError(f"The cassette {self._path} could not be written: {why}. The run itself has ended.")
