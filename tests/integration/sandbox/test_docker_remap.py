"""Docker where a container's root is nobody outside: found, told, and the only place where commands may be root."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from tests.support.docker_images import BASE
from tests.support.dockerd import TestDaemon

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

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
