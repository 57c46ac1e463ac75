"""Boxes on another machine keep every promise of a box and every wall, 30 ms away and as an ordinary user of it.

What runs where, and why: a cold box runs everything. A session that has waited has its supervisor and its further
directories, and no project: so the life of boxes, further directories and changes run there too.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.ssh.backend import SshBackend
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
    BoxWorkConformance,
)
from kagura_kernel.testing.conformance.box_fixtures import begun
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from kagura_kernel.testing.patience import wait_until
from tests.support.lending import LendsBoxes
from tests.support.sshd import OtherMachine, other_machine, program

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(program() is None, reason="needs sshd: dev/setup.sh test unpacks it"),
]


@pytest.fixture(scope="module")
def machine() -> Iterator[OtherMachine]:
    with other_machine(seconds=0.015) as found:
        yield found
        wait_until(lambda: not found.pids())


class DiesThere(BoxLifeConformance):
    async def test_a_box_that_dies_says_so(self, box, machine):
        """As process 1 of its box the guest cannot be killed from inside; what keeps it there can, from outside."""
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        inside = await box.run(shell_command("kill -9 $PPID; echo $PPID"))
        assert inside.stdout.text == "1\n"
        for pid in machine.pids():
            os.kill(pid, signal.SIGKILL)
        assert await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied):
            await running
        with pytest.raises(SandboxDied):
            await box.run(shell_command("true"))
        await box.close()


class There(LendsBoxes):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, machine) -> AsyncIterator[SandboxBackend]:
        backend = SshBackend(machine.host, config=machine.config)
        yield backend
        await backend.close()


class Parked(LendsBoxes):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, machine) -> AsyncIterator[SandboxBackend]:
        pool = WarmPool(SshBackend(machine.host, config=machine.config))
        yield pool
        await pool.close()


class TestSshBox(There, BoxWorkConformance):
    pass


class TestSshWalls(There, WallsConformance):
    pass


class TestSshLife(DiesThere):
    @pytest.fixture
    async def backend(self, machine):
        backend = SshBackend(machine.host, config=machine.config)
        yield backend
        await backend.close()


class TestSshUnderLoad(LoadConformance):
    @pytest.fixture
    async def backend(self, machine):
        backend = SshBackend(machine.host, config=machine.config)
        yield backend
        await backend.close()


class TestParkedSshBox(Parked, BoxChangesConformance, BoxFurtherConformance):
    async def test_its_boxes_have_waited(self, backend, project):
        await backend.settled()
        box = await backend.start(self.spec(project))
        assert box.warm
        await box.close()


class TestParkedSshLife(DiesThere):
    @pytest.fixture
    async def backend(self, machine):
        pool = WarmPool(SshBackend(machine.host, config=machine.config))
        pool.prepare(self.spec(None))
        await pool.settled()
        yield pool
        await pool.close()
