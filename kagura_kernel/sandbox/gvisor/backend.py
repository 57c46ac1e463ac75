"""gVisor boxes by whichever way works here: through a Docker daemon that has runsc as a runtime, or runsc alone.

Docker comes first, because it brings images; alone there is nothing to build. A way counts as working when it has
started a real box, never because a program, a device file or an entry in a configuration is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import Box, BoxSpec, Probe
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.gvisor.runsc import NAME, RunscBackend
from kagura_kernel.sandbox.pool import ParkedBox


class GVisorBackend:
    """Starts gVisor boxes; a `SandboxBackend` that can park.

    The way through Docker is made with `gvisor=True`; this back-end closes both ways.
    """

    name = NAME
    isolation = IsolationClass.GVISOR

    def __init__(self, docker: DockerBackend, alone: RunscBackend) -> None:
        self._docker = docker
        self._alone = alone
        self._chosen: dict[str | None, DockerBackend | RunscBackend] = {}

    async def probe(self, image: str | None = None) -> Probe:
        """Whether one of the ways works, and which; when none does, what each lacks."""
        through = await self._docker.probe(image)
        if through.ok:
            self._chosen[image] = self._docker
            return through
        alone = await self._alone.probe(image)
        if alone.ok:
            self._chosen[image] = self._alone
            return replace(alone, reason=f"{alone.reason} (not through Docker: {through.reason})")
        self._chosen.pop(image, None)
        installs = [alone.install, f"Or through Docker: {through.install}" if through.install else ""]
        return Probe(
            ok=False,
            reason=f"{alone.reason}; through Docker: {through.reason}",
            install=" ".join(part for part in installs if part),
        )

    async def start(self, spec: BoxSpec) -> Box:
        """A box with the project in it, ready for its first command; see `SandboxBackend.start`."""
        return await (await self._way(spec)).start(spec)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return self._docker.parking_spec(spec)

    async def park(self, spec: BoxSpec) -> ParkedBox:
        """A box that waits for a project. Raises `SandboxUnavailable` when neither way works."""
        return await (await self._way(spec)).park(spec)

    async def close(self) -> None:
        """Close every box of both ways; may be called twice."""
        await asyncio.gather(self._docker.close(), self._alone.close())

    async def _way(self, spec: BoxSpec) -> DockerBackend | RunscBackend:
        if spec.image not in self._chosen:
            probe = await self.probe(spec.image)
            if not probe.ok:
                raise SandboxUnavailable(probe.reason, probe.install or None)
        return self._chosen[spec.image]
