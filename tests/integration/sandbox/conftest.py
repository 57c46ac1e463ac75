from collections.abc import AsyncIterator, Iterator

import pytest
from docker import DockerClient

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.docker_images import client_of
from tests.support.dockerd import TestDaemon


@pytest.fixture
async def backend() -> AsyncIterator[BubblewrapBackend]:
    started = BubblewrapBackend()
    yield started
    await started.close()


@pytest.fixture
def client(docker_daemon: TestDaemon) -> Iterator[DockerClient]:
    made = client_of(docker_daemon)
    yield made
    made.close()
