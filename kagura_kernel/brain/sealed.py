"""The sealed brain: the Claude program inside the box of its run, with its own tools there and its key outside.

The same program and the same SDK as on the host (`claude`), on another transport. Its service is a port of the box's
loopback, behind which the membrane adds the key and counts what answers cost; our tools reach it as before, over the
same conversation.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.brain.claude_auth import (
    INSTALL,
    ClaudeParts,
    has_key,
    program_file,
    signed_environ,
    sweep,
    what_is_missing,
)
from kagura_kernel.brain.in_box import SealedNeeds
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainEvent, Turn, all_images
from kagura_kernel.brain.sealed_command import ABOUT_THE_PLACE, box_environ, command_line
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.policy import PROGRAM_DIR

if TYPE_CHECKING:
    from kagura_kernel.brain.claude_talk import Talk

NAME = "sealed"
SERVICE = "https://api.anthropic.com"

_NO_KEY = (
    "it needs a key that can be added outside of the box: set ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN for a "
    "gateway, or have `kagura-kernel setup brain` put a key into the keychain. A sign-in "
    "of the Claude program is not lent to a box"
)
_HEADERS = {"ANTHROPIC_API_KEY": "x-api-key", "ANTHROPIC_AUTH_TOKEN": "authorization"}
_ELF = b"\x7fELF"


class SealedBrain(ClaudeParts):
    """Thinks with the Claude program in the box. May run several turns at once; each has a box of its own.

    In its directory a program is kept that lies among other files.
    """

    @property
    def name(self) -> str:
        """`sealed`."""
        return NAME

    def resolve_auth(self) -> AuthContext:
        """Whether there are a key and a program; looks for variables and at one file."""
        variable = self._variable()
        if variable is None:
            return AuthContext(ready=False, method="", reason=_NO_KEY)
        program = self._find()
        if why := self._why_no_program(program):
            return AuthContext(ready=False, method="" if program is None else "api key", reason=why)
        kept = "" if self._key is None or has_key(self._environ) else f"key from {self._key.place}"
        reason = f"{kept or f'{variable} is set'}, and stays outside of the box"
        return AuthContext(ready=True, method="api key", reason=reason)

    def capabilities(self) -> BrainCapabilities:
        """It streams and listens in the box; its conversation is gone with that, and its costs are counted outside."""
        return BrainCapabilities(streaming=True, sealed=True, listens=True, images=all_images)

    def sealed_needs(self) -> SealedNeeds:
        """Its program, its service and its key.

        Raises:
            BrainNotConfigured: one of them is missing.
        """
        auth = self.resolve_auth()
        variable, program = self._variable(), self._find()
        if not auth.ready or variable is None or program is None:
            message = f"The {self.name} brain cannot think: {auth.reason}."
            raise BrainNotConfigured(message)
        try:
            folder = shown_folder(program, self._state_dir)
        except OSError as error:
            message = f"The {self.name} brain cannot think: {self._state_dir} cannot be used ({error.strerror})."
            raise BrainNotConfigured(message) from error
        url = self._environ.get("ANTHROPIC_BASE_URL") or SERVICE
        return SealedNeeds(folder, PROGRAM_DIR, url, _HEADERS[variable], self._read_key)

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Think until done. Cancelling, or closing the iterator, ends the program and all that it has started.

        Raises:
            BrainNotConfigured: the key is not accepted, or this turn has no box to think in.
            BrainRefused: the service said no; `status` is its HTTP status.
            BrainLost: the program is missing in the box, died, or fell silent.
        """
        variable = self._variable()
        if turn.inside is None or variable is None:
            message = f"The {self.name} brain thinks in the box of a run, with a key outside, and has neither here."
            raise BrainNotConfigured(message)
        if turn.max_turns is not None and turn.max_turns <= 0:
            yield BrainDone(stopped="turns")
            return
        key = await self._read_key()
        # Imported late and beside the loop, as for the brain on the host.
        talking = await asyncio.to_thread(import_module, "kagura_kernel.brain.claude_sealed_talk")
        talk: Talk = talking.sealed_talk(
            turn,
            command_line(turn),
            box_environ(turn.inside, _HEADERS[variable], max_retries=self._max_retries),
            system=turn.system + ABOUT_THE_PLACE,
            secrets=[key],
            silence=self._silence,
        )
        try:
            async with aclosing(talk.events()) as events:
                async for event in events:
                    yield event
        finally:
            await talk.stop()

    def _variable(self) -> str | None:
        kept = None if self._key is None else "ANTHROPIC_API_KEY"
        return next((name for name in _HEADERS if self._environ.get(name)), kept)

    async def _read_key(self) -> str:
        environ = await signed_environ(self.name, self._environ, self._key)
        return environ[self._variable() or "ANTHROPIC_API_KEY"]

    def _find(self) -> Path | None:
        program = program_file(self._program, self._environ)
        return None if program is None else program.resolve()

    def _why_no_program(self, program: Path | None) -> str:
        if (missing := what_is_missing(self._program, self._environ)) or program is None:
            return missing
        try:
            with program.open("rb") as file:
                native = file.read(len(_ELF)) == _ELF
        except OSError as error:
            return f"the Claude program cannot be read ({error.strerror})"
        return "" if native else f"{program} does not run by itself in a box of Linux: {INSTALL}"


def shown_folder(program: Path, state_dir: Path) -> Path:
    """A folder that holds the program and nothing private, absolute and without links.

    The one that came with the SDK has a folder of its own. Any other lies among files that no box should see, so a
    copy of it is kept here, by a name that changes when the program does; those of earlier programs go.

    Raises:
        OSError: it cannot be copied.
    """
    if program.parent.name == "_bundled" and program.name == "claude":
        return program.parent
    found = program.stat()
    folder = state_dir / f"program-{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"
    if not (folder / "claude").is_file():
        _copy(program, folder)
    # Its time says when it was last used.
    with suppress(OSError):
        os.utime(folder)
        sweep(state_dir)
    return folder.resolve()


def _copy(program: Path, folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".program-", dir=folder.parent))
    try:
        shutil.copyfile(program, part / "claude")
        for path in (part, part / "claude"):
            path.chmod(0o755)
        part.replace(folder)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        # Another run may have been faster.
        if not (folder / "claude").is_file():
            raise
