"""Bubblewrap boxes keep every promise of a box, cold and from the warm pool.

What runs where, and why: a cold box runs everything. The pool decides how a box begins, is handed out and ends, and
when a waiting one is out of date: so the life of boxes, further directories and changes run there too. Once it is
handed out, it is the same guest behind the same pipe, and commands, output, limits, files and connections are those of
the cold box; with KAGURA_TEST_EVERYTHING set they run in both.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
    BoxRestConformance,
    BoxWorkConformance,
)
from kagura_kernel.testing.conformance.box_fixtures import begun
from tests.support.effort import EVERYTHING
from tests.support.lending import LendsBoxes


def _guests(pid: int) -> list[int]:
    """Processes below `pid` that are the first of a space inside a space inside a space: keeper, bubblewrap, guest."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
        spaces = status["NSpid"].split()
        found += [child] if len(spaces) == 4 and spaces[-1] == "1" else _guests(child)
    return found


class DiesFromOutside(BoxLifeConformance):
    async def test_a_box_that_dies_says_so(self, box):
        """As process 1 of its box the guest cannot be killed from inside: the host has to do it."""
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        inside = await box.run(shell_command("kill -9 $PPID; echo $PPID"))
        assert inside.stdout.text == "1\n"
        guests = _guests(os.getpid())
        assert guests
        for guest in guests:
            os.kill(guest, signal.SIGKILL)
        assert "signal 9" in await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied):
            await running
        with pytest.raises(SandboxDied):
            await box.run(shell_command("true"))
        await box.close()


class TestBubblewrapBox(LendsBoxes, BoxWorkConformance):
    make_backend = BubblewrapBackend


class TestBubblewrapLife(DiesFromOutside):
    @pytest.fixture
    async def backend(self):
        backend = BubblewrapBackend()
        yield backend
        await backend.close()


class Parked(LendsBoxes):
    """The pool parks what the box that is lent first asked for, so that all others have waited."""

    @staticmethod
    def make_backend() -> WarmPool:
        return WarmPool(BubblewrapBackend())


class TestParkedBubblewrapBox(Parked, BoxChangesConformance, BoxFurtherConformance):
    async def test_its_boxes_have_waited(self, backend, project):
        await backend.settled()
        box = await backend.start(self.spec(project))
        assert box.warm
        await box.close()


class TestParkedBubblewrapLife(DiesFromOutside):
    @pytest.fixture
    async def backend(self, project):
        pool = WarmPool(BubblewrapBackend())
        # What it parks is what the suite asks for, so that most of its boxes have waited.
        pool.prepare(self.spec(project))
        await pool.settled()
        yield pool
        await pool.close()


if EVERYTHING:

    class TestTheRestOfAParkedBubblewrapBox(Parked, BoxRestConformance):
        pass
