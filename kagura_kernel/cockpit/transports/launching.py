"""Beginning a run from a thread: named beforehand, so that it can be stopped, and found again, at any moment."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.attaching import LiveFeed
from kagura_kernel.cockpit.transports.followers import Followers
from kagura_kernel.cockpit.transports.telling import one_line
from kagura_kernel.cockpit.transports.transport import SentFile, Turn
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.variables import MAX_VARIABLES, PackedVariable
from kagura_kernel.journal.chats import ChatBook
from kagura_kernel.runs.request import RunRequest

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

LATER = "The server is being stopped and begins nothing new. Say it again once it is back."

_AT_ONCE = 2
"""Runs that one chat sets going at the same time: threads are left for a stop, which must not wait for them."""


class NotBegun(Exception):
    """A run is not begun; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A run to be begun."""

    message_id: str  # What asks for it
    session: str  # The session of its thread
    by: str  # Who asks
    turn: Turn  # Its place in the thread, and its name
    task: str = ""  # What to do
    files: Sequence[SentFile] = ()  # What was sent along
    resume: str = ""  # The run that it goes on from, as a person names it; empty for a fresh one


@dataclass
class Launching:
    """Begins runs. Used on one loop."""

    cockpit: Cockpit  # What begins them
    followers: Followers  # Tells their threads
    book: ChatBook  # Where it is noted what a message has begun
    project: Path | None  # Their project; None is the working directory
    brain: str | None  # Their brain; None leaves it to the settings
    transport: str  # The chat's name, which the journal has as their origin
    draining: bool = False  # Whether nothing new is begun
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def begin(self, asked: Begin) -> None:
        """Set it going, and have its thread told of it from here on.

        Raises:
            NotBegun: it was stopped before it had begun, or the server is being stopped.
            KaguraError: it cannot be begun; the message says why.
        """
        run_id, thread = asked.turn.run_id, asked.turn.thread
        self._check(asked.turn)
        inputs = await self._inputs(asked.files)
        async with self._room:
            self._check(asked.turn)
            # Claimed first, so that it is not taken for one from elsewhere when it shows in the journal.
            self.followers.claim(run_id, thread)
            try:
                await asyncio.to_thread(self.book.began, asked.message_id, run_id)
                handle = await asyncio.to_thread(self.cockpit.launch, self._intent(asked, inputs))
            except BaseException:
                self.followers.release(run_id)
                raise
        if asked.turn.stopped_by:
            handle.kill(asked.turn.stopped_by)
        self.followers.follow(LiveFeed(handle), thread, asked.message_id)

    def _check(self, turn: Turn) -> None:
        if turn.stopped_by:
            raise NotBegun(f"{turn.run_id} was stopped before it had begun.")
        if self.draining:
            raise NotBegun(LATER)

    def _intent(self, asked: Begin, inputs: tuple[PackedVariable, ...]) -> RunRequest:
        return RunRequest(
            task=asked.task,
            session=asked.session,
            project=None if asked.resume else self.project,
            brain=None if asked.resume else self.brain,
            origin=self.transport,
            started_by=asked.by,
            run_id=asked.turn.run_id,
            inputs=inputs,
            resume=asked.resume or None,
        )

    async def _inputs(self, files: Sequence[SentFile]) -> tuple[PackedVariable, ...]:
        """Files that were sent along, as variables of the run: never as files of the project."""
        if len(files) > MAX_VARIABLES:
            raise UsageError(f"At most {MAX_VARIABLES} files go along with a message, not {len(files)}.")
        left = self.cockpit.room
        packed = []
        for number, file in enumerate(files, start=1):
            if file.size > left:
                raise UsageError(f"{one_line(file.name, 60)} does not fit: the files of one message have a limit.")
            data = await file.read(left)
            left -= len(data)
            shown = one_line(file.name, 80)
            words = re.sub(r"\W+", "_", shown, flags=re.ASCII).strip("_")[:60]
            name = f"file_{number}_{words}" if words else f"file_{number}"
            summary = f"the file {shown}, {len(data):,} bytes"
            packed.append(PackedVariable(name, "file", data, {"name": shown}, summary))
        return tuple(packed)
