"""gVisor boxes by whichever way works here: through a Docker daemon that has runsc as a runtime, or runsc alone.

Docker comes first, because it brings images; alone there is nothing to build. A way counts as working when it has
started a real box, never because a program, a device file or an entry in a configuration is there.

Alone, runsc is a child on a bundle of ours, with the system's programs and its own kernel. A box sees what a bubblewrap
box sees, because that is asked what it would show, but no system call of it reaches the host's kernel: runsc's answers.
The places that can be written are memory of the box's own; nothing of the project is mounted, it travels over the pipe
as into a container. Works as root and, where user namespaces are allowed, as anybody.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import WORKSPACE, Box, BoxSpec, Probe
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv, guest_payload
from kagura_kernel.sandbox.box import (
    TRIAL_LIMITS,
    BoxStarter,
    Parked,
    PipedBox,
    Sizes,
    find_program,
    freed_on_failure,
    identities,
    kind_of,
    send_as_root,
    send_workspace,
    sizes,
)
from kagura_kernel.sandbox.bubblewrap.request import SHIMS, guest_config, uncounted_notes
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.flags import TOO_OLD, host_threads, refuse_unsupported
from kagura_kernel.sandbox.docker.seccomp import oci_filter
from kagura_kernel.sandbox.namespaces import advise, read_facts
from kagura_kernel.sandbox.pipe import FdPipe
from kagura_kernel.sandbox.pool import ParkedBox
from kagura_kernel.sandbox.populate import copy_notes
from kagura_kernel.sandbox.python_view import PythonView, current_view
from kagura_kernel.sandbox.supervisor.arguments import HOME, NO_LAYER, Staged, bwrap_arguments
from kagura_kernel.sandbox.supervisor.client import (
    GuestStreams,
    OpenedBox,
    StartRefused,
    SupervisorClient,
    open_box,
)
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.gvisor import EMPTY, ETC, HOLLOW, enter_words

_ARITY = {
    **dict.fromkeys(("--ro-bind", "--bind", "--symlink"), 2),
    **dict.fromkeys(("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"), 0),
}
_TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - the box's own
_MEMORY = (WORKSPACE, HOME, *_TEMPORARY)

Step = tuple[str, str, str]


def job_for(spec: BoxSpec, view: PythonView, runsc: Sequence[str]) -> dict[str, Any]:
    """The supervisor's job; `runsc` is the program and its options."""
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
    return guest_config(spec, view, writable=spec.policy.writable, copy=True)


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
_HELLO_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Way:
    """How runsc starts boxes on this machine, as a box has shown it."""

    platform: str  # how it catches system calls
    notes: tuple[str, ...] = ()  # what its boxes say of it


class RunscBackend(BoxStarter):
    """Starts boxes by runsc on this machine; a `SandboxBackend` that can park.

    Args:
        program: The runsc program; None looks in the system's directories, then on PATH.
        platform: How runsc catches system calls; None finds out which way works, by starting a box each.
        way: What another back-end of this process has found out (`way`), so that it is not tried again.
        view: The Python that boxes see; None is the running one.
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
    ) -> None:
        super().__init__("gVisor")
        self._program = program
        self._platforms = (platform,) if platform else PLATFORMS
        self._way = way
        self._given_view = view
        self._view: PythonView | None = None
        self._supervisor: SupervisorClient | None = None
        self._finding = asyncio.Lock()

    async def probe(self, image: str | None = None) -> Probe:
        """Whether a box starts and runs a command on a kernel of its own; kept for a minute.

        An image means nothing here: asking for one is a no.
        """
        if image is not None:
            return Probe(ok=False, reason=f"runsc alone has no images, and {image} was asked for")

        async def find_out() -> Probe:
            way = await self.way()
            return Probe(
                ok=True, reason=f"runsc starts boxes with {way.platform}", advice=way.notes[0] if way.notes else ""
            )

        return await self._probed("", find_out)

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box with the project in it, ready for its first command; see `SandboxBackend.start`."""
        opened = await self._launch(spec, await self.way())
        return await self._hand_over(opened, spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> Parked:
        """A box that waits for a project; see `ParkingBackend.park`."""
        # Looked at before: what takes their names meanwhile is not what the box shows.
        seen = identities(spec)
        opened = await self._launch(spec, await self.way())

        async def take(wanted: BoxSpec) -> PipedBox:
            return await self._hand_over(opened, wanted, warm=True)

        return Parked(opened.channel, lambda: identities(spec) == seen, take, opened.end)

    async def close(self) -> None:
        """Close every box, parked ones too; may be called twice."""
        await self._close_boxes()
        if self._supervisor is not None:
            await self._supervisor.close()

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
            told = (await opened.channel.run(Command(("uname", "-r"), limits=TRIAL_LIMITS))).stdout.text.strip()
            lists = await opened.channel.run(Command(("ls", "/"), limits=TRIAL_LIMITS))
        finally:
            await opened.end()
        if not told or told == os.uname().release:
            raise SandboxUnavailable(f"a box of {platform} starts, but runs on the kernel of this machine")
        return Way(platform, () if lists.ok else (TOO_OLD,))

    async def _launch(self, spec: BoxSpec, way: Way) -> OpenedBox:
        """A box whose guest has answered, with an empty workspace."""
        _refuse_unsupported(spec)
        self._refuse_when_closed()
        if self._supervisor is None or self._view is None:
            self._view = self._given_view or current_view()
            self._supervisor = SupervisorClient(self._view.as_setup(), gvisor=True)
        view = self._view
        runsc = self._runsc(way, spec)
        payload = guest_payload(guest_config_for(spec, view), same_python=view.python == sys.executable)
        job = job_for(spec, view, runsc)
        try:
            opened = await open_box(self._supervisor, job, payload, hello=_HELLO_SECONDS, sockets=True)
        except StartRefused as refused:
            if refused.part == "shown":
                raise PathNotShown(*refused.why.split(" cannot be shown: ", 1)) from refused
            raise _refusal(refused.why) from refused
        except SandboxUnavailable as error:
            raise _refusal(error.reason) from error
        opened.notes = (*uncounted_notes(self._supervisor.uncounted), *way.notes, *notes_for(spec, view))
        self._open[opened.id] = opened.end
        opened.on_end = lambda: self._open.pop(opened.id, None)
        return opened

    def _runsc(self, way: Way, spec: BoxSpec) -> list[str]:
        """The program and its options."""
        place = find_program("runsc", self._program, spec.workspace, called="runsc", places=_PROGRAMS, install=INSTALL)
        words = [place, "--network=none", f"--platform={way.platform}"]
        return [*words, "--ignore-cgroups", "--oci-seccomp", *(["--rootless"] if os.geteuid() else [])]

    async def _fill(self, opened: OpenedBox, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project into the workspace; what was left out.

        One that nobody in the box may write is sent in as the box's root, who leaves before any command runs.
        """
        if spec.workspace is None or spec.policy.writable:
            return await send_workspace(opened.channel, spec)
        view = self._view or current_view()
        with GuestStreams(sockets=True) as streams:
            words = enter_words(self._runsc(await self.way(), spec), guest_argv(view.python))
            opened.supervisor.enter(opened.id, words, streams.theirs)
            streams.close_theirs()
            channel = BoxChannel(opened.id, FdPipe(*streams.hand_over()))
        return await send_as_root(channel, spec, {"PATH": "/usr/bin:/bin"}, same_python=view.python == sys.executable)

    async def _hand_over(self, opened: OpenedBox, spec: BoxSpec, *, warm: bool) -> PipedBox:
        """The box as its user sees it, with the project sent into it."""
        async with freed_on_failure(opened.end):
            left_out = await self._fill(opened, spec)
            self._refuse_when_closed()
        notes = (*opened.notes, *copy_notes(spec, left_out))
        return self._opened(opened.channel, opened.end, notes=notes, warm=warm, kind=kind_of(spec))


def _refusal(why: str) -> SandboxUnavailable:
    return SandboxUnavailable(f"runsc did not start a box: {why.rstrip('.')}", advise(why, read_facts()) or None)


def _refuse_unsupported(spec: BoxSpec) -> None:
    refuse_unsupported(spec, NAME)
    if spec.image is not None:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", f"images, and {spec.image} was asked for")
    if spec.writable_root:
        raise SandboxUnsupported(f"{NAME} (runsc alone)", "a writable root: use Docker with runsc as a runtime")


class GVisorBackend:
    """Starts gVisor boxes; a `SandboxBackend` that can park.

    The way through Docker is made with `gvisor=True`; this back-end closes both ways.
    """

    name = NAME
    isolation = IsolationClass.GVISOR

    def __init__(self, docker: DockerBackend, alone: RunscBackend) -> None:
        self._docker = docker
        self._alone = alone
        self._chosen: dict[str | None, DockerBackend | RunscBackend] = {}

    async def probe(self, image: str | None = None) -> Probe:
        """Whether one of the ways works, and which; when none does, what each lacks."""
        through = await self._docker.probe(image)
        if through.ok:
            self._chosen[image] = self._docker
            return through
        alone = await self._alone.probe(image)
        if alone.ok:
            self._chosen[image] = self._alone
            return replace(alone, reason=f"{alone.reason} (not through Docker: {through.reason})")
        self._chosen.pop(image, None)
        installs = [alone.install, f"Or through Docker: {through.install}" if through.install else ""]
        return Probe(
            ok=False,
            reason=f"{alone.reason}; through Docker: {through.reason}",
            install=" ".join(part for part in installs if part),
        )

    async def start(self, spec: BoxSpec) -> Box:
        """A box with the project in it, ready for its first command; see `SandboxBackend.start`."""
        return await (await self._way(spec)).start(spec)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return self._docker.parking_spec(spec)

    async def park(self, spec: BoxSpec) -> ParkedBox:
        """A box that waits for a project. Raises `SandboxUnavailable` when neither way works."""
        return await (await self._way(spec)).park(spec)

    async def close(self) -> None:
        """Close every box of both ways; may be called twice."""
        await asyncio.gather(self._docker.close(), self._alone.close())

    async def _way(self, spec: BoxSpec) -> DockerBackend | RunscBackend:
        if spec.image not in self._chosen:
            probe = await self.probe(spec.image)
            if not probe.ok:
                raise SandboxUnavailable(probe.reason, probe.install or None)
        return self._chosen[spec.image]
