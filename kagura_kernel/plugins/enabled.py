"""A plugin that is enabled in one session: its jail comes up with it, ends when nobody calls, and comes up again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import KaguraError, PluginCallRefused, PluginError
from kagura_kernel.plugins.calling import FunctionSpec
from kagura_kernel.plugins.discovery import Found
from kagura_kernel.plugins.manifest import Hints
from kagura_kernel.plugins.permissions import JailPlan

FAILED_STARTS = 3
"""A plugin whose jail did not come up again so often in a row is put off."""


class RunningJail(Protocol):
    """A jail, as whoever calls into it sees it; `jail.Jail` is one."""

    @property
    def modules(self) -> Mapping[str, tuple[FunctionSpec, ...]]:
        """What the plugin offers."""

    @property
    def log(self) -> str:
        """The latest that the plugin printed."""

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See `EnabledPlugin.call`."""

    async def close(self) -> None:
        """End it; calls under way are cut. May be called twice."""


@dataclass(frozen=True, slots=True)
class JailOrder:
    """The jail that is wanted."""

    session_id: str  # Whose
    found: Found  # The plugin: its bytes are loaded, and no others
    plan: JailPlan  # What the jail opens, and the configuration as the plugin gets it
    quarantine: Callable[[str], None]  # Called on the engine's loop when the plugin must be put off, with the reason


StartJail = Callable[[JailOrder], Coroutine[Any, Any, RunningJail]]
"""Makes a jail. Raises `PluginRefused`, `PluginFailed`, `PluginJailBroken`, or a `SandboxError`."""


class JailedPlugin:
    """An `EnabledPlugin`; lives on the engine's loop."""

    def __init__(self, order: JailOrder, start: StartJail, clock: Clock, idle_seconds: float) -> None:
        self.found = order.found  # What was loaded: name, place, manifest and bytes
        self.hints: Hints = order.found.manifest.hints  # What its author wants a brain to know
        # What guest code may import; empty before `open`
        self.modules: Mapping[str, tuple[FunctionSpec, ...]] = MappingProxyType({})
        self._order = order
        self._start = start
        self._clock = clock
        self._idle = idle_seconds
        self._lock = asyncio.Lock()
        self._jail: RunningJail | None = None
        self._starting: asyncio.Future[RunningJail] | None = None
        self._resting: asyncio.Task[None] | None = None
        self._under_way = 0
        self._used = 0.0
        self._failed_starts = 0
        self._off = ""
        self._printed = ""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.found.name

    @property
    def version(self) -> str:
        """SemVer."""
        return self.found.manifest.version

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that was loaded, in hexadecimal."""
        return self.found.content.content_hash

    @property
    def _counts(self) -> bool:
        """Whether it may have budgets and rates in its memory: another jail would begin them anew."""
        plan = self._order.plan
        return bool(plan.net or plan.services) or any(shown.writable for shown in plan.shown)

    @property
    def awake(self) -> bool:
        """Whether it has a jail now; without one, the next call starts it."""
        return self._jail is not None

    @property
    def log(self) -> str:
        """The latest that the plugin printed, in this jail or in the one before."""
        return self._jail.log if self._jail is not None else self._printed

    async def open(self) -> None:
        """Start its jail for the first time; raises as `StartJail` says, and leaves nothing behind then."""
        async with self._lock:
            jail = await self._awake()
            self.modules = jail.modules

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See `EnabledPlugin.call`; a jail that had ended for want of calls is started again first."""
        # Counted before anything is awaited, so that nobody puts to rest what is about to be used.
        self._under_way += 1
        try:
            async with self._lock:
                jail = await self._awake()
            return await jail.call(module, function, arguments, named)
        finally:
            self._under_way -= 1
            self._used = self._clock.monotonic()

    async def close(self, why: str) -> None:
        """End its jail for good; calls under way are cut, and later ones refused. May be called twice.

        Args:
            why: What those are told who call it nevertheless, half a sentence: `was disabled`.
        """
        self._off = self._off or why
        for waited in (self._starting, self._resting):
            if waited is not None:
                waited.cancel()
        async with self._lock:
            await self._end()

    async def _awake(self) -> RunningJail:
        if self._off:
            raise PluginCallRefused(f"The plugin {self.name!r} {self._off}.")
        if self._jail is None:
            self._jail = await self._started()
            self._used = self._clock.monotonic()
            if not self._counts:
                self._resting = asyncio.create_task(self._rest(), name=f"idle jail of {self.name}")
        return self._jail

    async def _started(self) -> RunningJail:
        self._starting = asyncio.ensure_future(self._start(self._order))
        try:
            jail = await self._starting
        except asyncio.CancelledError:
            # Cut by `close`, or by whoever waits for this call: only the latter has asked for silence.
            if self._off and not _is_cancelled():
                raise PluginCallRefused(f"The plugin {self.name!r} {self._off}.") from None
            raise
        except PluginError:
            self._failed_starts += 1
            if self._failed_starts == FAILED_STARTS:
                self._order.quarantine(f"its jail did not come up {FAILED_STARTS} times in a row")
            raise
        finally:
            self._starting = None
        self._failed_starts = 0
        return jail

    async def _rest(self) -> None:
        """Ends the jail when it has not been called for a while."""
        while True:
            idle_since = self._clock.monotonic() if self._under_way else self._used
            left = idle_since + self._idle - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
                continue
            async with self._lock:
                if self._under_way == 0:
                    self._resting = None
                    await self._end()
                    return

    async def _end(self) -> None:
        jail, self._jail = self._jail, None
        if jail is None:
            return
        self._printed = jail.log
        # Whoever ends it has nothing to learn from how that went, and a box that is left ends with its pipe.
        with contextlib.suppress(KaguraError, OSError):
            await jail.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
