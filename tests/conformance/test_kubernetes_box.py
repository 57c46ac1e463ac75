"""Boxes in pods keep every promise of a box; the cluster is one of ours, whose containers bubblewrap keeps apart.

What runs where, and why: a cold box runs everything. A pod that has waited is the same guest behind the same stream:
so the life of boxes, further directories and changes run there too. The walls, and what a box may use of a node, are
the cluster's own, and not tried here. With KAGURA_TEST_CLUSTER set, everything here runs against the cluster that
KUBECONFIG names, with the image that KAGURA_TEST_CLUSTER_IMAGE names.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.kubernetes.backend import KubernetesBackend
from kagura_kernel.sandbox.kubernetes.cluster import Cluster
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
    BoxWorkConformance,
)
from kagura_kernel.testing.conformance.box_fixtures import begun
from tests.support.cluster import cluster
from tests.support.lending import LendsBoxes

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def config() -> Iterator[str]:
    """A configuration file of the cluster; empty names the machine's own."""
    if os.environ.get("KAGURA_TEST_CLUSTER"):
        yield ""
        return
    with cluster() as ours:
        yield str(ours.config)
        assert not ours.pods


def made(config: str) -> KubernetesBackend:
    image = os.environ.get("KAGURA_TEST_CLUSTER_IMAGE", "kagura/python:latest")
    return KubernetesBackend(Cluster(config=config), default_image=image)


class DiesThere(BoxLifeConformance):
    async def test_a_box_that_dies_says_so(self, box, config):
        """The guest is the first process of its container: nothing inside can kill it, so the cluster has to."""
        attempt = await box.run(shell_command("kill -9 $PPID; echo alive"))
        assert attempt.stdout.text == "alive\n"
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        cluster = Cluster(config=config)
        await cluster.pods()
        await cluster.delete_pod(box.id)
        cluster.close()
        assert await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied):
            await running
        with pytest.raises(SandboxDied):
            await box.run(shell_command("true"))
        await box.close()


class There(LendsBoxes):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, config) -> AsyncIterator[SandboxBackend]:
        backend = made(config)
        yield backend
        await backend.close()


class Parked(LendsBoxes):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, config) -> AsyncIterator[SandboxBackend]:
        pool = WarmPool(made(config))
        yield pool
        await pool.close()


class TestKubernetesBox(There, BoxWorkConformance):
    pass


class TestKubernetesLife(DiesThere):
    @pytest.fixture
    async def backend(self, config):
        backend = made(config)
        yield backend
        await backend.close()


class TestParkedKubernetesBox(Parked, BoxChangesConformance, BoxFurtherConformance):
    async def test_its_boxes_have_waited(self, backend, project):
        await backend.settled()
        box = await backend.start(self.spec(project))
        assert box.warm
        await box.close()


class TestParkedKubernetesLife(DiesThere):
    @pytest.fixture
    async def backend(self, config):
        pool = WarmPool(made(config))
        pool.prepare(self.spec(None))
        await pool.settled()
        yield pool
        await pool.close()
