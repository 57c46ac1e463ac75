"""Docker boxes keep every promise of a box and every wall, cold and from the warm pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.backend import Box, SandboxBackend
from kagura_kernel.sandbox.docker import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.docker_engine import DockerEngine
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.conformance.box import BoxConformance
from kagura_kernel.testing.conformance.box_fixtures import begun
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from kagura_kernel.testing.docker_images import BASE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


class OnDocker:
    """The suites ask for `backend`, and run the small image."""

    image = BASE

    @pytest.fixture
    def backend(self, docker_backend: DockerBackend) -> SandboxBackend:
        return docker_backend


class DiesOtherwise(BoxConformance):
    """The guest is the first process of its container: nothing inside can kill it, so the daemon has to."""

    async def test_a_box_that_dies_says_so(
        self,
        box: Box,
        docker_endpoint: Endpoint,
    ) -> None:
        attempt = await box.run(shell_command("kill -9 $PPID; kill -STOP $PPID; sleep 0.1; echo alive"))
        assert attempt.stdout.text == "alive\n"
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        engine = DockerEngine(docker_endpoint)
        await engine.remove(box.id)
        engine.close()
        assert await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied):
            await running
        with pytest.raises(SandboxDied):
            await box.run(shell_command("true"))
        await box.close()


class TestDockerBox(OnDocker, DiesOtherwise):
    pass


class TestDockerWalls(OnDocker, WallsConformance):
    pass


class TestDockerUnderLoad(OnDocker, LoadConformance):
    pass


class TestWarmDockerBox(DiesOtherwise):
    image = BASE

    @pytest.fixture
    async def backend(self, docker_endpoint: Endpoint) -> AsyncIterator[SandboxBackend]:
        pool = WarmPool(DockerBackend(docker_endpoint, default_image=BASE))
        pool.prepare(self.spec(None))
        await pool.settled()
        yield pool
        await pool.close()
