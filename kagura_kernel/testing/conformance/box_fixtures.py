"""The project, the box and the small questions that all parts of the box suite share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, CommandResult, shell_command
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend

NO_LIMITS = CommandLimits(None, None)
DESCRIPTORS = "python3 -c 'import os; print(len(os.listdir(\"/proc/self/fd\")))'"
"""Prints how many descriptors a command has, with the one that looks."""

HEARTBEAT = "while :; do echo x >> beat; sleep 0.05; done"


class BoxFixtures:
    """Base of the parts of the suite; `backend` is the subclass's."""

    image: str | None = None
    """Image for back-ends that have images."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """A small project with everything that can be in one."""
        return project_in(tmp_path)

    @classmethod
    def spec(cls, project: Path | None) -> BoxSpec:
        """What the box is made of."""
        return BoxSpec(workspace=project, image=cls.image)

    @classmethod
    def spec_in(cls, folder: Path) -> BoxSpec:
        """Likewise, with a project that is made in `folder`."""
        return cls.spec(project_in(folder))

    @pytest.fixture
    async def fresh_box(self, backend: SandboxBackend, project: Path) -> AsyncIterator[Box]:
        """A box with the project in it, that nobody has used."""
        box = await backend.start(self.spec(project))
        yield box
        await box.close()

    @pytest.fixture
    def box(self, fresh_box: Box) -> Box:
        """A box with the project in it, as it is after its start; with `LendsBoxes`, one that others have used."""
        return fresh_box


def project_in(folder: Path) -> Path:
    """A small project with everything that can be in one."""
    root = folder / "project"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    (root / "a.txt").write_text("alpha\n")
    (root / "sub" / "b.py").write_text("print('b')\n")
    (root / "sub" / "deep" / "c.txt").write_text("gamma\n")
    (root / "tool.sh").write_text("#!/bin/sh\necho tool\n")
    (root / "tool.sh").chmod(0o755)
    (root / "plain.sh").write_text("echo plain\n")
    (root / "plain.sh").chmod(0o644)
    (root / "link").symlink_to("a.txt")
    for path in [folder, root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    return root


async def sh(box: Box, line: str, *, limits: CommandLimits | None = None) -> CommandResult:
    """What a shell line gives."""
    return await box.run(shell_command(line, limits=limits or CommandLimits(100.0, None)))


async def begun(box: Box, line: str) -> asyncio.Task[CommandResult]:
    """A shell line without limits that is certainly under way."""
    return await under_way(box, shell_command(f"echo begun; {line}", limits=NO_LIMITS))


async def under_way(box: Box, command: Command) -> asyncio.Task[CommandResult]:
    """A command that has printed something already."""
    heard = asyncio.Event()
    task = asyncio.create_task(box.run(command, lambda _chunk: heard.set()))
    waiting = asyncio.create_task(heard.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return task


async def beats(box: Box) -> bool:
    """Whether a heartbeat has written something; its file is there a moment before that."""
    return bool(await box.files.glob("beat")) and (await box.files.stat("beat")).size > 0


async def sizes_of_beat(box: Box) -> tuple[int, int]:
    """The size of what a heartbeat writes, twice with time for several beats between; equal when it is dead."""
    before = (await box.files.stat("beat")).size
    await asyncio.sleep(0.4)
    return before, (await box.files.stat("beat")).size


def plain(*argv: str) -> Command:
    """A command without a shell."""
    return Command(argv)
