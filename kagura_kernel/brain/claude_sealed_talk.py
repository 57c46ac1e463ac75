"""A talk with the program in a box; apart from the brain, which is made without the SDK.

What the program in a box says, in our words: its texts and the tools it used there, and no figures of its own.

Everything is the box's word. It is bounded here, in each piece and for the whole run, because a program that took the
brain's place could say anything, and as much of it as it likes.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from claude_agent_sdk import AssistantMessage, CLIConnectionError, Message, ToolResultBlock, ToolUseBlock, UserMessage

from kagura_kernel.brain.claude_auth import PREFIX
from kagura_kernel.brain.claude_events import Reading
from kagura_kernel.brain.claude_talk import ProgramTransport, Talk
from kagura_kernel.brain.in_box import InsideBox, InsideProgram
from kagura_kernel.brain.provider import (
    BrainDone,
    BrainEvent,
    BrainSession,
    BrainText,
    BrainToolCalled,
    BrainToolFinished,
    BrainUsage,
    Turn,
)
from kagura_kernel.brain.sealed_command import OWN_TOOLS
from kagura_kernel.domain.errors import BrainLost
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.images import Image, read_image
from kagura_kernel.domain.nesting import is_deeper_than

NAME = "sealed"

MOST_EVENTS = 100_000
"""Of a run, pieces of text not counted."""

MOST_CHARACTERS = 256 * 2**20
"""Of a run, pieces of text counted."""

LONGEST_TEXT = 200_000
LONGEST_RESULT = 30_000
LONGEST_ARGUMENTS = 60_000
DEEPEST = 60
_LONGEST_NAME = 64
_MOST_OPEN = 256


class SealedReading:
    """The messages of one run in a box, read in their order: a `Reader`."""

    def __init__(self, secrets: Sequence[str] = (), max_turns: int | None = None) -> None:
        """A run that has said nothing.

        Args:
            secrets: Texts that must not stand in an error.
            max_turns: The limit that the program was given.
        """
        self._reading = Reading(None, "", secrets, name=NAME)
        self._max_turns = max_turns
        self._under_way: dict[str, tuple[str, str]] = {}
        self._events = 0
        self._characters = 0

    @property
    def busy(self) -> bool:
        """Whether it uses a tool of its own."""
        return bool(self._under_way)

    def read(self, message: Message) -> Iterator[BrainEvent]:
        """The events in one message; `BrainDone` is the last.

        Raises:
            BrainNotConfigured: the key is not accepted.
            BrainRefused: the service said no.
            BrainLost: the program failed, or said more than a brain would.
        """
        for event in self._reading.read(message):
            match event:
                case BrainUsage() | BrainSession():
                    continue  # counted outside; and its conversation is gone with the box
                case BrainText(text, partial):
                    yield BrainText(self._bounded(text, LONGEST_TEXT, counts=not partial), partial)
                case BrainDone():
                    yield self._done(event)
                case _:
                    yield event
        yield from self._own_tools(message)

    def _done(self, done: BrainDone) -> BrainDone:
        text = shortened(done.text, LONGEST_TEXT)
        if done.stopped == "turns":
            return BrainDone(text=text, turns=self._max_turns or 0, stopped="turns")
        return BrainDone(text=text, turns=0)

    def _own_tools(self, message: Message) -> Iterator[BrainEvent]:
        match message:
            case AssistantMessage(error=None, content=blocks):
                for block in blocks:
                    if isinstance(block, ToolUseBlock) and not block.name.startswith(PREFIX):
                        yield self._called(block)
            case UserMessage(content=list() as blocks):
                for block in blocks:
                    if isinstance(block, ToolResultBlock) and block.tool_use_id in self._under_way:
                        yield self._finished(block)

    def _called(self, block: ToolUseBlock) -> BrainToolCalled:
        # Our own ids: those of the box could be anybody's.
        call_id, name = new_call_id(), _plain(block.name)
        if len(self._under_way) >= _MOST_OPEN:
            raise BrainLost(NAME, "its program began more than it could end")
        self._under_way[block.id] = call_id, name
        arguments = _arguments(block.input)
        self._count(len(json.dumps(arguments)))
        return BrainToolCalled(call_id, name, arguments, known=name in OWN_TOOLS)

    def _finished(self, block: ToolResultBlock) -> BrainToolFinished:
        call_id, name = self._under_way.pop(block.tool_use_id)
        text = self._bounded(_text(block.content), LONGEST_RESULT)
        images = tuple(_images(block.content))
        self._count(0, events=len(images))
        return BrainToolFinished(
            call_id, name, text, is_error=bool(block.is_error), known=name in OWN_TOOLS, images=images
        )

    def _bounded(self, text: str, most: int, *, counts: bool = True) -> str:
        short = shortened(text, most)
        self._count(len(short), events=int(counts))
        return short

    def _count(self, characters: int, events: int = 1) -> None:
        self._events += events
        self._characters += characters
        if self._events > MOST_EVENTS or self._characters > MOST_CHARACTERS:
            raise BrainLost(NAME, "its program said more than anybody could read")


def shortened(text: str, most: int) -> str:
    """The text, its middle left out where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def _arguments(given: Any) -> Mapping[str, Any]:
    """A call's arguments as they are, or their beginning where they are too long or too deep."""
    if not isinstance(given, dict) or is_deeper_than(given, DEEPEST):
        return {"left_out": "arguments that are nested too deeply"}
    said = json.dumps(given, ensure_ascii=False)
    if len(said) <= LONGEST_ARGUMENTS:
        return given
    return {"shortened": shortened(said, LONGEST_ARGUMENTS // 2)}


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part(part) for part in content)


def _images(content: str | list[dict[str, Any]] | None) -> Iterator[Image]:
    """The images in a result; what is none is passed over."""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "image", "source": {"type": "base64", "data": str() as data}}:
                with suppress(ValueError):  # no base64, or no image
                    yield read_image(base64.b64decode(data, validate=True))


def _part(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"({_plain(str(part.get('type', 'something')))})"


def _plain(name: str) -> str:
    return "".join(sign for sign in name[:_LONGEST_NAME] if sign.isprintable()) or "?"


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


def sealed_talk(
    turn: Turn,
    line: Sequence[str],
    environ: Mapping[str, str],
    *,
    system: str,
    secrets: Sequence[str],
    silence: float,
) -> Talk:
    """A talk that has not begun.

    Args:
        turn: What to do, with its box.
        line: The program and its arguments.
        environ: What it finds in its environment beside the box's own.
        system: What is added to its system prompt.
        secrets: Texts that must not stand in an error message.
        silence: Seconds without a word, and without a tool under way, after which it counts as lost.
    """
    if turn.inside is None:
        message = "a sealed brain needs the box of its run"
        raise ValueError(message)
    program = SealedProgram(turn.inside, line, environ, system)
    reading = SealedReading(secrets, turn.max_turns)
    return Talk(turn, program, reading, secrets=secrets, silence=silence, name=NAME)
