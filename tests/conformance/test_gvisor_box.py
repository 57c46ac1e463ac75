"""gVisor boxes, through Docker and alone, keep every promise of a box and every wall."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.sandbox.docker import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.gvisor_runsc import RunscBackend
from kagura_kernel.testing.conformance.box import BoxConformance
from kagura_kernel.testing.conformance.box_fixtures import DESCRIPTORS, sh
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance, bash, open_box, python
from kagura_kernel.testing.docker_images import BASE
from kagura_kernel.testing.patience import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


class ThroughDocker:
    """The suites ask for `backend`, and run the small image."""

    image: str | None = BASE

    @pytest.fixture
    async def backend(self, docker_endpoint: Endpoint) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(docker_endpoint, default_image=BASE, gvisor=True)
        yield backend
        await backend.close()


class Alone:
    """runsc as a child, with the system's own programs."""

    @pytest.fixture
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        backend = RunscBackend()
        yield backend
        await backend.close()


class AsGVisorShowsIt(BoxConformance):
    """Its kernel gates the memory of a process that hides itself, but neither its environment nor its descriptors.

    So a program in the box may read what the guest was started with, which is nothing, and disturb its pipe. What a
    box says is its own word anyway; the wall around the box is another one.
    """

    async def test_the_guest_is_hidden_from_commands(self, backend: SandboxBackend, box: Box) -> None:  # noqa: ARG002 - the suite's
        assert (await sh(box, DESCRIPTORS)).stdout.text.strip() == "4"
        tried = await sh(box, "head -c1 /proc/$PPID/mem; tr '\\0' '\\n' < /proc/$PPID/environ | cut -d= -f1 | sort")
        assert set(tried.stdout.text.split()) <= {"HOME", "HOSTNAME", "LANG", "PATH", "SHLVL", "PWD", "_"}


class WallsOfGVisor(WallsConformance):
    """The same walls; where its /proc has other words for them, they are asked for otherwise."""

    async def test_no_setting_of_the_system_can_be_written(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        # Its /proc/sys has few settings, and each of them is of the box's own kernel.
        async with open_box(backend, spec) as box:
            assert (await bash(box, "cat /proc/sys/kernel/hostname")).stdout.text == "box\n"
            assert not (await bash(box, "echo other > /proc/sys/kernel/hostname")).ok
            assert (await bash(box, "cat /proc/sys/kernel/hostname")).stdout.text == "box\n"

    async def test_a_process_has_no_capability_and_cannot_gain_any(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        # Its status tells neither NoNewPrivs nor CapAmb; the first is asked for by prctl, the second has no meaning.
        ask = "import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))"
        async with open_box(backend, spec) as box:
            lines = (await bash(box, "cat /proc/self/status")).stdout.text.splitlines()
            status = dict(line.split(":\t", 1) for line in lines)
            assert await python(box, ask) == "1"
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {0}
        assert status["Seccomp"] == "2"
        assert "0" not in status["Uid"].split()

    async def test_a_box_is_the_first_to_go_when_the_machine_lacks_memory(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        # The system chooses among its own processes: the one that is the box's kernel.
        before = set(_kernels())
        async with open_box(backend, spec):
            ours = {pid: score for pid, score in _kernels().items() if pid not in before}
        assert ours
        assert min(ours.values()) >= 500

    async def test_a_command_cannot_reach_into_the_guest_or_its_pipe(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        # Its memory only: see `AsGVisorShowsIt`.
        tried = "import os\ntry: os.open('/proc/1/mem', os.O_RDONLY)\nexcept OSError as error: print(error.strerror)"
        async with open_box(backend, spec) as box:
            assert await python(box, tried) == "Permission denied"


class LoadOnGVisor(LoadConformance):
    """The same limits; the box's processes are its own kernel's and not to be seen from outside."""

    async def test_a_fork_bomb_stays_in_its_box_and_leaves_with_it(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        before = set(_kernels())
        bomb = "bomb() { bomb | bomb & }; bomb; sleep 30"
        async with open_box(backend, spec) as other:
            box = await backend.start(spec)
            try:
                running = asyncio.create_task(box.run(shell_command(bomb, limits=CommandLimits(total=60, idle=None))))
                await asyncio.wait([running], timeout=1.0)
                assert (await bash(other, "echo well")).stdout.text == "well\n"
            finally:
                await box.close()
            with pytest.raises(SandboxUnavailable):
                await running
            assert (await bash(other, "echo well")).stdout.text == "well\n"
        await eventually(lambda: not set(_kernels()) - before)


def _kernels() -> dict[int, int]:
    """Processes of this machine that are a box's kernel, with how early the system would end them."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().startswith(b"runsc-sandbox\0"):
                    found[int(entry.name)] = int((entry / "oom_score_adj").read_text())
    return found


class TestGVisorBoxThroughDocker(ThroughDocker, AsGVisorShowsIt):
    pass


class TestGVisorWallsThroughDocker(ThroughDocker, WallsOfGVisor):
    pass


class TestGVisorUnderLoadThroughDocker(ThroughDocker, LoadOnGVisor):
    pass


class TestGVisorBoxAlone(Alone, AsGVisorShowsIt):
    pass


class TestGVisorWallsAlone(Alone, WallsOfGVisor):
    pass


class TestGVisorUnderLoadAlone(Alone, LoadOnGVisor):
    pass
