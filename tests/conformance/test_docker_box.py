"""Docker boxes keep every promise of a box and every wall, cold and from the warm pool.

What runs where, and why: a cold box runs everything. From the pool run life, further directories and changes: see
`test_bubblewrap_box.py`. A container that has waited is thawed, gets its project, and is then the same guest behind the
same stream; with KAGURA_TEST_EVERYTHING set the rest runs there too.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.backend import Box, SandboxBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.engine import DockerEngine
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
    BoxRestConformance,
    BoxWorkConformance,
)
from kagura_kernel.testing.conformance.box_fixtures import begun
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from tests.support.docker_images import BASE
from tests.support.dockerd import TestDaemon
from tests.support.effort import EVERYTHING
from tests.support.lending import LendsBoxes

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


class OnDocker(LendsBoxes):
    """The suites ask for `backend`, and run the small image."""

    image = BASE

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, docker_daemon: TestDaemon) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(Endpoint(docker_daemon.host), default_image=BASE)
        yield backend
        await backend.close()


class Parked(LendsBoxes):
    """The pool parks what the box that is lent first asked for, so that all others have waited."""

    image = BASE

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, docker_daemon: TestDaemon) -> AsyncIterator[SandboxBackend]:
        pool = WarmPool(DockerBackend(Endpoint(docker_daemon.host), default_image=BASE))
        yield pool
        await pool.close()


class DiesOtherwise(BoxLifeConformance):
    """The guest is the first process of its container: nothing inside can kill it, so the daemon has to."""

    async def test_a_box_that_dies_says_so(self, box: Box, docker_endpoint: Endpoint) -> None:
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


class TestDockerBox(OnDocker, BoxWorkConformance):
    pass


class TestDockerLife(DiesOtherwise):
    image = BASE

    @pytest.fixture
    def backend(self, docker_backend: DockerBackend) -> SandboxBackend:
        return docker_backend


class TestDockerWalls(OnDocker, WallsConformance):
    pass


class TestDockerUnderLoad(LoadConformance):
    image = BASE

    @pytest.fixture
    def backend(self, docker_backend: DockerBackend) -> SandboxBackend:
        return docker_backend


class TestWarmDockerBox(Parked, BoxChangesConformance, BoxFurtherConformance):
    async def test_its_boxes_have_waited(self, backend: WarmPool, project: Path) -> None:
        await backend.settled()
        box = await backend.start(self.spec(project))
        assert box.warm
        await box.close()


class TestWarmDockerLife(DiesOtherwise):
    image = BASE

    @pytest.fixture
    async def backend(self, docker_endpoint: Endpoint) -> AsyncIterator[SandboxBackend]:
        pool = WarmPool(DockerBackend(docker_endpoint, default_image=BASE))
        pool.prepare(self.spec(None))
        await pool.settled()
        yield pool
        await pool.close()


if EVERYTHING:

    class TestTheRestOfAWarmDockerBox(Parked, BoxRestConformance):
        pass
