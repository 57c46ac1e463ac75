"""The plugins of a session: the enabled ones with their jails, what was done with them, and the rows that tell of it.

All of it is gone with the process, as enabling lasts for a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import KaguraError, PluginCallRefused, PluginError
from kagura_kernel.domain.events import PluginAudited, PluginChanged
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginPermissions, PluginState
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.calls import FunctionSpec
from kagura_kernel.plugins.manifest import Found, Hints
from kagura_kernel.plugins.permissions import JailPlan

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuration import Value

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
"""Makes a jail.

Raises `PluginRefused` (it gives what it does not declare, or nothing of what it does), `PluginFailed` (its own code
failed), `PluginTimeout`, `PluginJailBroken` (its process ended before it could say), a `SandboxError`, or a
`WorkspaceError` (a path of the plan cannot be shown to it).
"""

IDLE_SECONDS = 600.0
"""How long a jail may be without a call until it is ended; the next call starts it again."""


class JailedPlugin:
    """An `EnabledPlugin`; lives on the engine's loop."""

    def __init__(self, order: JailOrder, start: StartJail, clock: Clock) -> None:
        self.found = order.found  # What was loaded: name, place, manifest and bytes
        self.hints: Hints = order.found.manifest.hints  # What its author wants a brain to know
        # What guest code may import; empty before `open`
        self.modules: Mapping[str, tuple[FunctionSpec, ...]] = MappingProxyType({})
        self._order = order
        self._start = start
        self._clock = clock
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

        `why` is what those are told who call it nevertheless, half a sentence: `was disabled`.
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
            task = asyncio.current_task()
            if self._off and not (task is not None and task.cancelling()):
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
            left = idle_since + IDLE_SECONDS - self._clock.monotonic()
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


CONFIGURED = (PluginState.CONFIGURED, PluginState.ENABLED, PluginState.DISABLED)
"""Where a plugin is what it was configured as."""


Step = Literal["audit", "configure", "enable", "disable", "fail", "change", "quarantine", "release"]
"""What can happen to a plugin: `change` is other files than those it came so far with, `fail` a fault of its own."""

_ANY = tuple(PluginState)
# From which states each leads, and where to.
_STEPS: Mapping[Step, tuple[tuple[PluginState, ...], PluginState]] = {
    "audit": (_ANY, PluginState.AUDITED),
    # An approved plugin is configured without an audit of the session's own.
    "configure": (tuple(state for state in _ANY if state is not PluginState.QUARANTINED), PluginState.CONFIGURED),
    "enable": ((PluginState.CONFIGURED,), PluginState.ENABLED),
    "disable": ((PluginState.CONFIGURED, PluginState.ENABLED), PluginState.DISABLED),
    "fail": ((PluginState.CONFIGURED, PluginState.ENABLED), PluginState.DISABLED),
    "change": (_ANY, PluginState.DISCOVERED),
    "quarantine": (_ANY, PluginState.QUARANTINED),
    "release": ((PluginState.QUARANTINED,), PluginState.DISCOVERED),
}


class NoSuchStep(Exception):
    """Nothing leads there from here; whoever asked has lost count."""

    def __init__(self, state: PluginState, step: Step) -> None:
        super().__init__(f"a plugin that is {state} cannot {step}")


def after(state: PluginState, step: Step) -> PluginState:
    """Where a plugin is after a step. Raises `NoSuchStep`: the step cannot be taken from here."""
    begins, ends = _STEPS[step]
    if state not in begins:
        raise NoSuchStep(state, step)
    # Looking once more at what was configured already takes nothing back; it is the way out of quarantine.
    looked = step == "audit" and state not in (PluginState.DISCOVERED, PluginState.QUARANTINED)
    return state if looked else ends


@dataclass(frozen=True, slots=True)
class SessionPlugin:
    """How far one session has come with one plugin."""

    state: PluginState = PluginState.DISCOVERED  # Where it is
    content_hash: str = ""  # The bytes that this is about; with others it begins anew
    # What it was last configured with
    values: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    # All of its configuration, as it may be shown
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    opens: PluginPermissions = field(default_factory=PluginPermissions)  # What its jail opens

    def about(self, content_hash: str) -> SessionPlugin:
        """The same for these bytes: what a person configured is kept, what was found out about other bytes is not."""
        if content_hash == self.content_hash:
            return self
        return SessionPlugin(content_hash=content_hash, values=self.values, config=self.config)


def shown_state(standing: SessionPlugin, content_hash: str, *, audited: bool, quarantined: bool) -> PluginState:
    """What a list says of a plugin whose files have this hash now.

    `audited` says whether exactly these files have ever been audited.
    """
    if quarantined:
        return PluginState.QUARANTINED
    if standing.state is PluginState.ENABLED:
        # Until the next run finds that the files are others, what was loaded goes on.
        return PluginState.ENABLED
    if standing.content_hash == content_hash and standing.state in (PluginState.CONFIGURED, PluginState.DISABLED):
        return standing.state
    return PluginState.AUDITED if audited else PluginState.DISCOVERED


@dataclass
class _Session:
    standings: dict[str, SessionPlugin] = field(default_factory=dict)  # By plugin
    running: dict[str, JailedPlugin] = field(default_factory=dict)  # Those that are enabled, by plugin
    # The latest that was enabled of each, whether it is still or not: what it printed may say why
    last: dict[str, JailedPlugin] = field(default_factory=dict)


class PluginSessions:
    """All sessions; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def standing(self, session_id: str, name: str) -> SessionPlugin:
        """How far a session has come with a plugin; the beginning where it has not begun."""
        with self._lock:
            return self._known(session_id).standings.get(name, SessionPlugin())

    def put(self, session_id: str, name: str, standing: SessionPlugin) -> None:
        """Keep how far it has come."""
        with self._lock:
            self._of(session_id).standings[name] = standing

    def enter(self, session_id: str, plugin: JailedPlugin) -> JailedPlugin | None:
        """Have a plugin enabled from now on; the one of this name that was enabled before."""
        with self._lock:
            session = self._of(session_id)
            before = session.running.get(plugin.name)
            session.running[plugin.name] = session.last[plugin.name] = plugin
            return before

    def leave(self, session_id: str, name: str, *, only: JailedPlugin | None = None) -> JailedPlugin | None:
        """Have it enabled no more; it, for whoever ends its jail. None when it was not, or is another than `only`."""
        with self._lock:
            running = self._known(session_id).running
            plugin = running.get(name)
            return None if plugin is None or (only is not None and plugin is not only) else running.pop(name)

    def running(self, session_id: str) -> list[JailedPlugin]:
        """Those that are enabled in a session, by name."""
        with self._lock:
            running = self._known(session_id).running
            return [running[name] for name in sorted(running)]

    def one(self, session_id: str, name: str) -> JailedPlugin | None:
        """The one of this name that is enabled in a session."""
        with self._lock:
            return self._known(session_id).running.get(name)

    def printed(self, session_id: str, name: str) -> str:
        """The latest that a plugin printed in a session, whether it is still enabled or not."""
        with self._lock:
            plugin = self._known(session_id).last.get(name)
        return plugin.log if plugin is not None else ""

    def enabled(self) -> list[tuple[str, JailedPlugin]]:
        """Everything that is enabled, each with its session."""
        with self._lock:
            return [(key, plugin) for key, session in self._sessions.items() for plugin in session.running.values()]

    def everywhere(self, name: str, content_hash: str) -> list[tuple[str, JailedPlugin]]:
        """The sessions in which exactly these bytes are enabled, each with its own."""
        return [one for one in self.enabled() if (one[1].name, one[1].content_hash) == (name, content_hash)]

    def clear(self) -> list[tuple[str, JailedPlugin]]:
        """Have nothing enabled any more; what was, by session."""
        was = self.enabled()
        return [(key, plugin) for key, plugin in was if self.leave(key, plugin.name, only=plugin) is not None]

    def known(self, session_ids: Sequence[str] = ()) -> list[str]:
        """Sessions that have come anywhere with a plugin, and these."""
        with self._lock:
            return list(dict.fromkeys([*session_ids, *self._sessions]))

    def _known(self, session_id: str) -> _Session:
        """A session, to be looked at; one without anything where it has not come anywhere with a plugin."""
        return self._sessions.get(session_id) or _Session()

    def _of(self, session_id: str) -> _Session:
        return self._sessions.setdefault(session_id, _Session())


ITSELF = "kagura"
"""Who did what was nobody's decision."""

MAX_REASON = 1000


class Teller:
    """Writes down what becomes of plugins in one process; any thread may use it.

    Every method raises `JournalError` when it could not be written down; then it must not be done.
    """

    def __init__(self, journal: Journal, clock: Clock, owner: str, redact: Callable[[Any], Any]) -> None:
        self._journal = journal
        self._clock = clock
        self._owner = owner
        self._redact = redact

    def audited(self, session_id: str, audit: PluginAudit, *, by: str) -> None:
        """An audit that no run has stored."""
        event = PluginAudited(run_id="", session_id=session_id, at=self._clock.now(), audit=self._redact(audit), by=by)
        self._journal.append(event)

    def decided(
        self,
        change: PluginChange,
        session_id: str,
        found: Found,
        standing: SessionPlugin | None = None,
        *,
        by: str,
        via: str = "",
        why: str = "",
    ) -> None:
        """Something was decided about these files of a plugin; with a standing, it has come there in a session."""
        self.noted(
            change,
            found.name,
            by=by,
            via=via,
            why=why,
            session_id=session_id,
            version=found.manifest.version,
            content_hash=found.content.content_hash if standing is None else standing.content_hash,
            standing=standing,
        )

    def noted(  # noqa: PLR0913 - one row, each a column of it
        self,
        change: PluginChange,
        name: str,
        *,
        by: str,
        via: str = "",
        why: str = "",
        session_id: str = "",
        version: str = "",
        content_hash: str = "",
        standing: SessionPlugin | None = None,
    ) -> None:
        """Something was decided about a plugin or an author; without a standing it moves nothing in a session."""
        configured = standing if standing is not None and standing.state in CONFIGURED else SessionPlugin()
        event = PluginChanged(
            run_id="",
            session_id=session_id,
            at=self._clock.now(),
            plugin=name,
            change=change,
            state=standing.state if standing is not None else "",
            version=version,
            content_hash=content_hash,
            reason=self._redact(why[:MAX_REASON]),
            by=by,
            via=via,
            config=dict(configured.config),
            permissions=configured.opens,
            owner=self._owner if session_id else "",
        )
        self._journal.append(event)
