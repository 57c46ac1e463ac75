"""A back-end with real commands and no walls: the guest as an ordinary child process in a temporary directory.

For tests of everything above the sandbox, where a real box would cost time and root. It keeps the whole protocol of
`Box` (it passes the same conformance suite), and protects nothing: its isolation class is NONE, which product code
takes from the owner's settings alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.runtime.host_box import HostBackend, HostBox
from kagura_kernel.sandbox.backend import BoxSpec, Probe
from kagura_kernel.sandbox.box import refuse_further

FakeBox = HostBox


class FakeBackend(HostBackend):
    """Starts boxes that are none. The workspace is a copy, sent over the pipe as for a remote box.

    Further directories are copies too, at places of the machine: a variable of the spec that holds the place in the box
    holds the place of the copy instead.

    Args:
        python: Interpreter for the guest; None is the one that runs the tests.
        broken: Makes `probe` and `start` fail with this reason, as where nothing is installed.
    """

    notes = ()
    outlives = True  # a keeper for each would cost tests time, and they end their boxes themselves

    def __init__(self, python: str | None = None, broken: str = "") -> None:
        super().__init__(python, "fake")
        self.boxes: list[HostBox] = []  # All that it has started, those that are closed too
        self.broken = broken

    async def probe(self, image: str | None = None) -> Probe:
        """Whether it was made to work."""
        del image
        if self.broken:
            return Probe(ok=False, reason=self.broken, install="apt-get install nothing")
        return Probe(ok=True, reason="it needs nothing")

    async def start(self, spec: BoxSpec) -> HostBox:
        """A box that is ready for its first command."""
        if self.broken:
            raise SandboxUnavailable(self.broken, "apt-get install nothing")
        refuse_further(spec, self.name)
        box = await super().start(spec)
        self.boxes.append(box)
        return box

    def _place(self, spec: BoxSpec, home: Path) -> Mapping[str, str]:
        """Copy further directories below `home`; the spec's variables, which lead to the copies.

        There are no mounts here, so a program finds a directory only by a variable that holds its place in the box.
        """
        env = dict(spec.env)
        for source, target in spec.extra_read_only:
            if not source.is_dir() or source.resolve() != source:
                raise PathNotShown(str(source), "it is not there, no directory, or behind a link")
            place = f"{home}/shown{target}"
            shutil.copytree(source, place, symlinks=True)
            env = {
                name: place + value.removeprefix(target) if f"{value}/".startswith(f"{target}/") else value
                for name, value in env.items()
            }
        return env

    async def close(self) -> None:
        """Close every box that is open, and forget all of them."""
        self.boxes = []
        await super().close()
