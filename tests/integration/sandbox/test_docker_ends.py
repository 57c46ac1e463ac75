"""How Docker boxes end: closed, cancelled, killed, starved, orphaned. None of it leaves a container."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, CommandLimits, shell_command
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.engine import DockerEngine
from kagura_kernel.sandbox.docker.flags import BOX_LABEL, OWNER_LABEL
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.owner import owner_alive, owner_of
from kagura_kernel.testing.patience import eventually
from tests.support.docker_images import BASE, copy_image
from tests.support.dockerd import TestDaemon, private_daemon

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

FOREVER = Command(("sleep", "1000"), limits=CommandLimits(total=None, idle=None))

KERNEL = """
import asyncio, sys
from pathlib import Path
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint

async def main(url, image, folder):
    backend = DockerBackend(Endpoint(url), default_image=image)
    showing = BoxSpec(extra_read_only=((Path(folder), "/kagura/further"),))
    box = await backend.start(showing)
    hostile = await backend.start(BoxSpec())
    parked = await backend.park(showing)
    running = asyncio.create_task(box.run(shell_command("sleep 1000")))
    # A program that stops the guest: it cannot notice that its pipe has closed.
    stopping = asyncio.create_task(hostile.run(shell_command("kill -STOP $PPID; sleep 1000")))
    await asyncio.sleep(0.3)
    print("ready", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""


async def owned_by(endpoint: Endpoint, owner: str) -> list[str]:
    """Containers, then volumes."""
    engine = DockerEngine(endpoint)
    try:
        containers = [str(found["Id"]) for found in await engine.containers(f"{OWNER_LABEL}={owner}")]
        return containers + [str(found["Name"]) for found in await engine.volumes(f"{OWNER_LABEL}={owner}")]
    finally:
        engine.close()


async def exists(endpoint: Endpoint, box_id: str) -> bool:
    engine = DockerEngine(endpoint)
    try:
        return bool(await engine.containers(f"{BOX_LABEL}={box_id}"))
    finally:
        engine.close()


async def test_a_killed_kernel_leaves_no_container_neither_frozen_nor_hostile_and_no_volume(docker_endpoint, tmp_path):
    words = [sys.executable, "-c", KERNEL, docker_endpoint.url, BASE, str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
    owner = owner_of(process.pid)
    assert len(await owned_by(docker_endpoint, owner)) == 4
    process.kill()
    await process.wait()

    async def gone() -> bool:
        return await owned_by(docker_endpoint, owner) == []

    await eventually(gone)


async def test_closing_a_box_removes_its_container_at_once(docker_backend, docker_endpoint):
    box = await docker_backend.start(BoxSpec())
    assert await exists(docker_endpoint, box.id)
    await box.close()
    assert not await exists(docker_endpoint, box.id)
    assert await box.wait_closed() == ""
    await box.close()
    with pytest.raises(SandboxUnavailable):
        await box.run(Command(("true",)))


async def test_closing_the_back_end_removes_boxes_and_parked_ones(docker_endpoint):
    backend = DockerBackend(docker_endpoint, default_image=BASE)
    box = await backend.start(BoxSpec())
    parked = await backend.park(BoxSpec())
    waiting = asyncio.create_task(box.run(FOREVER))
    await asyncio.sleep(0.1)
    await backend.close()
    with pytest.raises(SandboxUnavailable):
        await waiting
    assert not await exists(docker_endpoint, box.id)
    assert not parked.alive
    await backend.close()
    with pytest.raises(SandboxUnavailable, match="closed"):
        await backend.start(BoxSpec())


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.05, 0.08, 0.12])
async def test_a_start_that_is_cancelled_leaves_no_container(docker_backend, docker_endpoint, delay):
    await docker_backend.probe()
    before = await owned_by(docker_endpoint, owner_of(os.getpid()))
    starting = asyncio.create_task(docker_backend.start(BoxSpec()))
    await asyncio.sleep(delay)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await starting).close()
    assert await owned_by(docker_endpoint, owner_of(os.getpid())) == before


async def test_a_start_that_is_cancelled_again_and_again_is_cleared_up_by_closing(docker_endpoint):
    backend = DockerBackend(docker_endpoint, owner="elsewhere:2:2", default_image=BASE)
    await backend.probe()
    for delay in (0.004, 0.008, 0.012, 0.02):
        starting = asyncio.create_task(backend.start(BoxSpec()))
        await asyncio.sleep(delay)
        while not starting.done():
            starting.cancel()
            await asyncio.sleep(0.001)
    await backend.close()
    assert await owned_by(docker_endpoint, "elsewhere:2:2") == []


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.08, 0.15])
@pytest.mark.parametrize("make", ["start", "park"])
async def test_closing_waits_for_what_is_being_made(docker_endpoint, make, delay):
    backend = DockerBackend(docker_endpoint, owner=f"elsewhere:3:{make}{delay}", default_image=BASE)
    making = asyncio.create_task(getattr(backend, make)(BoxSpec()))
    await asyncio.sleep(delay)
    await backend.close()
    with contextlib.suppress(SandboxUnavailable):
        made = await making
        assert make == "start" or not made.alive
        await made.close()
    assert await owned_by(docker_endpoint, f"elsewhere:3:{make}{delay}") == []
    assert (backend._engine._client, backend._reaper, backend._open) == (None, None, {})
    assert not (await backend.probe()).ok


async def test_closing_waits_for_the_removal_of_a_box_that_just_died(docker_endpoint, monkeypatch):
    backend = DockerBackend(docker_endpoint, owner="elsewhere:4:4", default_image=BASE)
    box = await backend.start(BoxSpec())
    remove = backend._engine.remove

    async def remove_late(box_id: str) -> None:
        await asyncio.sleep(1)
        await remove(box_id)

    monkeypatch.setattr(backend._engine, "remove", remove_late)
    engine = DockerEngine(docker_endpoint)
    await engine.remove(box.id)
    engine.close()
    assert await box.wait_closed()
    await backend.close()
    await box.close()
    assert backend._engine._client is None


async def test_a_box_that_is_killed_says_so(docker_backend, docker_endpoint):
    box = await docker_backend.start(BoxSpec())
    running = asyncio.create_task(box.run(FOREVER))
    await asyncio.sleep(0.1)
    engine = DockerEngine(docker_endpoint)
    await engine.remove(box.id)
    engine.close()
    assert "killed" in await asyncio.wait_for(box.wait_closed(), 60)
    with pytest.raises(SandboxDied, match="killed"):
        await running


async def test_a_box_whose_guest_runs_out_of_memory_says_so(docker_backend):
    limits = BoxLimits(memory_bytes=16 * 2**20, workspace_bytes=12 * 2**20, scratch_bytes=0)
    box = await docker_backend.start(BoxSpec(limits=limits))
    # Files lie in memory, and the guest, who writes this one, is all that could be killed for it.
    with pytest.raises(SandboxDied, match="memory"):
        await box.files.write("large", bytes(12 * 2**20 - 65536))
    assert "memory" in await box.wait_closed()


async def test_a_memory_hog_is_killed_and_its_box_lives_on(docker_backend):
    box = await docker_backend.start(BoxSpec(limits=BoxLimits(memory_bytes=128 * 2**20)))
    result = await box.run(shell_command("python3 -c 'x = bytearray(512 * 2**20)'"))
    assert result.exit_code == 128 + signal.SIGKILL
    assert (await box.run(Command(("true",)))).ok
    await box.close()


@pytest.mark.slow
async def test_a_daemon_that_dies_takes_its_boxes_with_it(docker_daemon):
    with private_daemon() as daemon:
        await asyncio.to_thread(copy_image, docker_daemon, daemon, BASE)
        backend = DockerBackend(Endpoint(daemon.host), default_image=BASE)
        box = await backend.start(BoxSpec())
        running = asyncio.create_task(box.run(FOREVER))
        await asyncio.sleep(0.1)
        os.kill(daemon.pid, signal.SIGKILL)
        why = await asyncio.wait_for(box.wait_closed(), 60)
        assert "daemon went away" in why
        with pytest.raises(SandboxDied, match="daemon went away"):
            await running
        with pytest.raises(SandboxUnavailable, match="no Docker daemon answers"):
            await backend.start(BoxSpec())
        await backend.close()


async def test_a_sweep_removes_what_the_dead_left_and_nothing_else(docker_backend, docker_endpoint, tmp_path):
    # Another suite may use the same daemon at the same time.
    ghostly = f"elsewhere:{os.getpid()}:1"
    showing = BoxSpec(extra_read_only=((tmp_path, "/kagura/further"),))
    ghost = DockerBackend(docker_endpoint, owner=ghostly, default_image=BASE)
    left = await ghost.start(showing)
    mine = await docker_backend.start(showing)
    try:
        assert await docker_backend.sweep(owner_alive) == 0
        assert await docker_backend.sweep(lambda owner: owner != ghostly) == 1
        assert not await exists(docker_endpoint, left.id)
        assert await owned_by(docker_endpoint, ghostly) == []
        assert (await mine.run(Command(("true",)))).ok
    finally:
        await ghost.close()


async def test_a_sweep_leaves_what_a_person_has_started_from_an_image_that_was_made_of_a_box(docker_backend, client):
    ghostly = f"elsewhere:{os.getpid()}:2"
    theirs = client.api.create_container(BASE, "true", labels={OWNER_LABEL: ghostly, BOX_LABEL: "box-1"})["Id"]
    try:
        assert await docker_backend.sweep(lambda owner: owner != ghostly) == 0
    finally:
        client.api.remove_container(theirs, v=True)


async def test_a_sweep_without_a_daemon_finds_nothing(tmp_path):
    backend = DockerBackend(Endpoint(f"unix://{tmp_path / 'no.sock'}"))
    assert await backend.sweep(owner_alive) == 0
    await backend.close()


POSTINST = """#!/bin/sh
set -e
echo 'tool:x:777:777::/nonexistent:/bin/false' >> /etc/passwd
chown 777:777 /opt/kagura-tool/data
chmod 2750 /opt/kagura-tool/data
"""


@pytest.fixture
async def remapped(remapped_daemon: TestDaemon) -> AsyncIterator[DockerBackend]:
    backend = DockerBackend(Endpoint(remapped_daemon.host), default_image=BASE)
    yield backend
    await backend.close()


@pytest.fixture
def package(tmp_path: Path) -> bytes:
    """A small Debian package whose installation does what root may do."""
    root = tmp_path / "package"
    for name in ("DEBIAN", "opt/kagura-tool/data", "usr/bin"):
        (root / name).mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: kagura-tool\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n"
        "Description: a tool for a test\n"
    )
    (root / "DEBIAN/postinst").write_text(POSTINST)
    (root / "usr/bin/kagura-tool").write_text("#!/bin/sh\necho installed\n")
    for path in ("DEBIAN/postinst", "usr/bin/kagura-tool"):
        (root / path).chmod(0o755)
    archive = tmp_path / "kagura-tool.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(root), str(archive)], check=True)
    return archive.read_bytes()


async def test_a_daemon_with_user_namespaces_says_so_and_has_nothing_to_be_advised(remapped):
    probe = await remapped.probe()
    assert probe.ok
    assert "maps its root to an ordinary user" in probe.reason
    assert probe.advice == ""


async def test_a_daemon_without_them_works_and_is_told_what_it_lacks(docker_backend):
    probe = await docker_backend.probe()
    assert probe.ok
    assert "userns-remap" in probe.advice


async def test_root_of_a_box_is_nobody_on_the_machine(remapped):
    box = await remapped.start(BoxSpec(writable_root=True))
    assert (await box.run(Command(("id", "-u")))).stdout.text == "0\n"
    inside, outside, _ = (await box.run(Command(("cat", "/proc/self/uid_map")))).stdout.text.split()
    assert inside == "0"
    assert int(outside) > 65535


async def test_a_package_is_installed_and_gone_with_the_box(remapped, package):
    box = await remapped.start(BoxSpec(writable_root=True))
    await box.files.write("tool.deb", package)
    installed = await box.run(shell_command("dpkg -i tool.deb && kagura-tool && stat -c '%u %a' /opt/kagura-tool/data"))
    assert installed.stdout.text.endswith("installed\n777 2750\n"), installed.stderr.text
    assert (await box.run(shell_command("dpkg -r kagura-tool"))).ok
    await box.close()
    fresh = await remapped.start(BoxSpec(writable_root=True))
    assert not (await fresh.run(Command(("kagura-tool",)))).ok


async def test_root_of_a_box_has_the_powers_of_a_package_manager_and_no_others(remapped):
    box = await remapped.start(BoxSpec(writable_root=True))
    status = (await box.run(shell_command("grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status"))).stdout.text
    found = dict(line.split(":\t") for line in status.splitlines())
    # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETFCAP.
    wanted = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 31))
    assert int(found["CapBnd"], 16) == wanted
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    for line in ("mount -t tmpfs none /mnt", "mknod /x b 8 0", "unshare -m true"):
        assert not (await box.run(shell_command(line))).ok, line


async def test_where_root_would_be_the_machines_root_nobody_becomes_it(docker_backend):
    with pytest.raises(SandboxUnsupported, match="userns-remap"):
        await docker_backend.start(BoxSpec(writable_root=True))
