"""A back-end without boxes behind it, for tests of what stands before back-ends: the pool, the choice, the desk.

Its boxes run nothing; every command succeeds and prints nothing. It counts what it made and what is still open.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult, OutputListener
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.sandbox.backend import BoxChange, BoxSpec, Failed, Listener, Probe, ServeStream


class IdleBox:
    """A box that does nothing; satisfies `Box`."""

    def __init__(self, backend: IdleBackend, spec: BoxSpec, *, warm: bool = False) -> None:
        self.id: str = new_box_id()
        self.backend = backend.name
        self.isolation = backend.isolation
        self.image = spec.image or ""
        self.warm = warm
        self.notes: tuple[str, ...] = ()
        self.spec = spec
        self._home = backend
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        backend.open.add(self.id)

    @property
    def files(self) -> FileSystem:
        """It has none."""
        raise SandboxUnsupported(self.backend, "files")

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    def die(self, why: str = "it was told to") -> None:
        """End as a box that nobody closed."""
        self._home.open.discard(self.id)
        if not self._ended.done():
            self._ended.set_result(why)

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:  # noqa: ARG002 - the protocol's
        """Success without output.

        Raises:
            SandboxDied: it has ended.
        """
        if self._ended.done():
            raise SandboxDied(self.id, self._ended.result())
        return CommandResult(0)

    async def changes(self) -> list[BoxChange]:
        """None."""
        return []

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """The port; nobody ever connects to it."""
        del serve, failed
        return listener.port or 1

    async def wait_closed(self) -> str:
        """Why it ended."""
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """End it."""
        self.die("")


class IdleParked:
    def __init__(self, backend: IdleBackend, spec: BoxSpec) -> None:
        self._backend = backend
        self.box = IdleBox(backend, spec, warm=True)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.box.closed

    async def take(self, spec: BoxSpec) -> IdleBox:
        """The box, unless the back-end was told that it fails here."""
        try:
            await self._backend.before_taking()
        except BaseException:
            await self.close()
            raise
        self.box.spec = spec
        return self.box

    async def close(self) -> None:
        """End it."""
        await self.box.close()


class IdleBackend:
    """Starts boxes that do nothing; satisfies `SandboxBackend` and, unless told otherwise, `ParkingBackend`."""

    def __init__(
        self,
        name: str = "idle",
        *,
        isolation: IsolationClass = IsolationClass.NAMESPACE,
        probe: Probe = Probe(ok=True, reason="it does nothing"),  # noqa: B008 - a frozen value
    ) -> None:
        self.name = name
        self.isolation = isolation
        self.answer = probe
        self.probed: list[str | None] = []
        self.open: set[str] = set()  # Ids of boxes that are not closed, parked ones too
        self.started = 0  # How many cold starts there were
        self.parked: list[IdleParked] = []  # Every parked box ever made
        self.fail_starts = False  # Whether starting and parking fail
        self.fail_takes = False  # Whether parked boxes turn out dead when they are taken
        self.take_error: Exception | None = None  # What taking raises instead
        self.gate: asyncio.Event | None = None  # When set, starting, parking and taking wait for it
        self.closed = False

    async def pause_here(self) -> None:
        """Let others run; wait for the gate."""
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()

    async def before_taking(self) -> None:
        """Raise what a take shall raise."""
        await self.pause_here()
        if self.fail_takes:
            raise SandboxUnavailable("it died while it was taken")
        if self.take_error is not None:
            raise self.take_error

    async def probe(self, image: str | None = None) -> Probe:
        """The answer it was made with."""
        self.probed.append(image)
        return self.answer

    async def start(self, spec: BoxSpec) -> IdleBox:
        await self.pause_here()
        if self.fail_starts:
            raise SandboxUnavailable("it was told to fail")
        self.started += 1
        return IdleBox(self, spec)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Parks without a workspace; not at all where files of the host are shown as they are."""
        return None if spec.shown else replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> IdleParked:
        await self.pause_here()
        if self.fail_starts:
            raise SandboxUnavailable("it was told to fail")
        self.parked.append(IdleParked(self, spec))
        return self.parked[-1]

    async def close(self) -> None:
        self.closed = True
        self.open.clear()
