"""Real boxes behind doors that a test shuts: a start, or a settling, then takes for as long as the test wants.

Registered as a third party's back-end, so that it is found by a kernel as any other; `--box gated` asks for it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from kagura_kernel.domain.commands import Command, CommandResult, OutputListener
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.sandbox.backend import Box, BoxChange, BoxSpec, Failed, Listener, Probe, ServeStream
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

VARIABLE = "KAGURA_TEST_DOORS"
"""Names the folder of the doors: each is shut while a file of its name lies there."""

START = "start"
SETTLE = "settle"

_PAUSE = 0.02


def register(site: Path) -> None:
    """Write what an installed package would bring along into `site`, which a kernel has on its PYTHONPATH."""
    about = site / "kagura_gated-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kagura-gated\nVersion: 1.0\n", "utf-8")
    entry = f"[kagura_kernel.backends]\ngated = {__name__}:GatedBackend\n"
    (about / "entry_points.txt").write_text(entry, "utf-8")


class Doors:
    """The test's side of the doors.

    Args:
        folder: Where they are; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def shut(self, name: str) -> None:
        """Whoever comes to this door waits from now on."""
        (self.folder / name).touch()

    def open(self, name: str) -> None:
        """Let everybody through."""
        (self.folder / name).unlink(missing_ok=True)

    def waiting(self, name: str) -> bool:
        """Whether somebody stands before it."""
        return (self.folder / f"{name}.waits").exists()

    async def pass_through(self, name: str) -> None:
        """Return when the door is open."""
        mark = self.folder / f"{name}.waits"
        try:
            while (self.folder / name).exists():
                mark.touch()
                await asyncio.sleep(_PAUSE)
        finally:
            mark.unlink(missing_ok=True)


class GatedBox:
    """A box whose changes are told once the door is open; satisfies `Box`."""

    backend = "gated"

    def __init__(self, box: Box, doors: Doors) -> None:
        self._box = box
        self._doors = doors
        self.id = box.id
        self.isolation = box.isolation
        self.image = box.image
        self.warm = box.warm
        self.notes = box.notes
        self.files: FileSystem = box.files

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """As the box behind it."""
        return await self._box.run(command, on_output)

    async def changes(self) -> list[BoxChange]:
        """As the box behind it, once the door is open."""
        await self._doors.pass_through(SETTLE)
        return await self._box.changes()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """As the box behind it."""
        return await self._box.listen(listener, serve, failed)

    async def wait_closed(self) -> str:
        """As the box behind it."""
        return await self._box.wait_closed()

    async def close(self) -> None:
        """As the box behind it."""
        await self._box.close()


class GatedBackend:
    """Starts bubblewrap's boxes once the door is open; satisfies `SandboxBackend`."""

    name = "gated"
    isolation = IsolationClass.NAMESPACE

    def __init__(self) -> None:
        self._boxes = BubblewrapBackend()
        self._doors = Doors(Path(os.environ[VARIABLE]))

    async def probe(self, image: str | None = None) -> Probe:
        """As bubblewrap's."""
        return await self._boxes.probe(image)

    async def start(self, spec: BoxSpec) -> GatedBox:
        """A real box, once the door is open.

        Raises:
            SandboxUnavailable: bubblewrap does not work here.
            WorkspaceError: the project cannot be shown to it.
        """
        await self._doors.pass_through(START)
        return GatedBox(await self._boxes.start(spec), self._doors)

    async def close(self) -> None:
        """Close every box."""
        await self._boxes.close()
