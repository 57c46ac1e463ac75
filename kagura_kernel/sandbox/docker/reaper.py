"""A small process that outlives a killed kernel by seconds, to remove the containers and volumes it held.

A guest ends when its pipe closes, but a parked container is frozen and a hostile program may have stopped the guest:
neither would notice. The reaper waits for the end of its standard input (the kernel's end of a pipe) or of the owner,
and then removes every container of that holder, and its volumes. Until it has something to do it imports nothing but
the standard library; where the rest lies it is told, and no file of a project has a say in that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.imports import trusted_path
from kagura_kernel.sandbox.docker.engine import DockerEngine
from kagura_kernel.sandbox.docker.flags import BOX_LABEL, FILLING, HOLDER_LABEL
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.owner import owner_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_ROOT = str(Path(__file__).resolve().parents[3])
_PROGRAM = """import json, sys
sys.path += [entry for entry in (*json.loads(sys.argv[2]), sys.argv[1]) if entry not in sys.path]
from kagura_kernel.sandbox.docker.reaper import main
main(*sys.argv[3:])"""
_LOOK_SECONDS = 2.0
_GIVE_UP_SECONDS = 30.0
_DONE = b"."


class Reaper:
    """The process, seen from the kernel; started once per holder, at its first box."""

    def __init__(self, endpoint: Endpoint, holder: str, owner: str) -> None:
        words = [endpoint.url, str(endpoint.certificates or ""), str(int(endpoint.verify)), holder, owner]
        self._process = subprocess.Popen(  # noqa: S603 - our own module and our own words
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, json.dumps(trusted_path()), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A session of its own: an interrupt or a kill of the kernel's process group does not reach it.
            start_new_session=True,
            cwd="/",
            env={},
        )

    @property
    def alive(self) -> bool:
        """Whether it still stands by."""
        return self._process.poll() is None

    def dismiss(self) -> None:
        """Everything is removed already: end it. May be called twice."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):
                self._process.stdin.write(_DONE)
                self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def is_ours(container: Mapping[str, Any]) -> bool:
    """Whether a container, in Docker's words, that bears our labels was made by us.

    An image that somebody has made of a box has the labels of that one, and so has whatever they start from it.
    """
    names = [str(name).removeprefix("/") for name in container.get("Names") or ()]
    box = (container.get("Labels") or {}).get(BOX_LABEL)
    return not names or any(name == box or name.startswith(FILLING) for name in names)


async def remove_left(engine: DockerEngine, label: str, unwanted: Callable[[str], bool]) -> int:
    """Remove each container whose value of `label` is unwanted; how many there were.

    Raises:
        SandboxUnavailable: the daemon does not answer.
    """
    removed = 0
    for container in await engine.containers(label):
        if is_ours(container) and unwanted(str(container["Labels"][label])):
            await engine.remove(str(container["Id"]))
            removed += 1
    return removed


async def remove_left_volumes(engine: DockerEngine, label: str, unwanted: Callable[[str], bool]) -> int:
    """Remove each volume whose value of `label` is unwanted and that no container has; how many there were.

    Raises:
        SandboxUnavailable: the daemon does not answer.
    """
    found = [one for one in await engine.volumes(label) if unwanted(str((one.get("Labels") or {})[label]))]
    return sum([await engine.remove_volume(str(volume["Name"])) for volume in found])


def wait_for_the_end(owner: str) -> bool:
    """Block until the owner is gone, and say whether there is something to reap."""
    while True:
        ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
        if ready:
            return os.read(0, 1) != _DONE
        if not owner_alive(owner):
            return True


async def reap(endpoint: Endpoint, holder: str) -> None:
    """Remove every container of that holder, also one that the daemon was just making, and its volumes."""
    engine = DockerEngine(endpoint)
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:  # noqa: PLR2004 - nothing there, and still nothing a moment later
        # The daemon may be restarting; the next start of a kernel sweeps what is left after all.
        with contextlib.suppress(SandboxUnavailable):
            found = [box for box in await engine.containers(f"{HOLDER_LABEL}={holder}") if is_ours(box)]
            await asyncio.gather(*(engine.remove(str(box["Id"])) for box in found), return_exceptions=True)
            volumes = await engine.volumes(f"{HOLDER_LABEL}={holder}")
            await asyncio.gather(*(engine.remove_volume(one["Name"]) for one in volumes), return_exceptions=True)
            quiet = 0 if found or volumes else quiet + 1
        await asyncio.sleep(0.5)
    engine.close()


def main(url: str, certificates: str, verify: str, holder: str, owner: str) -> None:
    """Wait, then reap."""
    if not wait_for_the_end(owner):
        return

    endpoint = Endpoint(url, Path(certificates) if certificates else None, verify == "1")
    asyncio.run(reap(endpoint, holder))
