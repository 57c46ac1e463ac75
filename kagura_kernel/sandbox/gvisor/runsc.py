"""gVisor boxes without Docker: runsc as a child, on a bundle of ours, with the system's programs and its own kernel.

A box sees what a bubblewrap box sees, but no system call of it reaches the host's kernel: runsc's answers. The project
travels into a memory-backed workspace over the pipe. Works as root and, where user namespaces are allowed, as anybody.

What one gVisor box without Docker is made of: the steps that make its root, and its OCI bundle. Only decides.

It shows what a bubblewrap box shows, because that is asked what it would show. The places that can be written are
memory of the box's own; nothing of the project is mounted, it travels over the pipe as into a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import CommandLimits, IsolationClass
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.sandbox.backend import WORKSPACE, Box, BoxSpec, Probe
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv, guest_payload
from kagura_kernel.sandbox.box import PipedBox, ReadOnlyBox, Sizes, identities, refuse_further, sizes
from kagura_kernel.sandbox.bubblewrap.python_view import PythonView, current_view
from kagura_kernel.sandbox.bubblewrap.request import SHIMS, guest_config, request_for
from kagura_kernel.sandbox.docker.flags import TOO_OLD, host_threads
from kagura_kernel.sandbox.docker.seccomp import oci_filter
from kagura_kernel.sandbox.gvisor.opened import Opened, open_box
from kagura_kernel.sandbox.populate import copy_notes
from kagura_kernel.sandbox.supervisor.arguments import HOME, NO_LAYER, Staged, bwrap_arguments
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.gvisor import EMPTY, ETC, HOLLOW

_ARITY = {
    **dict.fromkeys(("--ro-bind", "--bind", "--symlink"), 2),
    **dict.fromkeys(("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"), 0),
}
_TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - the box's own
_MEMORY = (WORKSPACE, HOME, *_TEMPORARY)

Step = tuple[str, str, str]


def job_for(spec: BoxSpec, view: PythonView, runsc: Sequence[str]) -> dict[str, Any]:
    """The keeper's job.

    Args:
        spec: What the box shall be.
        view: The Python that it sees.
        runsc: The program and its options.
    """
    steps = list(_steps(spec, view))
    limits = spec.limits
    return {
        "runsc": list(runsc),
        "steps": [step for step in steps if not _in_memory(step)],
        "bundle": _bundle(spec, view, [step for step in steps if _in_memory(step)]),
        "memory_bytes": limits.memory_bytes,
        "processes": host_threads(limits),
        "cpus": limits.cpus,
    }


def guest_config_for(spec: BoxSpec, view: PythonView) -> GuestConfig:
    """What the guest is told."""
    request = request_for(spec, spec.limits, "", view, copy=True)
    return guest_config(spec, view, {**request, "writable": spec.policy.writable})


def notes_for(spec: BoxSpec, view: PythonView) -> tuple[str, ...]:
    """What to know of such a box: runsc shows the kernel's Python as it is, for reading only."""
    return (NO_LAYER,) if spec.policy.network_access and view.layered else ()


def _steps(spec: BoxSpec, view: PythonView) -> Iterator[Step]:
    """How the root is made: (what to do, what is shown or linked to, where in the box)."""
    staged = Staged(
        etc=ETC,
        empty=EMPTY,
        scratch="",
        python=tuple((path, path) for path in view.directories),
        python_links=view.links,
        python_hidden=view.hidden,
        shims=tuple((name, view.python) for name in ("python", "python3")),
    )
    yield from (("folder", "", path) for path in (*_MEMORY, "/proc", "/dev", "/sys", "/run", "/var", SHIMS))
    words = bwrap_arguments(staged, (), seccomp_fd=-1)
    at = 0
    while at < len(words) and words[at] != "--":
        count = _ARITY.get(words[at], 1)
        match words[at : at + 1 + count]:
            case ["--ro-bind", source, target]:
                yield "show", source, target
            case ["--symlink", source, target]:
                yield "link", source, target
            case ["--tmpfs", target]:
                yield "show", HOLLOW, target
        at += 1 + count
    yield from (("further", str(source), target) for source, target in spec.extra_read_only)


def _in_memory(step: Step) -> bool:
    """Whether its place is hidden by memory of the box, so that it can only be shown on top of that."""
    action, _, target = step
    return action == "show" and any(target.startswith(f"{place}/") for place in _MEMORY)


def _bundle(spec: BoxSpec, view: PythonView, shown: Sequence[Step]) -> dict[str, Any]:
    limits = spec.limits
    numbers = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": limits.processes,
    }
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": BOX_UID, "gid": BOX_UID},
            "args": guest_argv(view.python),
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {},
            "rlimits": [{"type": name, "soft": value, "hard": value} for name, value in numbers.items()],
        },
        # Relative to the bundle.
        "root": {"path": "../root", "readonly": True},
        "hostname": "box",
        "mounts": [*_mounts(sizes(limits), writable=spec.policy.writable), *map(_on_top, shown)],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "seccomp": oci_filter(),
        },
    }


def _mounts(size: Sizes, *, writable: bool) -> Iterator[dict[str, Any]]:
    # A workspace that must not be written belongs to root, and nothing in the box is root.
    owner = BOX_UID if writable else 0
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": ["ro", "nosuid", "nodev", "noexec"]}
    yield _tmpfs(WORKSPACE, size.workspace, owner, "0755")
    yield _tmpfs(HOME, size.home, BOX_UID, "0700")
    yield _tmpfs("/tmp", size.temporary, 0, "1777")  # noqa: S108 - the box's own
    yield _tmpfs("/dev/shm", size.shared, 0, "1777", "noexec")  # noqa: S108 - likewise


def _tmpfs(place: str, size: int, owner: int, mode: str, *more: str) -> dict[str, Any]:
    options = ["nosuid", "nodev", *more, f"size={size}", f"uid={owner}", f"gid={owner}", f"mode={mode}"]
    return {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": options}


def _on_top(step: Step) -> dict[str, Any]:
    return {"destination": step[2], "type": "bind", "source": step[1], "options": ["ro", "rbind"]}


NAME = "gvisor"
INSTALL = "Install gVisor's runsc: `apt install runsc`, or the package of your distribution."
PLATFORMS = ("systrap", "ptrace", "kvm")
"""In the order they are tried. KVM comes last: where it only seems to be there, a box hangs instead of failing."""

_PROGRAMS = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin")
_PROBE_KEPT = 60.0


@dataclass(frozen=True, slots=True)
class Way:
    """How runsc starts boxes on this machine, as a box has shown it.

    Attributes:
        platform: How it catches system calls.
        notes: What its boxes say of it.
    """

    platform: str
    notes: tuple[str, ...] = ()


class RunscBackend:
    """Starts boxes by runsc on this machine; a `SandboxBackend` that can park.

    Args:
        program: The runsc program; None looks in the system's directories, then on PATH.
        platform: How runsc catches system calls; None finds out which way works, by starting a box each.
        way: What another back-end of this process has found out (`way`), so that it is not tried again.
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
        way: Way | None = None,
        view: PythonView | None = None,
        python: str = sys.executable,
    ) -> None:
        self._program = program
        self._platforms = (platform,) if platform else PLATFORMS
        self._way = way
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
            way = await self.way()
            reason = f"runsc starts boxes with {way.platform}"
            found = Probe(ok=True, reason=reason, advice=way.notes[0] if way.notes else "")
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
            WorkspaceError: the project cannot be sent, or another directory of the host cannot be shown.
        """
        opened = await self._launch(spec, await self.way())
        return await self.hand_over(opened, spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> ParkedRunsc:
        """A box that waits for a project.

        Raises:
            SandboxUnavailable: it cannot be had.
            PathNotShown: a further directory of the host cannot be shown.
        """
        # Looked at before: what takes their names meanwhile is not what the box shows.
        seen = identities(spec)
        opened = await self._launch(spec, await self.way())
        self._open[opened.id] = opened.end
        return ParkedRunsc(self, opened, spec, seen)

    async def close(self) -> None:
        """Close every box, parked ones too; may be called twice."""
        self._closed = True
        while self._open:
            closers = list(self._open.values())
            self._open.clear()
            await asyncio.gather(*(close() for close in closers))

    # ------------------------------------------------------------- launching

    async def way(self) -> Way:
        """The first platform that a box starts with; only what has been seen to work is kept.

        Raises:
            SandboxUnavailable: none does.
        """
        async with self._finding:
            if self._way is None:
                failed: list[SandboxUnavailable] = []
                for platform in self._platforms:
                    try:
                        self._way = await self._try_out(platform)
                    except SandboxUnavailable as error:
                        failed.append(error)
                        continue
                    break
                else:
                    # All ways fail for the same reason, or ptrace's is the one that can be mended.
                    raise failed[min(1, len(failed) - 1)]
            return self._way

    async def _try_out(self, platform: str) -> Way:
        opened = await self._launch(BoxSpec(), Way(platform))
        try:
            limits = CommandLimits(total=20, idle=20)
            told = (await opened.channel.run(Command(("uname", "-r"), limits=limits))).stdout.text.strip()
            lists = await opened.channel.run(Command(("ls", "/"), limits=limits))
        finally:
            await opened.end()
        if not told or told == os.uname().release:
            raise SandboxUnavailable(f"a box of {platform} starts, but runs on the kernel of this machine")
        return Way(platform, () if lists.ok else (TOO_OLD,))

    async def _launch(self, spec: BoxSpec, way: Way) -> Opened:
        """A box whose guest has answered, with an empty workspace."""
        _refuse_unsupported(spec)
        self._refuse_when_closed()
        if self._view is None:
            self._view = self._given_view or current_view([Path.home()])
        runsc = [_find_program(self._program), "--network=none", f"--platform={way.platform}"]
        runsc += ["--ignore-cgroups", "--oci-seccomp", *(["--rootless"] if os.geteuid() else [])]
        job = job_for(spec, self._view, runsc)
        payload = guest_payload(guest_config_for(spec, self._view), same_python=self._view.python == sys.executable)
        opened = await open_box(self._python, self._view, job, payload)
        opened.notes += (*way.notes, *notes_for(spec, self._view))
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
            notes=(*opened.notes, *copy_notes(spec, left_out)),
            on_close=opened.end,
        )
        self._open[box.id] = box.close
        return box


class ParkedRunsc:
    """A box that waits; made by `RunscBackend.park`."""

    def __init__(
        self, backend: RunscBackend, opened: Opened, spec: BoxSpec, seen: tuple[tuple[int, int] | None, ...]
    ) -> None:
        self._backend = backend
        self._opened = opened
        self._spec = spec
        self._seen = seen
        self._used = False

    @property
    def alive(self) -> bool:
        """Whether its guest is there, and the directories on the host are still those that it shows."""
        return not self._used and not self._opened.channel.closed and identities(self._spec) == self._seen

    async def take(self, spec: BoxSpec) -> Box:
        """Send the project in."""
        self._used = True
        return await self._backend.hand_over(self._opened, spec, warm=True)

    async def close(self) -> None:
        """End it."""
        self._used = True
        await self._opened.end()


def _refuse_unsupported(spec: BoxSpec) -> None:
    refuse_further(spec, NAME)
    if spec.image is not None:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", f"images, and {spec.image} was asked for")
    if spec.writable_root:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", "a writable root: use Docker with runsc as a runtime")
    if spec.shown:
        raise SandboxUnsupported(NAME, f"showing {spec.shown[0].source} to a box as it is: use bubblewrap for that")
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
