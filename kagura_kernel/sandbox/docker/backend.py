"""Boxes in Docker containers: started with flags that never change, spoken to over the attach stream.

Nothing of the host is mounted. The project travels into a memory-backed workspace over the same pipe as everything
else, and further directories into volumes (`volumes`), so that a daemon on another machine is no different. A container
removes itself when its guest ends, the guest ends when the pipe closes, and a reaper sees to those that cannot notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import BoxSpec, Probe
from kagura_kernel.sandbox.boot import guest_argv, guest_payload
from kagura_kernel.sandbox.box import (
    BoxStarter,
    Parked,
    PipedBox,
    freed_on_failure,
    identities,
    kind_of,
    send_as_root,
    send_workspace,
)
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker.attach import AttachPipe, attach
from kagura_kernel.sandbox.docker.engine import OTHER_BOXES, Daemon, DockerEngine, DockerEvents, Image
from kagura_kernel.sandbox.docker.flags import (
    BOX_LABEL,
    DEFAULT_IMAGE,
    HOLDER_LABEL,
    NAME,
    OPEN_PIPE,
    OWNER_LABEL,
    ROOT,
    TOO_OLD,
    command_environment,
    create_body,
    guest_config,
    refuse_unsupported,
    with_volumes,
    writable_root_body,
)
from kagura_kernel.sandbox.docker.reaper import Reaper, remove_left, remove_left_volumes
from kagura_kernel.sandbox.docker.volumes import Copies, DockerVolumes, still_so
from kagura_kernel.sandbox.docker_endpoint import Endpoint, no_daemon
from kagura_kernel.sandbox.owner import this_owner
from kagura_kernel.sandbox.populate import copy_notes

GVISOR_LOOK = "uname -r; grep Seccomp: /proc/self/status; ls / >/dev/null || echo fails"
"""What a fresh box of gVisor is asked, for `told_by`."""
INSTALL_RUNTIME = (
    "Install gVisor (`apt install runsc`) and make it known to Docker: `runsc install -- --oci-seccomp` as root, "
    "then restart Docker."
)
ADD_FILTER = 'Add "--oci-seccomp" to its "runtimeArgs" in /etc/docker/daemon.json, then restart Docker.'
NOT_REMAPPED = (
    "Root in a container is root of the daemon's machine, should it ever get out: switch on user namespaces "
    '("userns-remap": "default" in /etc/docker/daemon.json) or use rootless Docker'
)
ROOT_NEEDS = (
    "a writable root at this daemon, where root in a container is root of the machine: switch on user namespaces "
    '("userns-remap": "default" in /etc/docker/daemon.json), or use rootless Docker, `--box bubblewrap` or '
    "`--box gvisor`"
)


def build_command(image: str) -> str:
    """What makes that image."""
    from kagura_kernel.sandbox.images.recipes import DEFAULT_PREFIX, NAMES

    name = image.removeprefix(DEFAULT_PREFIX).removesuffix(":latest")
    if name in NAMES:
        return f"Build it: `kagura-kernel images build {name}`."
    return f"Build or pull it: `docker build --tag {image} DIRECTORY` or `docker pull {image}`."


def told_by(answer: str, kernel: str) -> tuple[str, ...]:
    """What a fresh box's answer to `GVISOR_LOOK` gives people to know; `kernel` is the release of the machine's own.

    Raises:
        SandboxUnavailable: the runtime is gVisor's by name only, or has no filter of system calls in its boxes.
    """
    release, _, rest = answer.partition("\n")
    status, _, lists = rest.partition("\n")
    if release.strip() == kernel:
        raise SandboxUnavailable("the runtime runsc runs boxes on the machine's own kernel: it is not gVisor's")
    if "2" not in status:
        raise SandboxUnavailable("the runtime runsc ignores filters of system calls", ADD_FILTER)
    return (TOO_OLD,) if lists.strip() else ()


@dataclass(frozen=True, slots=True)
class Running:
    """A container whose guest has answered."""

    id: str  # the box's, and the container's name
    name: str  # of its image
    image: Image  # the image
    channel: BoxChannel  # the pipe to its guest
    notes: tuple[str, ...]  # what a reader should know of it
    copies: Copies  # what it shows of the host


GVISOR = "gvisor"
_PYTHON = "python3"
_HELLO_SECONDS = 20.0
_PROBE_SECONDS = 1.5
_KEEP_SECONDS = 2.0
_EXPLAIN_SECONDS = 0.4


class DockerBackend(BoxStarter):
    """Starts boxes at one daemon; made on the loop that uses it, costs nothing until something is asked."""

    def __init__(
        self,
        endpoint: Endpoint | None = None,
        *,
        owner: str | None = None,
        default_image: str = DEFAULT_IMAGE,
        gvisor: bool = False,
    ) -> None:
        super().__init__("Docker", _KEEP_SECONDS)
        self._endpoint = endpoint or Endpoint()
        self._gvisor = gvisor
        self.name = GVISOR if gvisor else NAME
        # In a container the host's kernel is shared, and filtered; with gVisor each box has its own.
        self.isolation = IsolationClass.GVISOR if gvisor else IsolationClass.CONTAINER
        self._notes: tuple[str, ...] = (OPEN_PIPE,) if gvisor else ()
        self._default_image = default_image
        self._holder = secrets.token_hex(8)
        self._engine = DockerEngine(self._endpoint)
        self._events = DockerEvents(self._endpoint, self._holder)
        self._labels = {OWNER_LABEL: owner or this_owner(), HOLDER_LABEL: self._holder}
        self._volumes = DockerVolumes(self._engine, self._labels)
        self._reaper: Reaper | None = None
        self._proven: set[str] = set()
        self._images: dict[str, tuple[float, Image]] = {}
        self._ready = asyncio.Lock()
        self._let_go = False
        self._at_work = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def probe(self, image: str | None = None) -> Probe:
        """Whether a box of that image starts and runs a command; a daemon that is silent is found out in 1.5 s.

        The box is started once for each image; afterwards the daemon must answer and the image be the same.
        """
        wanted = image or self._default_image

        async def find_out() -> Probe:
            self._refuse_when_closed()
            with self._waited_for():
                return await self._probe(wanted)

        return await self._probed(wanted, find_out)

    async def _probe(self, image: str) -> Probe:
        try:
            daemon = await self._engine.hello(_PROBE_SECONDS)
        except SandboxUnavailable as error:
            if self._endpoint.problem:
                return Probe(ok=False, reason=error.reason, install=error.install or "")
            cure = "Install and start Docker, or let DOCKER_HOST name a daemon."
            return Probe(ok=False, reason=f"{error.reason} at {self._endpoint.url}", install=cure)
        answers = f"daemon {daemon.version} answers"
        if self._gvisor and not daemon.gvisor:
            return Probe(ok=False, reason=f"{answers}, but has no runtime runsc", install=INSTALL_RUNTIME)
        try:
            found = await self._engine.image(image)
            if found is None:
                why = f"{answers}, but image {image} is not there"
                return Probe(ok=False, reason=why, install=build_command(image))
            if found.id not in self._proven:
                await self._try_out(image, daemon)
                self._proven.add(found.id)
        except KaguraError as error:
            return Probe(ok=False, reason=f"{answers}, but no box starts: {error.message.rstrip('.')}")
        reason = f"{answers}{self._with(daemon)}, image {image.removesuffix(':latest')} is built"
        advice = "" if daemon.remapped or self._gvisor else NOT_REMAPPED
        return Probe(ok=True, reason=reason, advice=TOO_OLD if TOO_OLD in self._notes else advice)

    def _with(self, daemon: Daemon) -> str:
        walls = [f"runs gVisor as {daemon.gvisor}"] if self._gvisor else []
        walls += ["maps its root to an ordinary user"] if daemon.remapped else []
        return "".join(f", {wall}" for wall in walls)

    async def _try_out(self, image: str, daemon: Daemon) -> None:
        result = await self._ran(BoxSpec(image=image), shell_command(GVISOR_LOOK if self._gvisor else "true"))
        if not result.ok:
            raise SandboxUnavailable(f"a box of {image} cannot run `true`")
        if self._gvisor:
            self._notes = (OPEN_PIPE, *told_by(result.stdout.text, daemon.kernel))

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box with the project in it, ready for its first command."""
        with self._waited_for():
            running = await self._launch(spec)
            return await self._hand_over(running, spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace, so any project may have them."""
        return None if spec.shown else replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> Parked:
        """A box that is frozen until it is taken."""
        with self._waited_for():
            running = await self._launch(spec)
            end = partial(self._free, running)
            async with freed_on_failure(end):
                await self._engine.pause(running.id)
            seen = identities(spec)
            self._open[running.id] = end
            return Parked(
                running.channel,
                lambda: identities(spec) == seen,
                lambda wanted: self._wake(running, wanted),
                end,
            )

    async def sweep(self, owner_alive: Callable[[str], bool]) -> int:
        """Remove containers and volumes whose owner is gone; how many containers. A silent daemon has none."""
        removed = 0
        with contextlib.suppress(SandboxUnavailable):
            await self._engine.hello(_PROBE_SECONDS)
            removed = await remove_left(self._engine, OWNER_LABEL, lambda owner: not owner_alive(owner))
            await remove_left_volumes(self._engine, OWNER_LABEL, lambda owner: not owner_alive(owner))
        return removed

    async def close(self) -> None:
        """Close every box, parked ones too, and let go of the daemon; may be called twice.

        A start, or the removal of a box that has just died, comes to its end first.
        """
        self._closed = True
        while self._open or self._at_work:
            await self._close_boxes()
            await self._idle.wait()
        await self._events.close()
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            # A start that was cancelled twice may have left what it was clearing up.
            with contextlib.suppress(SandboxUnavailable):
                await remove_left(self._engine, HOLDER_LABEL, lambda holder: holder == self._holder)
                await self._volumes.close()
            await asyncio.to_thread(reaper.dismiss)
        self._let_go = True
        self._engine.close()

    @contextlib.contextmanager
    def _waited_for(self) -> Iterator[None]:
        """What closing waits for: whoever asked the daemon afterwards would open anew what was let go of."""
        self._at_work += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._idle.set()

    # ------------------------------------------------------------- launching

    async def _launch(self, spec: BoxSpec) -> Running:
        """A container whose guest has answered, with an empty workspace."""
        refuse_unsupported(spec, self.name)
        self._refuse_when_closed()
        name = spec.image or self._default_image
        image = await self._image(name)
        daemon = await self._engine.daemon()
        runtime = self._runtime(daemon)
        if spec.writable_root and not (self._gvisor or daemon.remapped):
            raise SandboxUnsupported(self.name, ROOT_NEEDS)
        await self._stand_by(daemon.api)
        box_id = new_box_id()
        labels = {BOX_LABEL: box_id, **self._labels}
        async with freed_on_failure(partial(self._discard, box_id)):
            body = create_body(spec, image.id, guest_argv(_PYTHON), labels, daemon.cpus, runtime, image.volumes)
            copies, warnings = await self._create_shown(box_id, body, spec, image)
            query = "stream=1&stdin=1&stdout=1&stderr=1"
            pipe = await attach(self._endpoint, f"/v{daemon.api}/containers/{box_id}/attach?{query}")
            self._events.expect(box_id)
            channel = BoxChannel(box_id, pipe, explain=lambda: self._explain(box_id, pipe))
            running = Running(box_id, name, image, channel, (*warnings, *copies.notes), copies)
            async with freed_on_failure(channel.close):
                # Waits in the daemon until the guest reads; nothing is lost by being early.
                channel.start(guest_payload(guest_config(spec, image.env), same_python=True))
                await self._engine.start(box_id)
                await channel.hello(_HELLO_SECONDS)
        return running

    async def _create_shown(
        self, box_id: str, body: dict[str, Any], spec: BoxSpec, image: Image
    ) -> tuple[Copies, tuple[str, ...]]:
        """Create the container with its copies of directories; a second time when somebody has just removed one."""
        for _ in range(2):
            copies = await self._volumes.copies(spec.extra_read_only, image.id)
            warnings = await self._create(box_id, with_volumes(body, copies.volumes), spec)
            if await self._volumes.whole(copies):
                return copies, warnings
            await self._engine.remove(box_id)
            await self._volumes.forget(copies)
        raise SandboxUnavailable("volumes of the Docker daemon are removed while a box is being made of them")

    async def _create(self, box_id: str, body: dict[str, Any], spec: BoxSpec) -> tuple[str, ...]:
        if not spec.writable_root:
            return await self._engine.create(box_id, body)
        try:
            return await self._engine.create(box_id, writable_root_body(body, spec, bounded=True))
        except SandboxUnavailable as error:
            if "storage" not in error.reason:
                raise
        # Only some drivers on some file systems can bound what is written into a container's own layer.
        warnings = await self._engine.create(box_id, writable_root_body(body, spec, bounded=False))
        return (*warnings, "what is installed has no size limit: the storage driver of this daemon cannot set one")

    def _runtime(self, daemon: Daemon) -> str:
        if self._gvisor and not daemon.gvisor:
            raise SandboxUnavailable("the Docker daemon has no runtime runsc", INSTALL_RUNTIME)
        return daemon.gvisor if self._gvisor else ""

    async def _image(self, name: str) -> Image:
        until, image = self._images.get(name, (0.0, None))
        if image is None or time.monotonic() > until:
            image = await self._engine.image(name)
            if image is None:
                raise SandboxUnavailable(f"Docker has no image {name}", build_command(name))
            self._images[name] = (time.monotonic() + _KEEP_SECONDS, image)
        return image

    async def _stand_by(self, api: str) -> None:
        """See to it that deaths are heard of and that nothing outlives this process."""
        async with self._ready:
            try:
                await self._events.listen(api)
            except OSError as error:
                raise no_daemon(OTHER_BOXES) from error
            if self._reaper is None or not self._reaper.alive:
                starting = asyncio.ensure_future(asyncio.to_thread(Reaper, self._endpoint, self._holder, this_owner()))
                try:
                    self._reaper = await asyncio.shield(starting)
                except asyncio.CancelledError:
                    # A thread cannot be called back: what it starts must not be lost, or nobody would dismiss it.
                    self._reaper = await starting
                    raise

    async def _explain(self, box_id: str, pipe: AttachPipe) -> str:
        why = await self._events.why(box_id, _EXPLAIN_SECONDS)
        last = pipe.stderr.splitlines()[-3:]
        return "; ".join(part for part in (why, " ".join(last)) if part)

    # ----------------------------------------------------------- handing over

    async def _wake(self, running: Running, spec: BoxSpec) -> PipedBox:
        """Let a frozen container go on, and hand it over."""
        with self._waited_for():
            async with freed_on_failure(partial(self._free, running)):
                if not await still_so(running.copies.states, spec.extra_read_only):
                    raise SandboxUnavailable("the parked box shows what has changed on the host")
                await self._engine.unpause(running.id)
            return await self._hand_over(running, spec, warm=True)

    async def _hand_over(self, running: Running, spec: BoxSpec, *, warm: bool) -> PipedBox:
        async with freed_on_failure(partial(self._free, running)):
            self._refuse_when_closed()
            left_out = await self._fill(running, spec)
            return self._opened(
                running.channel,
                lambda: self._discard(running.id),
                notes=(*running.notes, *self._notes, *copy_notes(spec, left_out)),
                warm=warm,
                image=running.name,
                kind=kind_of(spec),
            )

    async def _fill(self, running: Running, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project; where nobody in the box may write, as its root, who leaves before any command runs."""
        if spec.policy.writable:
            return await send_workspace(running.channel, spec)
        daemon = await self._engine.daemon()
        exec_id = await self._engine.exec_create(running.id, guest_argv(_PYTHON), ROOT)
        path = f"/v{daemon.api}/exec/{exec_id}/start"
        pipe = await attach(self._endpoint, path, {"Detach": False, "Tty": False})
        channel = BoxChannel(running.id, pipe)
        return await send_as_root(channel, spec, command_environment(running.image.env, {}), same_python=True)

    # ---------------------------------------------------------------- freeing

    async def _free(self, running: Running) -> None:
        with self._waited_for():
            await running.channel.close()
            await self._discard(running.id)

    async def _discard(self, box_id: str) -> None:
        """Remove a container, whatever state it is in; after closing there is none."""
        self._open.pop(box_id, None)
        if self._let_go:
            return
        # A daemon that does not answer holds nothing that could be freed now; the next start sweeps.
        with self._waited_for(), contextlib.suppress(SandboxUnavailable):
            await self._engine.remove(box_id)
        self._events.forget(box_id)
