"""Fixtures for tests that need Docker: a daemon of our own with our images, shared by all test processes.

Load them with `pytest_plugins = ["tests.support.fixtures_docker"]` in a root conftest, or import the names.
Where no daemon can be started the tests are skipped with the cure, unless `KAGURA_TEST_REQUIRE_DOCKER` is set: then
they fail.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from tests.support.docker_images import BASE, copy_image, ensure_images
from tests.support.dockerd import TestDaemon, shared_daemon, why_not

REQUIRE = "KAGURA_TEST_REQUIRE_DOCKER"


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[TestDaemon]:
    """The shared daemon, with `kagura/base` and `kagura/python` built."""
    if reason := why_not():
        if os.environ.get(REQUIRE):
            pytest.fail(f"Docker is required here: {reason}")
        pytest.skip(reason)
    with shared_daemon() as daemon:
        ensure_images(daemon)
        yield daemon


@pytest.fixture(scope="session")
def remapped_daemon(docker_daemon: TestDaemon) -> Iterator[TestDaemon]:
    """One more, with `kagura/base`, whose containers live in user namespaces; started for the first who asks."""
    with shared_daemon(remap=True) as daemon:
        copy_image(docker_daemon, daemon, BASE)
        yield daemon


@pytest.fixture
def docker_endpoint(docker_daemon: TestDaemon) -> Endpoint:
    """Where it listens, as product code wants it."""
    return Endpoint(docker_daemon.host)


@pytest_asyncio.fixture
async def docker_backend(docker_endpoint: Endpoint) -> AsyncIterator[DockerBackend]:
    """A back-end at that daemon, on the small image; closed afterwards."""
    backend = DockerBackend(docker_endpoint, default_image=BASE)
    try:
        yield backend
    finally:
        await backend.close()
