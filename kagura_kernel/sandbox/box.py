"""The box that every back-end hands out, and what back-ends that copy a project into one share.

A `PipedBox` is a channel, a name, and what must be freed when it ends; a `BoxStarter` knows which of them are open.
Containers and gVisor boxes share nothing with the host: their projects are sent in, into memory whose sizes are decided
here. Where further directories may lie in a box, and whether they are still those that it shows, is the same for all
back-ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from kagura_kernel.domain.commands import Command, CommandResult, OutputListener
from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable, SandboxUnsupported, WorkspaceUnreadable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import BoxLimits, CommandLimits, IsolationClass
from kagura_kernel.domain.search_path import entries_outside, is_inside
from kagura_kernel.sandbox.backend import WORKSPACE, BoxChange, BoxSpec, Failed, Listener, Probe, ServeStream
from kagura_kernel.sandbox.boot import GuestConfig, guest_payload
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.populate import send_project
from kagura_kernel.sandbox.supervisor.arguments import HOME

_TAKEN = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/root"),
    *("/run", "/sbin", "/sys", "/tmp", "/usr", "/var", WORKSPACE),  # noqa: S108 - the box's own /tmp
)
"""What a box of some back-end has: a directory there would hide it, or could not be put there at all."""


SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
COMMAND_ENV = {
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own
}
"""What every command finds in its environment."""
# A package that asks a question would wait for an answer that nobody gives.
ROOT_ENV = {"USER": "root", "LOGNAME": "root", "DEBIAN_FRONTEND": "noninteractive"}
"""What is different for commands that are root."""


def refuse_further(spec: BoxSpec, backend: str) -> None:
    """Say no to places that a further directory cannot have in every box.

    Raises:
        SandboxUnsupported: it is not an absolute path in its shortest form, is the box's own, or lies in another one.
    """
    targets: list[str] = []
    for source, target in spec.extra_read_only:
        if why := _why_not(source, target, targets):
            raise SandboxUnsupported(backend, f"showing {source} as {target}: {why}")
        targets.append(target)


def refuse_roots(spec: BoxSpec, backend: str) -> None:
    """Say no to other writable places than the workspace as a whole, where a box cannot have a part of it writable.

    Raises:
        SandboxUnsupported: it names another place, or not the workspace.
    """
    for root in spec.policy.writable_roots:
        if not any(_within(root, place) for place in (WORKSPACE, "/tmp", HOME)):  # noqa: S108 - the box's own /tmp
            raise SandboxUnsupported(backend, f"a writable {root}: only {WORKSPACE}, /tmp and {HOME} can be written")
    if spec.policy.writable and WORKSPACE not in spec.policy.writable_roots:
        raise SandboxUnsupported(backend, "a workspace of which parts alone can be written")


def _why_not(source: Path, target: str, others: list[str]) -> str:
    if not source.is_absolute():
        return "the path on the host is not absolute"
    straight = posixpath.normpath(target) == target and not target.startswith("//")
    if not target.startswith("/") or target == "/" or not straight or "\0" in target:
        return "the path in the box is not an absolute path in its shortest form"
    for taken in (*_TAKEN, *others):
        if _within(target, taken) or _within(taken, target):
            return f"the box has {taken} already"
    return ""


def _within(path: str, place: str) -> bool:
    return f"{path}/".startswith(f"{place}/")


def find_program(
    name: str, given: str | None, workspace: Path | None, *, called: str, places: Sequence[str], install: str
) -> str:
    """The program that makes the walls, which must not be a file that a box has put into the project.

    Unless its path is given, it is looked for in these places of the system's, then on PATH. Without a project the
    working directory is taken for one. `called` is what a person knows the program as.

    Raises:
        SandboxUnavailable: there is none, or it lies in the project; the text says what to install.
        WorkspaceUnreadable: the project is replaced at this moment.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(f"{called} needs Linux")
    try:
        projects = [str(workspace)] if workspace else _working_directory()
        path = entries_outside([*places, *os.environ.get("PATH", "").split(":")], projects, os.path.realpath)
        program = given or shutil.which(name, path=":".join(path))
        if program is None:
            raise SandboxUnavailable(f"{called} is not installed", install)
        if is_inside(os.path.realpath(program), [os.path.realpath(project) for project in projects]):
            raise SandboxUnavailable(f"{program} lies in the project, where a box can change it", install)
    except OSError as error:
        why = f"it was replaced while a box was being started ({error.strerror})"
        raise WorkspaceUnreadable(str(workspace), why) from error
    return program


def _working_directory() -> list[str]:
    # One that was removed is nobody's project any more.
    with contextlib.suppress(OSError):
        return [str(Path.cwd())]
    return []


def identities(spec: BoxSpec) -> tuple[tuple[int, int] | None, ...]:
    """Which directories the sources are now, as (device, number); None for one that is gone.

    What is mounted in a box stays what it was when another directory takes its name.
    """
    return tuple(_identity(source) for source, _ in spec.extra_read_only)


def _identity(source: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(source)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class PipedBox:
    """A `Box` over a channel that has said hello.

    `on_close` frees the process or the container; it is called exactly once, after the pipe is closed, whether somebody
    closed the box or it died.
    """

    def __init__(
        self,
        channel: BoxChannel,
        *,
        backend: str,
        isolation: IsolationClass,
        image: str = "",
        warm: bool = False,
        notes: tuple[str, ...] = (),
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.channel = channel  # for the back-end that made it
        self.id = channel.box_id
        self.backend = backend
        self.isolation = isolation
        self.image = image
        self.warm = warm
        self.notes = notes if channel.hardened else (*notes, "the guest could not hide itself from its commands")
        self.files = channel.files
        self._on_close = on_close
        self._freed = asyncio.get_running_loop().create_task(self._free_at_end())

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """Run one command to its end; see `Box.run`."""
        return await self.channel.run(command, on_output)

    async def changes(self) -> list[BoxChange]:
        """How the workspace differs from what it was at the start."""
        return await self.channel.files.changes()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Serve connections that programs in the box make to a loopback port; see `Box.listen`."""
        return await self.channel.listen(listener, serve, failed)

    async def rest(self) -> None:
        """Take back what it was lent, and stop all that runs in it; see `KeepableBox.rest`."""
        await self.channel.rest()

    async def wake(self) -> None:
        """Let it go on; see `KeepableBox.wake`."""
        await self.channel.wake()

    @property
    def lost(self) -> bool:
        """Whether it ended because its machine, or the way there, is gone."""
        return self.channel.lost

    async def wait_closed(self) -> str:
        """Return when the box is gone: why it died, or an empty text when it was closed."""
        return await self.channel.wait_closed()

    async def close(self) -> None:
        """End everything in it and free what it held; may be called twice."""
        await self.channel.close()
        # Being cancelled here must not leave the process or the container behind.
        await asyncio.shield(self._freed)

    async def _free_at_end(self) -> None:
        await self.channel.wait_closed()
        await self._on_close()


@contextlib.asynccontextmanager
async def freed_on_failure(free: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Free what has been begun when the block fails, or is cancelled; a second cancelling does not cut that short."""
    try:
        yield
    except BaseException:
        await asyncio.shield(free())
        raise


LEFT_OUT = (".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints")
"""Not sent into the workspace from the top of the project: large, made anew by one command, or useless in a box."""

_HELLO_SECONDS = 20.0


class ReadOnlyBox(PipedBox):
    """A box whose workspace belongs to someone who has left: what its guest finds there is not its doing."""

    async def changes(self) -> list[BoxChange]:
        """None: nothing can be."""
        return []


TRIAL_LIMITS = CommandLimits(total=20, idle=20)
"""Seconds that a command may take which only shows that boxes work."""
TRIAL = Command(("true",), limits=TRIAL_LIMITS)


class BoxStarter:
    """What back-ends have in common: which boxes they have open, and for a while whether they work.

    Args:
        called: What it calls itself when it is closed.
        probe_kept: Seconds for which what was found out about an image is taken for true.
    """

    name: str
    isolation: IsolationClass

    def __init__(self, called: str, probe_kept: float = 60.0) -> None:
        self._called = called
        self._probe_kept = probe_kept
        self._probes: dict[str, tuple[float, Probe]] = {}
        self._open: dict[str, Callable[[], Awaitable[None]]] = {}
        self._closed = False

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box that is ready for its first command; see `SandboxBackend.start`."""
        raise NotImplementedError

    async def _probed(self, image: str, find_out: Callable[[], Awaitable[Probe]]) -> Probe:
        """Whether it works, found out anew when that was too long ago; an error is a no."""
        if (known := self._known(image)) is not None:
            return known
        try:
            found = await find_out()
        except SandboxUnavailable as error:
            found = Probe(ok=False, reason=error.reason, install=error.install or "")
        except KaguraError as error:
            found = Probe(ok=False, reason=error.message.rstrip("."))
        return self._keep(image, found)

    def _known(self, image: str) -> Probe | None:
        until, probe = self._probes.get(image, (0.0, None))
        return probe if time.monotonic() < until else None

    def _keep(self, image: str, found: Probe) -> Probe:
        self._probes[image] = time.monotonic() + self._probe_kept, found
        return found

    async def _ran(self, spec: BoxSpec, command: Command) -> CommandResult:
        """How a command ends in a box of its own, which is gone afterwards."""
        box = await self.start(spec)
        try:
            return await box.run(command)
        finally:
            await box.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise SandboxUnavailable(f"this {self._called} back-end was closed")

    async def _close_boxes(self) -> None:
        """Close every box, parked ones too, also those that are opened meanwhile."""
        self._closed = True
        while self._open:
            closers = list(self._open.values())
            self._open.clear()
            await asyncio.gather(*(close() for close in closers))

    def _opened(
        self,
        channel: BoxChannel,
        on_close: Callable[[], Awaitable[None]],
        *,
        notes: tuple[str, ...],
        warm: bool,
        image: str = "",
        kind: type[PipedBox] = PipedBox,
    ) -> PipedBox:
        """The box as its user sees it, which is closed with this back-end; `on_close` has to forget it."""
        box = kind(
            channel,
            backend=self.name,
            isolation=self.isolation,
            image=image,
            warm=warm,
            notes=notes,
            on_close=on_close,
        )
        self._open[box.id] = box.close
        return box


def kind_of(spec: BoxSpec) -> type[PipedBox]:
    """The kind of a box whose project was sent into it."""
    return PipedBox if spec.policy.writable else ReadOnlyBox


class Parked:
    """A box that waits to be taken once; what back-ends hand to the warm pool, see `ParkedBox`.

    `unchanged` says whether what it shows of the host is still what is there; `take` closes it on any failure.
    """

    def __init__(
        self,
        channel: BoxChannel,
        unchanged: Callable[[], bool],
        take: Callable[[BoxSpec], Awaitable[PipedBox]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._channel = channel
        self._unchanged = unchanged
        self._take = take
        self._end = end
        self._used = False

    @property
    def alive(self) -> bool:
        """Whether its guest is there, nobody has it, and the host is still what it shows."""
        return not self._used and not self._channel.closed and self._unchanged()

    async def take(self, spec: BoxSpec) -> PipedBox:
        """The box, with the spec's project in it."""
        self._used = True
        return await self._take(spec)

    async def close(self) -> None:
        """End it and free what it held; may be called twice."""
        self._used = True
        await self._end()


async def send_workspace(channel: BoxChannel, spec: BoxSpec, limit_bytes: int | None = None) -> tuple[str, ...]:
    """Send the spec's project through this channel; what was left out.

    It may have so many bytes; None is as many as a box has room for whose places are `sizes`.

    Raises:
        WorkspaceError: it cannot be read, or is too large for the box.
    """
    if spec.workspace is None:
        return ()
    return await send_project(
        channel,
        spec.workspace,
        exclude=LEFT_OUT,
        limit_bytes=sizes(spec.limits).sendable if limit_bytes is None else limit_bytes,
        protected=spec.policy.read_only_subpaths,
    )


async def send_as_root(
    channel: BoxChannel, spec: BoxSpec, env: dict[str, str], *, same_python: bool
) -> tuple[str, ...]:
    """Fill a workspace that nobody in the box may write, through a guest that runs as its root; what was left out.

    The guest leaves before any command runs: the channel, which was not started, is closed afterwards.
    """
    try:
        config = GuestConfig(env=env)
        channel.start(guest_payload(config, same_python=same_python))
        await channel.hello(_HELLO_SECONDS)
        left_out = await send_workspace(channel, spec)
        # What only its owner may read on the host is still part of the project that was handed over; and the
        # directory itself may have taken its mode from an image.
        await channel.run(Command(("chmod", "-R", "a+rX,go-w", "--", WORKSPACE)))
    finally:
        await channel.close()
    return left_out


_PAGE = 65536
_SHARED = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes of the places that can be written."""

    workspace: int
    temporary: int
    home: int
    shared: int

    @property
    def sendable(self) -> int:
        """How large a project may be: half, so that a run has room to add to it."""
        return self.workspace // 2


def sizes(limits: BoxLimits) -> Sizes:
    """How large each writable place is.

    They are memory, and count against the box's memory: together they take three quarters of it at most (in a box of
    a megabyte or more), and /dev/shm an eighth, so that a full disk is "no space left" and not the end of the box.
    """
    wanted = limits.workspace_bytes + limits.scratch_bytes
    share = min(1.0, limits.memory_bytes * 0.75 / max(wanted, 1))
    scratch = int(limits.scratch_bytes * share / 2)
    shared = min(_SHARED, limits.scratch_bytes, limits.memory_bytes // 8)
    # Size 0 would mean no limit at all.
    return Sizes(*(max(size, _PAGE) for size in (int(limits.workspace_bytes * share), scratch, scratch, shared)))
