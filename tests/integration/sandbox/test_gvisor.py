"""gVisor boxes: how they end, for whom they start, and which way is taken."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.flags import OPEN_PIPE, TOO_OLD
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.gvisor import GVisorBackend, RunscBackend
from kagura_kernel.sandbox.supervisor.gvisor import STAGE
from kagura_kernel.testing.patience import eventually
from tests.support.control_groups import groups_of, here
from tests.support.docker_images import BASE

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc"),
]

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
NOWHERE = Endpoint("unix:///nonexistent/nobody.sock")

KERNEL = """
import asyncio
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.gvisor import RunscBackend

async def main():
    backend = RunscBackend()
    box = await backend.start(BoxSpec())
    await backend.park(BoxSpec())
    asyncio.ensure_future(box.run(shell_command("sleep 1000")))
    print("ready", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""

ORDINARY = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.gvisor import RunscBackend

async def main():
    backend = RunscBackend()
    probe = await backend.probe()
    told = [probe.ok, probe.reason, ""]
    if probe.ok:
        box = await backend.start(BoxSpec())
        line = "id -u; echo x > new; cat new; touch /usr/x || echo refused"
        told[2] = (await box.run(shell_command(line))).stdout.text
        # Sent in by the box's root, who leaves before any command runs.
        policy = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)
        box = await backend.start(BoxSpec(workspace=Path(sys.argv[1], "docs", "decisions"), policy=policy))
        line = "echo READ*; touch new || echo refused"
        told[2] += (await box.run(shell_command(line))).stdout.text
    await backend.close()
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture
async def alone() -> AsyncIterator[RunscBackend]:
    backend = RunscBackend()
    yield backend
    await backend.close()


@pytest.fixture
async def begun(alone: RunscBackend) -> RunscBackend:
    """One whose supervisor is there already: what a box adds is the box."""
    await alone.way()
    return alone


def children(pid: int) -> list[int]:
    try:
        text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []
    return [int(word) for word in text.split()]


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return [*below, *(found for child in below for found in descendants(child))]


def kernels_among(pids: list[int]) -> list[int]:
    """Those that are a box's kernel."""
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"runsc-sandbox\0")]


def mounts() -> list[str]:
    """Where this machine has memory mounted."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[2] == "tmpfs"]


async def test_a_killed_kernel_leaves_no_process_mount_or_group():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KERNEL, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
    family = descendants(process.pid)
    assert len(family) >= 6, "the supervisor's two halves, and two boxes with runsc and a kernel each"
    assert groups_of(*family) or not here().homes
    process.kill()
    await process.wait()
    await eventually(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()])
    assert not groups_of(*family)
    assert STAGE not in mounts()


async def test_a_killed_supervisor_takes_its_box_along_and_the_box_says_so(alone):
    before = set(descendants(os.getpid()))
    box = await alone.start(BoxSpec())
    family = [pid for pid in descendants(os.getpid()) if pid not in before]
    running = asyncio.create_task(box.run(shell_command("sleep 1000")))
    os.kill(family[0], signal.SIGKILL)
    assert await asyncio.wait_for(box.wait_closed(), 30)
    with pytest.raises(SandboxDied):
        await running
    await box.close()
    await eventually(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()])


async def test_closing_a_box_leaves_no_process(begun):
    before = set(descendants(os.getpid()))
    box = await begun.start(BoxSpec())
    family = [pid for pid in descendants(os.getpid()) if pid not in before]
    assert family
    await box.close()
    await eventually(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()])
    assert not groups_of(*family)


async def test_a_parked_box_is_taken_with_its_project(alone, tmp_path):
    (tmp_path / "a.txt").write_text("alpha\n")
    policy = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)
    spec = BoxSpec(workspace=tmp_path, policy=policy)
    key = alone.parking_spec(spec)
    assert key is not None
    box = await (await alone.park(key)).take(spec)
    assert box.warm
    assert (await box.run(Command(("cat", "a.txt")))).stdout.text == "alpha\n"
    assert not (await box.run(shell_command("chmod 777 . || echo x > new"))).ok
    assert await box.changes() == []


async def test_filling_a_read_only_box_leaves_nobody_behind(begun, tmp_path):
    (tmp_path / "a.txt").write_text("alpha\n")
    await begun.start(BoxSpec(workspace=tmp_path, policy=SandboxPolicy(type=SandboxPolicyType.READ_ONLY)))
    assert begun._supervisor is not None
    supervisor = begun._supervisor.pid
    assert supervisor is not None
    # runsc, and not whoever sent the project in: neither alive nor as a name that nobody has waited for.
    await eventually(lambda: len(children(supervisor)) == 1)


async def test_a_box_runs_on_a_kernel_of_its_own(alone):
    box = await alone.start(BoxSpec())
    assert (await box.run(Command(("uname", "-r")))).stdout.text.strip() != os.uname().release


async def test_what_one_back_end_has_found_out_another_need_not_try(alone):
    way = await alone.way()
    other = RunscBackend(way=way)
    assert await other.way() == way
    before = set(descendants(os.getpid()))
    box = await other.start(BoxSpec())
    assert set(way.notes) <= set(box.notes)
    family = [pid for pid in descendants(os.getpid()) if pid not in before]
    assert len(kernels_among(family)) == 1
    await other.close()


async def test_what_it_does_not_have_is_said(alone):
    shown = BoxSpec(shown=(ShownPath(Path("/data"), "/plugin/read/0"),))
    for spec, word in (
        (BoxSpec(image="x"), "images"),
        (BoxSpec(writable_root=True), "writable root"),
        (shown, "showing /data"),
    ):
        with pytest.raises(SandboxUnsupported, match=word):
            await alone.start(spec)


async def test_a_platform_that_does_not_start_a_box_is_no_platform():
    backend = RunscBackend(platform="no-such-platform")
    probe = await backend.probe()
    assert not probe.ok
    assert "no-such-platform" in probe.reason
    await backend.close()


async def test_without_runsc_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    backend = GVisorBackend(DockerBackend(NOWHERE, gvisor=True), RunscBackend())
    probe = await backend.probe()
    assert not probe.ok
    assert "runsc is not installed" in probe.reason
    assert "apt install runsc" in probe.install
    with pytest.raises(SandboxUnavailable, match="apt install runsc"):
        await backend.start(BoxSpec())
    await backend.close()


async def test_without_docker_it_is_runsc_alone_and_says_why():
    backend = GVisorBackend(DockerBackend(NOWHERE, gvisor=True), RunscBackend())
    probe = await backend.probe()
    assert probe.ok
    assert "not through Docker: no Docker daemon answers" in probe.reason
    box = await backend.start(BoxSpec())
    assert box.image == ""
    await backend.close()


@pytest.mark.docker
async def test_with_docker_it_goes_through_docker(docker_endpoint):
    backend = GVisorBackend(DockerBackend(docker_endpoint, default_image=BASE, gvisor=True), RunscBackend())
    probe = await backend.probe()
    assert probe.ok
    assert "runs gVisor as" in probe.reason
    box = await backend.start(BoxSpec())
    assert (box.backend, box.image) == ("gvisor", BASE)
    assert OPEN_PIPE in box.notes
    lists = (await box.run(Command(("ls", "/")))).ok
    assert (TOO_OLD in box.notes, probe.advice == TOO_OLD) == (not lists, not lists)
    await backend.close()


@pytest.mark.docker
async def test_through_docker_a_root_can_be_written_and_is_gone_with_its_box(docker_endpoint):
    backend = DockerBackend(docker_endpoint, default_image=BASE, gvisor=True)
    try:
        box = await backend.start(BoxSpec(writable_root=True))
        install = "printf '#!/bin/sh\necho installed\n' > /usr/bin/tool && chmod 755 /usr/bin/tool && chown 777 /opt"
        assert (await box.run(shell_command(f"id -u; {install}; tool"))).stdout.text == "0\ninstalled\n"
        status = (await box.run(shell_command("grep CapBnd /proc/self/status"))).stdout.text
        # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETFCAP.
        assert int(status.split()[1], 16) == sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 31))
        for line in ("mount -t tmpfs none /mnt", "unshare -m true"):
            assert not (await box.run(shell_command(line))).ok, line
        await box.close()
        fresh = await backend.start(BoxSpec(writable_root=True))
        assert not (await fresh.run(Command(("tool",)))).ok
    finally:
        await backend.close()


def test_an_ordinary_user_has_them_too():
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK)), None)
    if os.geteuid() != 0 or python is None:
        pytest.skip("needs root, to become somebody else, and a Python that every user may run")
    result = subprocess.run(
        [python, "-I", "-S", "-B", "-c", ORDINARY, str(ROOT)],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    ok, reason, told = json.loads(result.stdout)
    assert ok, reason
    assert told.split() == ["1000", "x", "refused", "README.md", "refused"]
