"""A back-end with real commands and no walls: the guest as an ordinary child process in a temporary directory.

For tests of everything above the sandbox, where a real box would cost time and root. It keeps the whole protocol of
`Box` (it passes the same conformance suite), and protects nothing: its isolation class is NONE, which product code
refuses.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import BoxSpec, Failed, Listener, Probe, ServeStream
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv, guest_payload
from kagura_kernel.sandbox.box import PipedBox, refuse_further
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.guest.processes import family, kill_all
from kagura_kernel.sandbox.populate import send_project

READY_SECONDS = 60.0
END_SECONDS = 5.0
LIMIT_BYTES = 256 * 2**20


class FakeBox(PipedBox):
    """A box whose loopback is the machine's own, which other tests use at the same time."""

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Listen on a free port, whichever was asked for; the answer says which it is."""
        return await super().listen(replace(listener, port=0), serve, failed)


class FakeBackend:
    """Starts boxes that are none. The workspace is a copy, sent over the pipe as for a remote box.

    Further directories are copies too, at places of the machine: a variable of the spec that holds the place in the box
    holds the place of the copy instead.

    Args:
        python: Interpreter for the guest; None is the one that runs the tests.
        broken: Makes `probe` and `start` fail with this reason, as where nothing is installed.
    """

    name = "fake"
    isolation = IsolationClass.NONE

    def __init__(self, python: str | None = None, broken: str = "") -> None:
        self.broken = broken
        self.boxes: list[FakeBox] = []
        self._python = python or sys.executable

    async def probe(self, image: str | None = None) -> Probe:
        """Whether it was made to work."""
        del image
        if self.broken:
            return Probe(ok=False, reason=self.broken, install="apt-get install nothing")
        return Probe(ok=True, reason="it needs nothing")

    async def start(self, spec: BoxSpec) -> FakeBox:
        """A box that is ready for its first command."""
        if self.broken:
            raise SandboxUnavailable(self.broken, "apt-get install nothing")
        refuse_further(spec, self.name)
        home = Path(tempfile.mkdtemp(prefix="kagura-fake-box-"))
        started: _Started | None = None
        try:
            started = _Started(self._python, home, spec)
            await started.get_ready(spec)
        except BaseException:
            if started is not None:
                await asyncio.shield(started.free())
            else:
                shutil.rmtree(home, ignore_errors=True)
            raise
        box = FakeBox(
            started.channel,
            id=started.channel.box_id,
            backend=self.name,
            isolation=self.isolation,
            image=spec.image or "",
            on_close=started.free,
        )
        self.boxes.append(box)
        return box

    async def close(self) -> None:
        """Close every box it started."""
        boxes, self.boxes = self.boxes, []
        for box in boxes:
            await box.close()


def _show(spec: BoxSpec, home: Path) -> dict[str, str]:
    """Copy further directories below `home`; the spec's variables, which lead to the copies.

    There are no mounts here, so a program finds a directory only by a variable that holds its place in the box.
    """
    env = dict(spec.env)
    for source, target in spec.extra_read_only:
        if not source.is_dir() or source.resolve() != source:
            raise PathNotShown(str(source), "it is not there, no directory, or behind a link")
        place = f"{home}/shown{target}"
        shutil.copytree(source, place, symlinks=True)
        env = {
            name: place + value.removeprefix(target) if f"{value}/".startswith(f"{target}/") else value
            for name, value in env.items()
        }
    return env


class _Started:
    """One guest process, its pipe and its directory."""

    def __init__(self, python: str, home: Path, spec: BoxSpec) -> None:
        self._home = home
        workspace = home / "workspace"
        workspace.mkdir()
        env = _show(spec, home)
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own stub
                guest_argv(python),
                stdin=their_in,
                stdout=their_out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            )
        except OSError as problem:
            os.close(our_in)
            os.close(our_out)
            raise SandboxUnavailable(f"{python} cannot be started ({problem.strerror})") from problem
        finally:
            os.close(their_in)
            os.close(their_out)
        self.channel = BoxChannel.over_fds(
            new_box_id(), our_in, our_out, workspace=str(workspace), explain=self._explain
        )
        config = GuestConfig(
            workspace=str(workspace),
            protected=spec.policy.read_only_subpaths,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(home),
                "LANG": "C.UTF-8",
                "TERM": "dumb",
                "KAGURA_FAKE_BOX": self.channel.box_id,
                **env,
            },
            writable=spec.policy.writable,
        )
        self._payload = guest_payload(config, same_python=python == sys.executable)

    async def get_ready(self, spec: BoxSpec) -> None:
        """Boot the guest and give it the project."""
        self.channel.start(self._payload)
        await self.channel.hello(READY_SECONDS)
        if spec.workspace is not None:
            await send_project(self.channel, spec.workspace, limit_bytes=LIMIT_BYTES)

    async def free(self) -> None:
        """End the guest and remove its directory."""
        await self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, END_SECONDS)
        self.process.kill()
        await asyncio.to_thread(self.process.wait)
        # A guest that was killed could not end its commands, and here no namespace ends them with it.
        mark = f"KAGURA_FAKE_BOX={self.channel.box_id}\0".encode()
        await asyncio.to_thread(kill_all, lambda: family(self.process.pid, mark))
        await asyncio.to_thread(shutil.rmtree, self._home, ignore_errors=True)

    async def _explain(self) -> str:
        code = await asyncio.to_thread(self.process.wait, 0.4)
        return f"the guest was ended by signal {-code}" if code < 0 else f"the guest ended with exit code {code}"
