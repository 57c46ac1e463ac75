"""What of a project reaches a box besides its files: nothing that listens, nothing behind a link, no device."""

import asyncio
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import WorkspaceUnreadable
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.membrane.project import check_project
from kagura_kernel.sandbox.backend import Box, BoxSpec

READ_ONLY = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)

CONNECT = """
import os, socket, sys
for folder in ("/workspace", "/workspace/.git", "/run/kagura/lower", "/run/kagura/lower/.git", "/run/kagura/upper"):
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(folder + "/agent.sock")
        print("reached", folder)
    except OSError:
        pass
    try:
        os.close(os.open(folder + "/pipe", os.O_WRONLY | os.O_NONBLOCK))
        print("opened", folder)
    except OSError:
        pass
print("tried", os.path.exists("/workspace/notes.md"))
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A project with a short path, since the name of a socket may have 107 bytes."""
    # A box of root's may not pass the directories above pytest's own.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    root = folder / "project"
    (root / ".git").mkdir(parents=True)
    (root / "notes.md").write_text("notes\n")
    yield root
    shutil.rmtree(folder)


async def printed(box: Box, code: str) -> str:
    result = await box.run(Command(("python3", "-c", code)))
    assert result.ok, result.stderr.text
    return result.stdout.text


@pytest.mark.parametrize("policy", [SandboxPolicy(), READ_ONLY, SandboxPolicy(writable_roots=("/workspace/out",))])
async def test_what_listens_in_the_project_cannot_be_reached(backend, project, policy):
    (project / "out").mkdir()
    readers = []
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        for listener, folder in ((one, project), (other, project / ".git")):
            listener.bind(str(folder / "agent.sock"))
            listener.listen()
            (folder / "agent.sock").chmod(0o777)
            os.mkfifo(folder / "pipe", 0o666)
            (folder / "pipe").chmod(0o666)
            # As long as somebody reads a pipe, it can be opened for writing.
            readers.append(os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK))
        try:
            box = await backend.start(BoxSpec(workspace=project, policy=policy))
            assert await printed(box, CONNECT) == "tried True\n"
        finally:
            for reader in readers:
                os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
async def test_a_device_in_the_project_is_none_in_the_box(backend, project):
    os.mknod(project / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    (project / "zero").chmod(0o666)
    for policy in (SandboxPolicy(), READ_ONLY):
        box = await backend.start(BoxSpec(workspace=project, policy=policy))
        for place in ("/workspace", "/run/kagura/lower"):
            assert not (await box.run(shell_command(f"head -c 1 {place}/zero"))).ok
        assert (await box.run(shell_command("head -c 1 /dev/zero"))).ok


@pytest.mark.parametrize("part", ["project", "folder above it"])
async def test_a_project_that_became_a_link_since_it_was_checked_is_not_shown(backend, project, part):
    checked = _check_and_swap(project, inner=part == "folder above it")
    with pytest.raises(WorkspaceUnreadable, match="link"):
        await backend.start(BoxSpec(workspace=checked))


async def test_while_a_project_is_swapped_for_a_link_again_and_again_no_box_shows_what_the_link_leads_to(
    backend, project
):
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "id_ed25519").write_text("a private key")
    swapping = asyncio.create_task(asyncio.to_thread(_swap, project, secret, stop := asyncio.Event()))
    shown = refused = 0
    try:
        while shown + refused < 30:
            try:
                box = await backend.start(BoxSpec(workspace=project))
            except WorkspaceUnreadable:
                refused += 1
                continue
            try:
                assert (await box.run(shell_command("ls"))).stdout.text.split() in (["notes.md"], [])
                shown += 1
            finally:
                await box.close()
    finally:
        stop.set()
        await swapping


def _check_and_swap(project: Path, *, inner: bool) -> Path:
    """A project that was in order when it was looked at, and leads into a home directory now."""
    home = project.parent / "home"
    for folder in (home / ".ssh" / "inner", home / "inner", project / "inner"):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("a private key")
    checked = check_project(project / "inner" if inner else project, home=home, private=[])
    project.rename(project.parent / "away")
    project.symlink_to(home if inner else home / ".ssh")
    return checked


def _swap(project: Path, secret: Path, stop: asyncio.Event) -> None:
    aside, link = project.parent / "aside", project.parent / "link"
    link.symlink_to(secret)
    while not stop.is_set():
        project.rename(aside)
        link.rename(project)
        project.rename(link)
        aside.rename(project)
