"""gVisor boxes, through Docker and alone, keep every promise of a box and every wall.

What runs where, and why: runsc alone runs everything, since it shares no part but the guest with another back-end.
Through Docker run the walls, and what the seam between Docker and runsc decides: how boxes live, end and are filled.
Commands, output and connections over Docker's attach stream are `test_docker_box.py`'s subject, and the guest on
gVisor's kernel is that of the boxes alone. With KAGURA_TEST_EVERYTHING set, everything runs both ways.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, GuestStream, Listener, SandboxBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.flags import OPEN_PIPE
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.gvisor import RunscBackend, Way
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
    BoxRestConformance,
    BoxWorkConformance,
)
from kagura_kernel.testing.conformance.box_fixtures import DESCRIPTORS, sh
from kagura_kernel.testing.conformance.box_streams import PIECE, told, until
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance, bash, open_box, python
from kagura_kernel.testing.patience import eventually
from tests.support.docker_images import BASE
from tests.support.dockerd import TestDaemon
from tests.support.effort import EVERYTHING
from tests.support.lending import LendsBoxes

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc"),
]

REQUEST = b"GET http://some.example/ HTTP/1.1\r\nHost: some.example\r\n\r\n"

_OPENED = """
import os
names = []
try:
    names = os.listdir("/proc/1/fd")
except PermissionError:
    print("hidden")
for name in names:
    for way in (os.O_RDONLY, os.O_WRONLY):
        path = f"/proc/1/fd/{name}"
        try:
            os.close(os.open(path, way | os.O_NONBLOCK))
            print(os.readlink(path).partition(":")[0])
        except OSError:
            pass
try:
    os.close(os.open("/proc/1/mem", os.O_RDONLY))
    print("memory")
except OSError:
    pass
"""
"""Prints what a command can open of the guest: its memory, and the kind of each descriptor, a line each."""

_ITS_OWN = {"/dev/null", "pipe", "hidden"}
"""What the guest and its commands made themselves: nothing that leads out of the box (`host`)."""
_LOOKED = {"/dev/null", "hidden"}
"""One of them shows that the look was not in vain."""


class ThroughDocker(LendsBoxes):
    """The suites ask for `backend`, and run the small image."""

    image: str | None = BASE

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, docker_daemon: TestDaemon) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(Endpoint(docker_daemon.host), default_image=BASE, gvisor=True)
        yield backend
        await backend.close()


@pytest.fixture(scope="module")
def runsc_way() -> Way:
    """How runsc starts boxes here: looked for once, and not for every test's back-end."""

    async def found() -> Way:
        backend = RunscBackend()
        try:
            return await backend.way()
        finally:
            await backend.close()

    return asyncio.run(found())


class Alone(LendsBoxes):
    """runsc as a child, with the system's own programs."""

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls, runsc_way: Way) -> AsyncIterator[SandboxBackend]:
        backend = RunscBackend(way=runsc_way)
        yield backend
        await backend.close()


class LivesOnGVisor(BoxLifeConformance):
    """Its kernel gates a process that hides itself: its memory, where it is and what it runs, but not its environment.

    In that stands nothing that its commands do not have.
    """

    async def test_the_guest_is_hidden_from_commands(self, backend: SandboxBackend, box: Box) -> None:  # noqa: ARG002 - the suite's
        assert (await sh(box, DESCRIPTORS)).stdout.text.strip() == "4"
        tried = await sh(box, "head -c1 /proc/$PPID/mem; tr '\\0' '\\n' < /proc/$PPID/environ | cut -d= -f1 | sort")
        assert set(tried.stdout.text.split()) <= {"HOME", "HOSTNAME", "LANG", "PATH", "SHLVL", "PWD", "_"}


class WallsOfGVisor(WallsConformance):
    """The same walls; where its /proc has other words for them, they are asked for otherwise."""

    async def test_no_setting_of_the_system_can_be_written(self, box: Box) -> None:
        # Its /proc/sys has few settings, and each of them is of the box's own kernel.
        assert (await bash(box, "cat /proc/sys/kernel/hostname")).stdout.text == "box\n"
        assert not (await bash(box, "echo other > /proc/sys/kernel/hostname")).ok
        assert (await bash(box, "cat /proc/sys/kernel/hostname")).stdout.text == "box\n"

    async def test_a_process_has_no_capability_and_cannot_gain_any(self, box: Box) -> None:
        # Its status tells neither NoNewPrivs nor CapAmb; the first is asked for by prctl, the second has no meaning.
        ask = "import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))"
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

    async def test_a_command_cannot_reach_into_the_guest_or_its_pipe(self, box: Box) -> None:
        # Sockets cannot be opened a second time; what can is the guest's own, and leads nowhere.
        opened = set((await python(box, _OPENED)).split())
        assert opened & _LOOKED
        assert opened <= _ITS_OWN


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

    async def test_files_without_content_run_out_before_memory_does(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        # Its kernel counts no files, so it is the memory of the box that ends: its own and nobody else's.
        async with open_box(backend, spec) as other:
            async with open_box(backend, spec) as box:
                with pytest.raises(SandboxDied, match="memory"):
                    await python(box, "import os\nfor n in range(10**7): os.mknod(f'/tmp/{n}')")
            assert (await bash(other, "echo well")).stdout.text == "well\n"


def _kernels() -> dict[int, int]:
    """Processes of this machine that are a box's kernel, with how early the system would end them."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().startswith(b"runsc-sandbox\0"):
                    found[int(entry.name)] = int((entry / "oom_score_adj").read_text())
    return found


class TestGVisorLifeAlone(LivesOnGVisor):
    @pytest.fixture
    async def backend(self, runsc_way: Way) -> AsyncIterator[SandboxBackend]:
        backend = RunscBackend(way=runsc_way)
        yield backend
        await backend.close()


class WorksOnGVisor:
    """gVisor does not tell which connections a process still holds: who hangs up is noticed when it is answered."""

    @pytest.mark.parametrize("front", ["proxy", "raw"])
    async def test_a_program_that_hangs_up_before_it_was_answered_is_gone(self, box: Box, front: str) -> None:
        left = asyncio.Event()

        async def serve(stream: GuestStream) -> None:
            try:
                await stream.accept()
                while await stream.read(PIECE):
                    pass
            finally:
                left.set()

        port = await box.listen(Listener(0, "raw" if front == "raw" else "proxy"), serve)
        await told(box, port, f"client = connected()\nclient.sendall({REQUEST})\nclient.close()")
        await until(left.is_set)

    @pytest.mark.parametrize("front", ["proxy", "raw"])
    async def test_a_program_that_has_only_stopped_sending_is_still_answered(self, box: Box, front: str) -> None:
        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            while await stream.read(PIECE):
                pass
            await stream.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
            await stream.write_eof()

        port = await box.listen(Listener(0, "raw" if front == "raw" else "proxy"), serve)
        code = f"""
client = connected()
client.sendall({REQUEST})
client.shutdown(socket.SHUT_WR)
print(said(client).decode().rpartition("\\n")[2])
"""
        assert await told(box, port, code) == "hello"


class TestGVisorBoxAlone(Alone, WorksOnGVisor, BoxWorkConformance):
    pass


class TestGVisorWallsAlone(Alone, WallsOfGVisor):
    pass


class TestGVisorUnderLoadAlone(Alone, LoadOnGVisor):
    pass


@pytest.mark.docker
class TestGVisorLifeThroughDocker(LivesOnGVisor):
    image = BASE

    @pytest.fixture
    async def backend(self, docker_endpoint: Endpoint) -> AsyncIterator[SandboxBackend]:
        backend = DockerBackend(docker_endpoint, default_image=BASE, gvisor=True)
        yield backend
        await backend.close()

    async def test_a_box_says_what_its_commands_can_open(self, box: Box) -> None:
        """The guest's pipe is Docker's to make, and can be opened."""
        assert OPEN_PIPE in box.notes


@pytest.mark.docker
class TestGVisorChangesThroughDocker(ThroughDocker, BoxChangesConformance):
    pass


@pytest.mark.docker
class TestGVisorWallsThroughDocker(ThroughDocker, WallsOfGVisor):
    async def test_a_command_cannot_reach_into_the_guest_or_its_pipe(self, box: Box) -> None:
        """Into the pipe it can: see `OPEN_PIPE`. Into nothing else."""
        opened = set((await python(box, _OPENED)).split())
        assert opened & _LOOKED
        assert opened <= _ITS_OWN | {"host"}


if EVERYTHING:

    @pytest.mark.docker
    class TestGVisorBoxThroughDocker(ThroughDocker, WorksOnGVisor, BoxRestConformance, BoxFurtherConformance):
        pass

    @pytest.mark.docker
    class TestGVisorUnderLoadThroughDocker(ThroughDocker, LoadOnGVisor):
        pass
