"""A "box" without walls: a guest as an ordinary process of this machine, which works in a copy of the project.

What a run does there it does as the user, with the user's network and files. It is for machines that are a sandbox
themselves (a container, a hosted notebook), and carries runs whose commands go to the host one by one. Only the
owner's settings lead here. Its protocol is that of every box, so that changes are collected and wait like anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kagura_kernel.domain.errors import SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.policy import HOST, IsolationClass
from kagura_kernel.runtime.host import MARKER, Watchdog, stop_family
from kagura_kernel.sandbox.backend import BoxSpec, Failed, Listener, Probe, ServeStream
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv, guest_payload
from kagura_kernel.sandbox.box import LEFT_OUT, PipedBox, sizes
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.owner import owner_alive, this_owner
from kagura_kernel.sandbox.pipe import FdPipe
from kagura_kernel.sandbox.populate import send_project

NO_WALLS = "There is no box: what this run does it does on this machine, as you, with your files and your network"
"""What every card of such a run says."""

_READY_SECONDS = 60.0
_END_SECONDS = 5.0
_PREFIX = "kagura-host-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-(\d+)-")


class HostBox(PipedBox):
    """A box whose loopback is the machine's own, where others listen at the same time."""

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Listen on a free port, whichever was asked for; the answer says which it is."""
        return await super().listen(replace(listener, port=0), serve, failed)


class HostBackend:
    """Starts boxes that are none.

    Args:
        python: Interpreter for the guest; None is the one that runs this.
        name: What its boxes say they are of.
    """

    isolation = IsolationClass.NONE
    notes: tuple[str, ...] = (NO_WALLS,)  # what a reader should know of each of its boxes
    outlives = False  # whether what runs in a box may outlive this process, when that is killed

    def __init__(self, python: str | None = None, name: str = HOST) -> None:
        self.name = name
        self._open: set[HostBox] = set()
        self._python = python or sys.executable
        _sweep()

    async def probe(self, image: str | None = None) -> Probe:
        """That it works: there is nothing that could be missing."""
        del image
        return Probe(ok=True, reason="this machine is taken as it is")

    async def start(self, spec: BoxSpec) -> HostBox:
        """A box that is ready for its first command.

        Raises:
            SandboxUnsupported: paths of the host are to be shown in another place, which needs a box.
            SandboxUnavailable: its process cannot be started.
            WorkspaceError: the project cannot be copied.
        """
        home = Path(tempfile.mkdtemp(prefix=_prefix()))
        started: _Started | None = None
        try:
            started = _Started(self._python, home, spec, self._place(spec, home), keeps=not self.outlives)
            await started.get_ready(spec)
        except BaseException:
            if started is not None:
                await asyncio.shield(started.free())
            else:
                shutil.rmtree(home, ignore_errors=True)
            raise
        free = started.free

        async def closed() -> None:
            self._open.discard(box)
            await free()

        box = HostBox(
            started.channel,
            backend=self.name,
            isolation=self.isolation,
            image=spec.image or "",
            notes=self.notes,
            on_close=closed,
        )
        self._open.add(box)
        return box

    def _place(self, spec: BoxSpec, home: Path) -> Mapping[str, str]:
        """Variables of its commands, once what it shows is in its place."""
        del home
        if spec.extra_read_only or spec.shown:
            raise SandboxUnsupported(self.name, "showing paths of this machine in other places: there is no box")
        return spec.env

    async def close(self) -> None:
        """Close every box that is open."""
        for box in tuple(self._open):
            await box.close()


class _Started:
    """One guest process, its pipe and its directory."""

    def __init__(self, python: str, home: Path, spec: BoxSpec, env: Mapping[str, str], *, keeps: bool) -> None:
        self._home = home
        workspace = home / "workspace"
        workspace.mkdir()
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        box_id = new_box_id()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own stub
                guest_argv(python),
                stdin=their_in,
                stdout=their_out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", MARKER: box_id},
            )
        except OSError as problem:
            os.close(our_in)
            os.close(our_out)
            raise SandboxUnavailable(f"{python} cannot be started ({problem.strerror})") from problem
        finally:
            os.close(their_in)
            os.close(their_out)
        self._keeper = Watchdog(self.process.pid, box_id) if keeps else None
        self.channel = BoxChannel(box_id, FdPipe(our_in, our_out), workspace=str(workspace), explain=self._explain)
        config = GuestConfig(
            workspace=str(workspace),
            protected=spec.policy.untold,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(home),
                "LANG": "C.UTF-8",
                "TERM": "dumb",
                **env,
                MARKER: box_id,
            },
            writable=spec.policy.writable,
        )
        self._payload = guest_payload(config, same_python=python == sys.executable)

    async def get_ready(self, spec: BoxSpec) -> None:
        """Boot the guest and give it the project."""
        self.channel.start(self._payload)
        await self.channel.hello(_READY_SECONDS)
        if spec.workspace is not None:
            limit = sizes(spec.limits).sendable
            await send_project(self.channel, spec.workspace, exclude=LEFT_OUT, limit_bytes=limit)

    async def free(self) -> None:
        """End the guest and all that it started, and remove its directory."""
        await self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, _END_SECONDS)
        # A guest that was killed could not end its commands, and here no namespace ends them with it.
        await asyncio.to_thread(stop_family, self.process.pid, self.channel.box_id)
        self.process.kill()
        await asyncio.to_thread(self.process.wait)
        if self._keeper is not None:
            await asyncio.to_thread(self._keeper.dismiss)
        await asyncio.to_thread(shutil.rmtree, self._home, ignore_errors=True)

    async def _explain(self) -> str:
        code = await asyncio.to_thread(self.process.wait, 0.4)
        return f"the guest was ended by signal {-code}" if code < 0 else f"the guest ended with exit code {code}"


def _prefix() -> str:
    _, pid, started = this_owner().rsplit(":", 2)
    return f"{_PREFIX}{pid}-{started}-"


def _sweep() -> None:
    """Remove the directories of processes that were killed; their commands were ended by their keepers."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        found = _NAME.match(place.name)
        if found is None or owner_alive(f"{socket.gethostname()}:{found[1]}:{found[2]}"):
            continue
        with contextlib.suppress(OSError):
            if place.stat(follow_symlinks=False).st_uid == os.getuid():
                shutil.rmtree(place, ignore_errors=True)
