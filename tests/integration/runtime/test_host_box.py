"""Boxes without walls: what they refuse, and that nothing of them outlives a kernel that is killed."""

import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.runtime.host_box import NO_WALLS, HostBackend
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until

KERNEL = """
import asyncio, sys
from kagura_kernel.domain.commands import CommandLimits, shell_command
from kagura_kernel.runtime.host_box import HostBackend
from kagura_kernel.sandbox.backend import BoxSpec

async def main():
    box = await HostBackend().start(BoxSpec())
    print(box.files.root, flush=True)
    line = f"(setsid sleep {sys.argv[1]} &); sleep {sys.argv[1]}"
    await box.run(shell_command(line, limits=CommandLimits(None, None)))

asyncio.run(main())
"""


def test_a_killed_kernel_leaves_no_process_and_the_next_one_removes_its_files(tmp_path, monkeypatch):
    marker = str(secrets.randbelow(10**8) + 10**8)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    process = subprocess.Popen([sys.executable, "-c", KERNEL, marker], stdout=subprocess.PIPE, text=True)
    try:
        place = Path(process.stdout.readline().strip()).parent
        # Two sleeps, beside the kernel itself.
        wait_until(lambda: len(processes_with(marker)) >= 3)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    wait_until(lambda: not processes_with(marker))
    assert place.parent == tmp_path
    HostBackend()
    assert not place.exists()


async def test_a_box_that_goes_on_keeps_its_files_and_takes_them_along():
    backend = HostBackend()
    box = await backend.start(BoxSpec())
    place = Path(box.files.root).parent
    HostBackend()
    assert place in place.parent.glob("*")
    assert box.notes == (NO_WALLS,)
    await backend.close()
    assert place not in place.parent.glob("*")


async def test_paths_are_shown_nowhere_else(tmp_path):
    with pytest.raises(SandboxUnsupported, match="there is no box"):
        await HostBackend().start(BoxSpec(extra_read_only=((tmp_path, "/kagura/kit"),)))
