"""Boxes made of Linux namespaces by bubblewrap: nothing to build, nothing to download, ready in milliseconds.

A box sees the system's programs, the kernel's own Python, a copy-on-write view of the project, a private /tmp and
home, and nothing else of the host. Every box has user, mount, process, network, IPC, host-name and control-group
namespaces of its own, no capabilities, no new privileges and the filter of `seccomp`. A box with a writable root
(`rootlayer`) is the one exception: its commands are root among users of its own, with the powers that packages need.
The work is done by the supervisor process (`supervisor/`); this file decides what to ask it for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from kagura_kernel.domain.commands import CommandResult
from kagura_kernel.domain.errors import (
    KaguraError,
    PathNotShown,
    SandboxUnavailable,
    SandboxUnsupported,
    WorkspaceUnreadable,
)
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import BoxSpec, Probe
from kagura_kernel.sandbox.boot import guest_payload
from kagura_kernel.sandbox.box import (
    TRIAL,
    BoxStarter,
    Parked,
    PipedBox,
    find_program,
    freed_on_failure,
    identities,
    refuse_further,
    refuse_roots,
    send_workspace,
)
from kagura_kernel.sandbox.bubblewrap.request import fitting, guest_config, request_for, uncounted_notes
from kagura_kernel.sandbox.namespaces import advise, read_facts
from kagura_kernel.sandbox.populate import copy_notes
from kagura_kernel.sandbox.python_view import NAMES, PythonView, current_view
from kagura_kernel.sandbox.supervisor.client import OpenedBox, StartRefused, SupervisorClient, open_box
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.root_layer import mapping_commands


def check_workspace(workspace: Path | None) -> None:
    """Say no to a project that cannot be shown, before anything is started.

    Raises:
        WorkspaceUnreadable: it is missing, no directory, or may not be read.
    """
    if workspace is None:
        return
    if not workspace.is_dir():
        raise WorkspaceUnreadable(
            str(workspace), "it is not a directory" if workspace.exists() else "it does not exist"
        )
    if not os.access(workspace, os.R_OK | os.X_OK):
        raise WorkspaceUnreadable(str(workspace), "it may not be read")


def as_it_is(spec: BoxSpec, view: PythonView) -> Callable[[], bool]:
    """What tells later whether a box that is made now would still be made of the same.

    Of the project's directory with its protected parts, of further directories, and of the packages below a layer.
    """
    now = _fingerprint(spec, view)
    return lambda: _fingerprint(spec, view) == now


def _fingerprint(spec: BoxSpec, view: PythonView) -> tuple[object, ...]:
    found: list[object] = [*identities(spec)]
    if spec.policy.network_access:
        # What lies below a layer must not change; an installation on the host would.
        for place in view.packages:
            with contextlib.suppress(OSError):
                found.append((place, os.stat(place).st_mtime_ns))  # noqa: PTH116 - a path of the view is text
    if spec.workspace is None:
        return tuple(found)
    for path in (spec.workspace, *(spec.workspace / part for part in spec.policy.read_only_subpaths)):
        try:
            status = path.lstat()
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)


_HELLO_TIMEOUT = 20.0


class BubblewrapBackend(BoxStarter):
    """Starts boxes by bubblewrap on this machine; a `SandboxBackend`.

    Unless they are given, the program is looked for, and boxes see the Python that runs this.
    """

    name = "bubblewrap"
    isolation = IsolationClass.NAMESPACE

    def __init__(self, *, program: str | None = None, view: PythonView | None = None) -> None:
        super().__init__(self.name)
        self._program = program
        self._given_view = view
        self._supervisor: SupervisorClient | None = None
        self._ranged: SupervisorClient | None = None
        self._view: PythonView | None = None
        self._copies: dict[Path, str] = {}

    async def probe(self, image: str | None = None) -> Probe:  # noqa: ARG002 - the protocol's
        """Whether a box starts and runs a command here; `image` means nothing to this back-end. Kept for a minute."""
        return await self._probed("", self._try_out)

    async def try_out(self, spec: BoxSpec) -> tuple[Probe, PipedBox | None]:
        """As `probe`, and where that is not known yet, by a box for `spec` instead of one that nobody needs."""
        if (known := self._known("")) is not None:
            return known, None
        try:
            box = await self.start(spec)
        except KaguraError:
            # Whether it is the fault of this machine or of what was asked for, a box without any wishes tells.
            return await self.probe(), None
        found = Probe(ok=False, reason="")
        try:
            found = _judged(await box.run(TRIAL))
        finally:
            if not found.ok:
                await asyncio.shield(box.close())
        return self._keep("", found), box if found.ok else None

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box that is ready for its first command; see `SandboxBackend.start`.

        Raises:
            WorkspaceTooLarge: there is no copy-on-write view here and the project is too large to be copied.
        """
        opened, _ = await self._launch(spec)
        return self._handed_out(opened, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait for one spec each: their view of the project is there, and untouched, from the start.

        None where the project would have to be copied, since a copy made ahead would be out of date, and where files
        of the host are shown as they are.
        """
        return None if spec.workspace in self._copies or spec.shown else spec

    async def park(self, spec: BoxSpec) -> Parked:
        """A box that waits for its first command; see `ParkingBackend.park`."""
        opened, unchanged = await self._launch(spec)
        if spec.workspace in self._copies:
            await opened.end()
            raise SandboxUnavailable("a copied project cannot wait")

        async def take(wanted: BoxSpec) -> PipedBox:
            if wanted != spec or opened.channel.closed or not unchanged():
                await opened.end()
                raise SandboxUnavailable("the parked box does not fit any more")
            return self._handed_out(opened, warm=True)

        return Parked(opened.channel, unchanged, take, opened.end)

    async def close(self) -> None:
        """Close every box and end the supervisor; may be called twice."""
        await self._close_boxes()
        for supervisor in (self._supervisor, self._ranged):
            if supervisor is not None:
                await supervisor.close()

    # ---------------------------------------------------------------- inside

    def _parts(self, spec: BoxSpec) -> tuple[SupervisorClient, PythonView]:
        """The supervisor and the Python it shows, found once: they are the same for all boxes."""
        if self._supervisor is None or self._view is None:
            self._view = self._given_view or current_view(spec.workspace)
            self._supervisor = SupervisorClient(self._view.as_setup(*NAMES))
        if not spec.writable_root or os.geteuid() == 0:
            return self._supervisor, self._view
        if self._ranged is None:
            self._ranged = SupervisorClient(self._view.as_setup(*NAMES), mapping=find_mapping())
        return self._ranged, self._view

    async def _launch(self, spec: BoxSpec) -> tuple[OpenedBox, Callable[[], bool]]:
        """Start a box, by a copy of the project where there can be no view of it; what tells whether it still fits."""
        self._refuse_when_closed()
        check_workspace(spec.workspace)
        refuse_further(spec, self.name)
        if spec.shown and spec.writable_root:
            raise SandboxUnsupported(self.name, "showing files of the host to a box with a writable root")
        program = find_bwrap(self._program, spec.workspace)
        supervisor, view = self._parts(spec)
        limits, notes = fitting(spec.limits, writable_root=spec.writable_root)
        if spec.image:
            notes.append(f"this box shows the machine's own programs: bubblewrap has no image {spec.image}")
        while True:
            copy = spec.workspace in self._copies and spec.policy.writable
            if copy:
                refuse_roots(spec, self.name)
            request = request_for(spec, limits, program, view, copy=copy)
            config = guest_config(spec, view, writable=request["writable"], copy=copy)
            payload = guest_payload(config, same_python=view.python == sys.executable)
            # Looked at before: what takes the place of something meanwhile is not what the box shows.
            unchanged = as_it_is(spec, view)
            try:
                opened = await open_box(supervisor, request, payload, hello=_HELLO_TIMEOUT)
            except StartRefused as refused:
                if refused.part == "overlay" and spec.workspace is not None and not copy:
                    self._copies[spec.workspace] = refused.why
                    continue
                raise _translated(refused, spec) from refused
            opened.notes = (*notes, *opened.notes, *uncounted_notes(supervisor.uncounted))
            if copy and spec.workspace is not None:
                async with freed_on_failure(opened.end):
                    left_out = await send_workspace(opened.channel, spec, request["workspace_bytes"] // 2)
                why = f"the project was copied into the box: {self._copies[spec.workspace]}"
                opened.notes += (*copy_notes(spec, left_out), why)
            return opened, unchanged

    def _handed_out(self, opened: OpenedBox, *, warm: bool) -> PipedBox:
        opened.on_end = lambda: self._open.pop(opened.id, None)
        return self._opened(opened.channel, opened.end, notes=opened.notes, warm=warm)

    async def _try_out(self) -> Probe:
        return _judged(await self._ran(BoxSpec(), TRIAL))


def _judged(result: CommandResult) -> Probe:
    if not result.ok:
        return Probe(ok=False, reason=f"a box starts, but `true` ends with {result.exit_code} in it")
    return Probe(ok=True, reason="a bubblewrap box started and ran a command")


def _translated(refused: StartRefused, spec: BoxSpec) -> KaguraError:
    if refused.part == "workspace":
        return WorkspaceUnreadable(str(spec.workspace), refused.why)
    if refused.part == "shown":
        return PathNotShown(*refused.why.split(" cannot be shown: ", 1))
    advice = advise_root(refused.why) if refused.part == "root" else advise(refused.why, read_facts())
    return SandboxUnavailable(f"bubblewrap did not start a box: {refused.why}", advice or None)


INSTALL = "`sudo apt install bubblewrap`, or the package of your distribution."

INSTALL_UIDMAP = "Install them with `apt install uidmap`, or take a container: `--box docker`."
ADD_RANGE = (
    "Have one added to /etc/subuid and /etc/subgid: "
    "`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, or take a container: `--box docker`."
)

_SYSTEM_PROGRAMS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


def find_bwrap(given: str | None, workspace: Path | None) -> str:
    """The program that makes the walls of a box with this project; raises as `find_program`."""
    return find_program("bwrap", given, workspace, called="bubblewrap", places=_SYSTEM_PROGRAMS, install=INSTALL)


def find_mapping() -> list[list[str]]:
    """The commands that give an ordinary user's boxes users of their own.

    Raises:
        SandboxUnavailable: the programs are missing, or the user has no range of ids; the text says how to get them.
    """
    programs = [shutil.which(name, path=":".join(_SYSTEM_PROGRAMS)) for name in ("newuidmap", "newgidmap")]
    if None in programs:
        raise SandboxUnavailable("a writable root needs newuidmap and newgidmap", INSTALL_UIDMAP)
    commands = mapping_commands(BOX_UID, [program for program in programs if program])
    if not commands:
        raise SandboxUnavailable("a writable root needs a range of ids that is yours", ADD_RANGE)
    return commands


def advise_root(why: str) -> str:
    """What would mend that a box's root cannot be made writable, as a sentence; empty when nothing is known."""
    if "only root" in why:
        return "Run the kernel as an ordinary user or as the machine's own root, or take a container: `--box docker`."
    if "Debian" in why:
        return "Take a container with the tools in its image: `--box docker`."
    return ""
