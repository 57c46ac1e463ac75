"""One box for many tests: it goes on to the next one only if the last has left it exactly as it was.

Starting a box is what most tests of boxes spend their time on. A test that fails, ends its box, changes the project,
leaves a process behind or changes a file that was there gets no successor in that box: the next one has a new one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend

_LOOK = r"""
set -- /proc/[0-9]*
printf 'processes\0%s\0' $#
find . /tmp /dev/shm "$HOME" -xdev -path ./.git -prune -o \
  -type d -printf '%p\0d %m\0' -o -printf '%p\0%y %m %s %l\0' 2>/dev/null
"""
"""Prints how many processes there are, and every file where a command could have made one: name, description, ..."""

_FEW = 200
"""Things left in the workspace beyond which a new box is the quicker broom."""

_PAUSES = (0.0, 0.05, 0.2)
"""Seconds: a process that has been ended may take a moment to be gone."""


class Lender:
    """Starts a box when there is none to be had, lends it, and looks at what comes back.

    Args:
        start: Starts a box.
        project: The folder of the host that the box shows.
    """

    def __init__(self, start: Callable[[], Awaitable[Box]], project: Path) -> None:
        self.start = start
        self.project = project
        self._box: Box | None = None
        self._host: dict[str, tuple[int, bytes]] = {}
        self._seen: dict[bytes, bytes] = {}

    async def lend(self) -> Box:
        """A box as it is after its start."""
        if self._box is None:
            self._box = await self.start()
            self._host = _contents(self.project)
            self._seen = await _look(self._box)
        return self._box

    async def take_back(self, *, spoilt: bool) -> None:
        """Keep it for the next one if it is as it was given, and end it otherwise; always, if `spoilt`."""
        if self._box is not None and (spoilt or not await self._as_it_was(self._box)):
            await self.close()

    async def close(self) -> None:
        """End the box."""
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    async def _as_it_was(self, box: Box) -> bool:
        if _contents(self.project) != self._host:
            return False
        try:
            for pause in _PAUSES:
                await asyncio.sleep(pause)
                if await self._tidied(box):
                    return await box.changes() == []
        except KaguraError:
            pass
        return False

    async def _tidied(self, box: Box) -> bool:
        """Whether everything is there as before and nothing else, once what was added to the project is removed."""
        seen = await _look(box)
        added = [name for name in seen.keys() - self._seen.keys() if name.startswith(b"./")]
        if added and len(added) <= _FEW:
            await _run(box, "rm", "-rf", "--", *map(os.fsdecode, added))
            seen = await _look(box)
        return seen == self._seen


async def _look(box: Box) -> dict[bytes, bytes]:
    words = (await _run(box, "bash", "-c", _LOOK)).stdout.data.split(b"\0")
    return dict(zip(words[::2], words[1::2], strict=False))


async def _run(box: Box, *argv: str) -> CommandResult:
    return await box.run(Command(argv, keep_bytes=2**22, limits=CommandLimits(60.0, None)))


def _contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a folder, with its kind and mode, and what it holds."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
        )
        for path in root.rglob("*")
    }


class LendsBoxes:
    """Mix this in before a suite whose tests ask for `box`, and say how its back-end is made.

    Where that takes a fixture, give it `shared_backend`, of class scope, instead. Everything of the class runs on one
    loop. Tests that need a box which nobody has used ask for `fresh_box`, or start one.
    """

    pytestmark = pytest.mark.asyncio(loop_scope="class")

    spec_in: ClassVar[Callable[[Path], BoxSpec]]
    """The suite's: its box, with a project that is made in a folder."""
    make_backend: ClassVar[Callable[[], SandboxBackend]]

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls) -> AsyncIterator[SandboxBackend]:
        """The back-end of this class."""
        backend = cls.make_backend()
        yield backend
        await backend.close()

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def lender(
        cls, shared_backend: SandboxBackend, tmp_path_factory: pytest.TempPathFactory
    ) -> AsyncIterator[Lender]:
        """Has the box of this class."""
        folder = tmp_path_factory.mktemp("lent")
        folder.chmod(0o755)
        spec = cls.spec_in(folder)
        assert spec.workspace is not None
        lender = Lender(lambda: shared_backend.start(spec), spec.workspace)
        # Processes that serve all boxes are started with the first: in the session's environment, not in a test's.
        await lender.lend()
        yield lender
        await lender.close()

    @pytest.fixture
    def backend(self, shared_backend: SandboxBackend) -> SandboxBackend:
        """The same for all; a test that closes it belongs into another class."""
        return shared_backend

    @pytest.fixture
    def project(self, lender: Lender) -> Path:
        """What the lent box shows."""
        return lender.project

    @pytest_asyncio.fixture(loop_scope="class")
    async def box(self, lender: Lender, request: pytest.FixtureRequest) -> AsyncIterator[Box]:
        """A box as it is after its start."""
        failed = request.session.testsfailed
        yield await lender.lend()
        await lender.take_back(spoilt=request.session.testsfailed > failed)

    @pytest_asyncio.fixture(loop_scope="class")
    async def fresh_box(self, lender: Lender) -> AsyncIterator[Box]:
        """A box that nobody has used."""
        box = await lender.start()
        yield box
        await box.close()
