"""Bubblewrap boxes keep every promise of a box, cold and from the warm pool."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.conformance.box import BoxConformance
from kagura_kernel.testing.conformance.box_fixtures import begun


def _guests(pid: int) -> list[int]:
    """Processes below `pid` that are the first of a space inside a space inside a space: keeper, bubblewrap, guest."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
        spaces = status["NSpid"].split()
        found += [child] if len(spaces) == 4 and spaces[-1] == "1" else _guests(child)
    return found


class _BubblewrapConformance(BoxConformance):
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


class TestBubblewrapBox(_BubblewrapConformance):
    @pytest.fixture
    async def backend(self):
        backend = BubblewrapBackend()
        yield backend
        await backend.close()


class TestParkedBubblewrapBox(_BubblewrapConformance):
    @pytest.fixture
    async def backend(self, project):
        pool = WarmPool(BubblewrapBackend())
        # What it parks is what the suite asks for, so that most of its boxes have waited.
        pool.prepare(self.spec(project))
        await pool.settled()
        yield pool
        await pool.close()
