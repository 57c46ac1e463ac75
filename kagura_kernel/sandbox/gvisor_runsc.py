"""gVisor boxes without Docker: runsc as a child, on a bundle of ours, with the system's programs and its own kernel.

A box sees what a bubblewrap box sees, but no system call of it reaches the host's kernel: runsc's answers. The project
travels into a memory-backed workspace over the pipe. Works as root and, where user namespaces are allowed, as anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.policy import CommandLimits, IsolationClass
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.sandbox.backend import WORKSPACE, Box, BoxSpec, Probe
from kagura_kernel.sandbox.boot import guest_argv, guest_payload
from kagura_kernel.sandbox.box import PipedBox
from kagura_kernel.sandbox.bubblewrap_request import uncounted_notes
from kagura_kernel.sandbox.bwrap_line import HOME
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker_workspace import ReadOnlyBox, send_as_root, send_workspace
from kagura_kernel.sandbox.gvisor_bundle import guest_config_for, job_for
from kagura_kernel.sandbox.gvisor_kept import KeptBox, launch
from kagura_kernel.sandbox.mending import advise, read_facts
from kagura_kernel.sandbox.populate import copy_notes
from kagura_kernel.sandbox.pythonenv import PythonView, current_view

NAME = "gvisor"
INSTALL = "Install gVisor's runsc: `apt install runsc`, or the package of your distribution."
TOO_OLD = "this release of runsc is too old for today's programs (`ls` fails in a box): install one from gVisor itself"
PLATFORMS = ("systrap", "ptrace", "kvm")
"""In the order they are tried. KVM comes last: where it only seems to be there, a box hangs instead of failing."""

_PROGRAMS = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin")
_HELLO_SECONDS = 40.0
_LAST_WORDS = 0.6
_END_SECONDS = 12.0
_PROBE_KEPT = 60.0


class RunscBackend:
    """Starts boxes by runsc on this machine; a `SandboxBackend` that can park.

    Args:
        program: The runsc program; None looks in the system's directories, then on PATH.
        platform: How runsc catches system calls; None finds out which way works, by starting a box each.
        view: The Python that boxes see; None is the running one.
        python: Interpreter for the keepers.
    """

    name = NAME
    isolation = IsolationClass.GVISOR

    def __init__(
        self,
        *,
        program: str | None = None,
        platform: str | None = None,
        view: PythonView | None = None,
        python: str = sys.executable,
    ) -> None:
        self._program = program
        self._platforms = (platform,) if platform else PLATFORMS
        self._platform: str | None = None
        self._notes: tuple[str, ...] = ()
        self._given_view = view
        self._view: PythonView | None = None
        self._python = python
        self._open: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        self._finding = asyncio.Lock()
        self._probe: tuple[float, Probe] | None = None
        self._closed = False

    async def probe(self, image: str | None = None) -> Probe:
        """Whether a box starts and runs a command on a kernel of its own; kept for a minute.

        An image means nothing here: asking for one is a no.
        """
        if image is not None:
            return Probe(ok=False, reason=f"runsc alone has no images, and {image} was asked for")
        if self._probe is not None and time.monotonic() < self._probe[0]:
            return self._probe[1]
        try:
            reason = f"runsc starts boxes with {await self._find_platform()}"
            found = Probe(ok=True, reason=reason, advice=self._notes[0] if self._notes else "")
        except SandboxUnavailable as error:
            found = Probe(ok=False, reason=error.reason, install=error.install or "")
        except KaguraError as error:
            found = Probe(ok=False, reason=error.message.rstrip("."))
        self._probe = time.monotonic() + _PROBE_KEPT, found
        return found

    async def start(self, spec: BoxSpec) -> Box:
        """A box with the project in it, ready for its first command.

        Raises:
            SandboxUnavailable: it cannot be had; the text says what to install.
            SandboxUnsupported: the spec asks for what these boxes do not have.
            WorkspaceError: the project cannot be sent.
        """
        opened = await self._launch(spec, await self._find_platform())
        return await self.hand_over(opened, spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> ParkedRunsc:
        """A box that waits for a project.

        Raises:
            SandboxUnavailable: it cannot be had.
        """
        opened = await self._launch(spec, await self._find_platform())
        self._open[opened.id] = opened.end
        return ParkedRunsc(self, opened)

    async def close(self) -> None:
        """Close every box, parked ones too; may be called twice."""
        self._closed = True
        while self._open:
            closers = list(self._open.values())
            self._open.clear()
            await asyncio.gather(*(close() for close in closers))

    # ------------------------------------------------------------- launching

    async def _find_platform(self) -> str:
        """The first way that a box starts in; only what has been seen to work is kept."""
        async with self._finding:
            if self._platform is None:
                failed: list[SandboxUnavailable] = []
                for platform in self._platforms:
                    try:
                        await self._try_out(platform)
                    except SandboxUnavailable as error:
                        failed.append(error)
                        continue
                    self._platform = platform
                    break
                else:
                    # All ways fail for the same reason, or ptrace's is the one that can be mended.
                    raise failed[min(1, len(failed) - 1)]
            return self._platform

    async def _try_out(self, platform: str) -> None:
        opened = await self._launch(BoxSpec(), platform)
        try:
            limits = CommandLimits(total=20, idle=20)
            told = (await opened.channel.run(Command(("uname", "-r"), limits=limits))).stdout.text.strip()
            lists = await opened.channel.run(Command(("ls", "/"), limits=limits))
        finally:
            await opened.end()
        if not told or told == os.uname().release:
            raise SandboxUnavailable(f"a box of {platform} starts, but runs on the kernel of this machine")
        self._notes = () if lists.ok else (TOO_OLD,)

    async def _launch(self, spec: BoxSpec, platform: str) -> Opened:
        """A box whose guest has answered, with an empty workspace."""
        _refuse_unsupported(spec)
        self._refuse_when_closed()
        if self._view is None:
            self._view = self._given_view or current_view([Path.home()])
        runsc = [_find_program(self._program), "--network=none", f"--platform={platform}"]
        runsc += ["--ignore-cgroups", "--oci-seccomp", *(["--rootless"] if os.geteuid() else [])]
        job = job_for(spec, self._view, runsc)
        payload = guest_payload(guest_config_for(spec, self._view), same_python=self._view.python == sys.executable)
        opened = await _open(self._python, self._view, job, payload)
        self._open[opened.id] = opened.end
        opened.on_end = lambda: self._open.pop(opened.id, None)
        return opened

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise SandboxUnavailable("this gVisor back-end was closed")

    async def hand_over(self, opened: Opened, spec: BoxSpec, *, warm: bool) -> Box:
        """The box as its user sees it, with the project sent into it."""
        try:
            left_out = await opened.fill(spec)
            self._refuse_when_closed()
        except BaseException:
            await asyncio.shield(opened.end())
            raise
        kind = PipedBox if spec.policy.writable else ReadOnlyBox
        box = kind(
            opened.channel,
            id=opened.id,
            backend=self.name,
            isolation=self.isolation,
            warm=warm,
            notes=(*opened.notes, *self._notes, *copy_notes(spec, left_out)),
            on_close=opened.end,
        )
        self._open[box.id] = box.close
        return box


class ParkedRunsc:
    """A box that waits; made by `RunscBackend.park`."""

    def __init__(self, backend: RunscBackend, opened: Opened) -> None:
        self._backend = backend
        self._opened = opened
        self._used = False

    @property
    def alive(self) -> bool:
        """Whether its guest is there."""
        return not self._used and not self._opened.channel.closed

    async def take(self, spec: BoxSpec) -> Box:
        """Send the project in."""
        self._used = True
        return await self._backend.hand_over(self._opened, spec, warm=True)

    async def close(self) -> None:
        """End it."""
        self._used = True
        await self._opened.end()


class Opened:
    """A box whose guest has said hello, not yet handed out."""

    def __init__(self, kept: KeptBox, channel: BoxChannel, view: PythonView, notes: tuple[str, ...]) -> None:
        self.id = channel.box_id
        self.channel = channel
        self.notes = notes
        self.on_end: Callable[[], object] = lambda: None
        self._kept = kept
        self._view = view

    async def end(self) -> None:
        """End everything in it and wait until nothing is left; may be called twice."""
        self.on_end()
        await self.channel.close()
        self._kept.kill()
        try:
            await asyncio.wait_for(self._kept.gone(), _END_SECONDS)
        except TimeoutError:
            self._kept.destroy()
            await self._kept.gone()

    async def fill(self, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project into the workspace; what was left out."""
        if spec.workspace is None:
            return ()
        if spec.policy.writable:
            return await send_workspace(self.channel, spec)
        return await self._fill_as_root(spec)

    async def _fill_as_root(self, spec: BoxSpec) -> tuple[str, ...]:
        """Fill a workspace that nobody in the box may write: as its root, who leaves before any command runs."""
        with _Streams() as streams:
            self._kept.enter(guest_argv(self._view.python), streams.theirs)
            streams.close_theirs()
            channel = BoxChannel.over_fds(self.id, *streams.hand_over(), workspace=WORKSPACE)
        same = self._view.python == sys.executable
        return await send_as_root(channel, spec, {"PATH": "/usr/bin:/bin"}, same_python=same)


class _Streams:
    """The two pipes of one guest; closes whatever was not handed over."""

    def __init__(self) -> None:
        self._ends: set[int] = set()
        try:
            guest_in, self._write = os.pipe2(os.O_CLOEXEC)
            self._ends |= {guest_in, self._write}
            self._read, guest_out = os.pipe2(os.O_CLOEXEC)
            self._ends |= {self._read, guest_out}
        except OSError as error:
            self._close(self._ends)
            raise SandboxUnavailable(f"no pipe can be made ({error.strerror})") from error
        self.theirs = (guest_in, guest_out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._ends)

    def close_theirs(self) -> None:
        self._close(self._ends & set(self.theirs))

    def hand_over(self) -> tuple[int, int]:
        self._ends -= {self._read, self._write}
        return self._read, self._write

    def _close(self, descriptors: set[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._ends -= descriptors


async def _open(python: str, view: PythonView, job: dict[str, Any], payload: bytes) -> Opened:
    with _Streams() as streams:
        kept = await launch(python, streams.theirs)
        streams.close_theirs()

        async def explain() -> str:
            with contextlib.suppress(TimeoutError):
                return (await asyncio.wait_for(kept.gone(), _LAST_WORDS)).why
            return ""

        channel = BoxChannel.over_fds(new_box_id(), *streams.hand_over(), workspace=WORKSPACE, explain=explain)
    opened = Opened(kept, channel, view, ())
    try:
        channel.start(payload)
        missing = await kept.started(job)
        await channel.hello(_HELLO_SECONDS)
    except SandboxUnavailable as error:
        await asyncio.shield(opened.end())
        said = (await kept.gone()).words.strip().splitlines()
        why = error.reason.rstrip(".") + (f" ({said[-1][:300]})" if said and said[-1][:300] not in error.reason else "")
        raise SandboxUnavailable(f"runsc did not start a box: {why}", advise(why, read_facts()) or None) from error
    except BaseException:
        await asyncio.shield(opened.end())
        raise
    opened.notes = tuple(uncounted_notes(missing))
    return opened


def _refuse_unsupported(spec: BoxSpec) -> None:
    if spec.image is not None:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", f"images, and {spec.image} was asked for")
    if spec.writable_root:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", "a writable root: use Docker with runsc as a runtime")
    for root in spec.policy.writable_roots:
        if not f"{root}/".startswith((f"{WORKSPACE}/", "/tmp/", f"{HOME}/")):  # noqa: S108 - the box's own /tmp
            raise SandboxUnsupported(NAME, f"a writable {root}: only {WORKSPACE}, /tmp and {HOME} can be written")


def _find_program(given: str | None) -> str:
    """The program that makes the walls, from directories that no box can have written."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable("runsc needs Linux")
    here: list[str] = []
    with contextlib.suppress(OSError):
        here.append(str(Path.cwd()))
    path = entries_outside([*_PROGRAMS, *os.environ.get("PATH", "").split(":")], here, os.path.realpath)
    program = given or shutil.which("runsc", path=":".join(path))
    if program is None:
        raise SandboxUnavailable("runsc is not installed", INSTALL)
    return program
