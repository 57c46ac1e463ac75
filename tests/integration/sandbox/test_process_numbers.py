"""Boxes start where a process's number means nothing to the system's own /proc, as inside a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

# Numbers are handed out in order: after these, none of the first hundred belongs to anybody but process 1.
PROGRAM = """
import asyncio, os
for _ in range(100):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
assert not os.path.exists("/proc/2")
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    try:
        print((await backend.probe()).reason)
    finally:
        await backend.close()

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a space of processes without one of users")
def test_a_box_starts_where_low_numbers_belong_to_nobody():
    unshare = shutil.which("unshare")
    assert unshare is not None
    command = [unshare, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "a bubblewrap box started and ran a command\n", done.stderr
