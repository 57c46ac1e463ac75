"""Brains of cassettes: one that replays what another said, and one that is another and writes down its side of the run.

A replay costs nothing: no tokens are counted and the reported cost is 0, so that a ledger never counts the recorded
money again. It does not look at a budget or a limit of turns, since it ends where the recording ended.

The cassette holds the task, what the brain said, what it was told meanwhile, and which tools it called with which
arguments, without the secrets that were found in them. What the tools answered is not in it. Only a run that came to
its end leaves a file.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kagura_kernel.brain.cassette import (
    Called,
    Cassette,
    CassetteHeader,
    Counted,
    Heard,
    Spoken,
    entry_line,
    header_line,
    open_plain,
    read_cassette,
    starts_as_cassette,
)
from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainHeard,
    BrainProvider,
    BrainText,
    BrainUsage,
    Turn,
    all_images,
)
from kagura_kernel.domain.errors import BrainError, UsageError
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall, ToolResult


class ReplayBrain:
    """Plays one cassette, as often as it is asked to."""

    def __init__(self, path: Path, *, delay: float = 0.0) -> None:
        """A player; the file is looked at when a run begins.

        Args:
            path: The cassette.
            delay: Seconds between two words, for showing how a run looks; 0 gives every text at once.
        """
        self._path = path
        self._delay = delay

    @property
    def name(self) -> str:
        """`replay`."""
        return "replay"

    def resolve_auth(self) -> AuthContext:
        """Ready when the file is there."""
        if self._path.is_file():
            return AuthContext(ready=True, method="none needed", reason=f"{self._path} is played")
        return AuthContext(ready=False, method="none needed", reason=f"there is no cassette {self._path}")

    def capabilities(self) -> BrainCapabilities:
        """It says what it costs, which is nothing, and is shown whatever another brain would be."""
        return BrainCapabilities(streaming=self._delay > 0, reports_cost=True, images=all_images)

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Play the cassette. The whole file is checked before its first word.

        Raises:
            CassetteMissing: there is no such file.
            CassetteBroken: it cannot be read, or calls a tool that this run does not have.
        """
        cassette = read_cassette(self._path, [tool.name for tool in turn.tools])
        for entry in cassette.entries:
            if isinstance(entry, Spoken):
                for piece in self._pieces(entry.text):
                    yield BrainText(piece, partial=True)
                    await asyncio.sleep(self._delay)
                yield BrainText(entry.text)
            elif isinstance(entry, Heard):
                yield BrainHeard(entry.text)
            elif isinstance(entry, Called):
                # Ids are new in each run: two replays of one cassette are two different sets of calls.
                await turn.call_at_once([replace(call, id=new_call_id()) for call in entry.calls])
        yield _done(cassette)

    def _pieces(self, text: str) -> Iterator[str]:
        if self._delay > 0:
            words = text.split(" ")
            yield from (f"{word} " for word in words[:-1])
            yield words[-1]


def _done(cassette: Cassette) -> BrainDone:
    end = cassette.finished
    return BrainDone(text=end.text, reported_usd=0.0, model=end.model, turns=end.turns, stopped=end.stopped)


def open_cassette(path: Path) -> tuple[ReplayBrain, str]:
    """A player for a cassette that was looked at, and the task that was recorded.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is no cassette, of another version, or cut short.
    """
    return ReplayBrain(path), read_cassette(path).header.task


Redact = Callable[[Any], Any]
"""A text, or a mapping with texts in it, without its secrets; of the same type. It may take a while."""
Line = CassetteHeader | Spoken | Heard | Called | Counted | BrainDone


class RecordingBrain:
    """Another brain, recorded. It behaves as that one does; each run replaces the cassette."""

    def __init__(self, inner: BrainProvider, path: Path, redact: Redact) -> None:
        """A recorder.

        Args:
            inner: The brain that thinks.
            path: Where the cassette goes when a run has ended; until then nothing changes there. A link is followed,
                and a relative one counts from where this process stands now.
            redact: What the task, texts and arguments go through before they are written, beside the loop.

        Raises:
            UsageError: no cassette can be written there; see `check_recording`.
        """
        check_recording(path)
        self._inner = inner
        self._path = path.resolve()
        self._redact = redact

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
        tape = _Tape(self._path, self._redact)
        shown = "\n".join(f"{image.name} sha256:{image.sha256}" for image in turn.images)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        header = CassetteHeader(at, self.name, turn.model, turn.task, shown)
        tape.write(header)
        calls = _CallGroups(turn, tape)
        events = self._inner.run(replace(turn, call_tool=calls.call))
        try:
            async for event in events:
                _record(tape, event)
                if isinstance(event, BrainDone):
                    # Looking for secrets may wait for its rules, and must not keep the loop waiting.
                    await asyncio.to_thread(tape.keep)
                yield event
        finally:
            # The protocol promises an iterator; one that can be closed must be, or its program would live on.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()


def _record(tape: _Tape, event: BrainEvent) -> None:
    match event:
        case BrainText(text, partial=False):
            tape.write(Spoken(text))
        case BrainHeard(text):
            tape.write(Heard(text))
        case BrainUsage(usage, model):
            tape.write(Counted(usage, model))
        case BrainDone():
            tape.write(event)
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
            self._place = self._tape.write(Called(()))
        # What a tool makes of its arguments is not what the brain said.
        self._group.append(replace(call, arguments=deepcopy(dict(call.arguments))))
        self._tape.put(self._place, Called(tuple(self._group)))
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


def _written(line: Line) -> str:
    return header_line(line) if isinstance(line, CassetteHeader) else entry_line(line)


def _without_secrets(line: Line, redact: Redact) -> Line:
    """The same line; names, ids and figures are none and stay, since a replay goes by them."""
    match line:
        case CassetteHeader(task=task):
            return replace(line, task=redact(task))
        case Spoken(text):
            return Spoken(redact(text))
        case Heard(text):
            return Heard(redact(text))
        case Called(calls):
            return Called(tuple(replace(call, arguments=redact(dict(call.arguments))) for call in calls))
        case BrainDone(text=text):
            return replace(line, text=redact(text))
        case Counted():
            return line


class _Tape:
    """The lines so far. Nothing is on the disk before the end, where a box could see it."""

    def __init__(self, path: Path, redact: Redact) -> None:
        self._path = path
        self._redact = redact
        self._lines: list[Line] = []
        check_recording(path)

    def write(self, line: Line) -> int:
        """Add a line; returns its number."""
        self._lines.append(line)
        return len(self._lines) - 1

    def put(self, number: int, line: Line) -> None:
        self._lines[number] = line

    def keep(self) -> None:
        """Make it the cassette, whole or not at all."""
        # The run may have taken minutes, in which somebody may have put something of his own there.
        if why := _why_not(self._path):
            raise self._failed(why)
        lines = [_written(_without_secrets(line, self._redact)) for line in self._lines]
        part: Path | None = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self._path.parent, prefix=".cassette-", delete=False
            ) as file:
                part = Path(file.name)
                file.writelines(f"{line}\n" for line in lines)
            part.replace(self._path)
        except BaseException as error:
            if part is not None:
                part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise self._failed(error.strerror or str(error)) from error
            raise

    def _failed(self, why: str) -> UsageError:
        return UsageError(f"The cassette {self._path} could not be written: {why}. The run itself has ended.")
