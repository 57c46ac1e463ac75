"""Docker boxes keep their promises where the daemon maps their root to an ordinary user: owners, modes and walls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.docker import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.testing.conformance.box_changes import BoxChangesConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from kagura_kernel.testing.docker_images import BASE, copy_image
from kagura_kernel.testing.dockerd import TestDaemon, private_daemon

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def remapped_daemon(docker_daemon: TestDaemon) -> Iterator[TestDaemon]:
    with private_daemon(remap=True) as daemon:
        copy_image(docker_daemon, daemon, BASE)
        yield daemon


class Remapped:
    """The suites ask for `backend`, and run the small image."""

    image = BASE

    @pytest.fixture
    async def backend(self, remapped_daemon: TestDaemon) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(Endpoint(remapped_daemon.host), default_image=BASE)
        yield backend
        await backend.close()


class TestFilesOfARemappedBox(Remapped, BoxFilesConformance):
    pass


class TestChangesOfARemappedBox(Remapped, BoxChangesConformance):
    pass


class TestWallsOfARemappedBox(Remapped, WallsConformance):
    pass
