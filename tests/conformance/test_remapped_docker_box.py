"""Docker boxes keep their promises where the daemon maps their root to an ordinary user: owners, modes and walls.

A user map decides who owns what and who may do what: so files, changes and walls run here. Commands, output,
connections and limits know nothing of users, and are `test_docker_box.py`'s; with KAGURA_TEST_EVERYTHING set they run
here too.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.testing.conformance.box import BoxChangesConformance, BoxCommandConformance, BoxFurtherConformance
from kagura_kernel.testing.conformance.box_crowds import BoxCrowdsConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.box_output import BoxLimitsConformance, BoxOutputConformance
from kagura_kernel.testing.conformance.box_streams import BoxStreamsConformance
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from tests.support.docker_images import BASE
from tests.support.dockerd import TestDaemon
from tests.support.effort import EVERYTHING
from tests.support.lending import LendsBoxes

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


class Remapped(LendsBoxes):
    """The suites ask for `backend`, and run the small image."""

    image = BASE

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, remapped_daemon: TestDaemon) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(Endpoint(remapped_daemon.host), default_image=BASE)
        yield backend
        await backend.close()


class TestFilesOfARemappedBox(Remapped, BoxFilesConformance):
    pass


class TestChangesOfARemappedBox(Remapped, BoxChangesConformance):
    pass


class TestWallsOfARemappedBox(Remapped, WallsConformance):
    pass


if EVERYTHING:

    class TestTheRestOfARemappedBox(
        Remapped,
        BoxCommandConformance,
        BoxOutputConformance,
        BoxFurtherConformance,
        BoxLimitsConformance,
        BoxStreamsConformance,
        BoxCrowdsConformance,
    ):
        pass

    class TestRemappedBoxUnderLoad(Remapped, LoadConformance):
        pass
