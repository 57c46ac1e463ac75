"""What the sessions of this process have done with plugins, and what brings a plugin from one place to the next.

It is gone with the process, as enabling lasts for a session.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from kagura_kernel.domain.plugins import PluginPermissions, PluginState
from kagura_kernel.plugins.enabled import JailedPlugin

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuring import Value

CONFIGURED = (PluginState.CONFIGURED, PluginState.ENABLED, PluginState.DISABLED)
"""Where a plugin is what it was configured as."""


Step = Literal["audit", "configure", "enable", "disable", "fail", "change", "quarantine", "release"]
"""What can happen to a plugin: `change` is other files than those it came so far with, `fail` a fault of its own."""

_ANY = tuple(PluginState)
_COMES_FROM: Mapping[Step, tuple[PluginState, ...]] = {
    "audit": _ANY,
    # An approved plugin is configured without an audit of the session's own.
    "configure": tuple(state for state in _ANY if state is not PluginState.QUARANTINED),
    "enable": (PluginState.CONFIGURED,),
    "disable": (PluginState.CONFIGURED, PluginState.ENABLED),
    "fail": (PluginState.CONFIGURED, PluginState.ENABLED),
    "change": _ANY,
    "quarantine": _ANY,
    "release": (PluginState.QUARANTINED,),
}
_LEADS_TO: Mapping[Step, PluginState] = {
    "configure": PluginState.CONFIGURED,
    "enable": PluginState.ENABLED,
    "disable": PluginState.DISABLED,
    "fail": PluginState.DISABLED,
    "change": PluginState.DISCOVERED,
    "quarantine": PluginState.QUARANTINED,
    "release": PluginState.DISCOVERED,
}


class NoSuchStep(Exception):
    """Nothing leads there from here; whoever asked has lost count."""

    def __init__(self, state: PluginState, step: Step) -> None:
        super().__init__(f"a plugin that is {state} cannot {step}")


def after(state: PluginState, step: Step) -> PluginState:
    """Where a plugin is after a step.

    Raises:
        NoSuchStep: the step cannot be taken from here.
    """
    if state not in _COMES_FROM[step]:
        raise NoSuchStep(state, step)
    if step == "audit":
        # Looking once more at what was configured already takes nothing back; it is the way out of quarantine.
        first = state in (PluginState.DISCOVERED, PluginState.QUARANTINED)
        return PluginState.AUDITED if first else state
    return _LEADS_TO[step]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one session has come with one plugin."""

    state: PluginState = PluginState.DISCOVERED  # Where it is
    content_hash: str = ""  # The bytes that this is about; with others it begins anew
    # What it was last configured with
    values: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    # All of its configuration, as it may be shown
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    opens: PluginPermissions = field(default_factory=PluginPermissions)  # What its jail opens

    def about(self, content_hash: str) -> Standing:
        """The same for these bytes: what a person configured is kept, what was found out about other bytes is not."""
        if content_hash == self.content_hash:
            return self
        return Standing(content_hash=content_hash, values=self.values, config=self.config)


def shown_state(standing: Standing, content_hash: str, *, audited: bool, quarantined: bool) -> PluginState:
    """What a list says of a plugin whose files have this hash now.

    Args:
        standing: How far the session has come.
        content_hash: Of the files that are there; empty for what cannot be read.
        audited: Whether exactly these files have ever been audited.
        quarantined: Whether they are put off.
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
    """One session."""

    standings: dict[str, Standing] = field(default_factory=dict)  # By plugin
    running: dict[str, JailedPlugin] = field(default_factory=dict)  # Those that are enabled, by plugin
    # The latest that was enabled of each, whether it is still or not: what it printed may say why
    last: dict[str, JailedPlugin] = field(default_factory=dict)


class PluginSessions:
    """All sessions; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def standing(self, session_id: str, name: str) -> Standing:
        """How far a session has come with a plugin; the beginning where it has not begun."""
        with self._lock:
            return self._known(session_id).standings.get(name, Standing())

    def put(self, session_id: str, name: str, standing: Standing) -> None:
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

    def everywhere(self, name: str, content_hash: str) -> list[tuple[str, JailedPlugin]]:
        """The sessions in which exactly these bytes are enabled, each with its own."""
        with self._lock:
            return [
                (session_id, plugin)
                for session_id, session in self._sessions.items()
                for plugin in session.running.values()
                if (plugin.name, plugin.content_hash) == (name, content_hash)
            ]

    def clear(self) -> list[tuple[str, JailedPlugin]]:
        """Have nothing enabled any more; what was, by session."""
        with self._lock:
            was = [(key, plugin) for key, session in self._sessions.items() for plugin in session.running.values()]
            for session in self._sessions.values():
                session.running.clear()
            return was

    def known(self, session_ids: Sequence[str] = ()) -> list[str]:
        """Sessions that have come anywhere with a plugin, and these."""
        with self._lock:
            return list(dict.fromkeys([*session_ids, *self._sessions]))

    def _known(self, session_id: str) -> _Session:
        """A session, to be looked at; one without anything where it has not come anywhere with a plugin."""
        return self._sessions.get(session_id) or _Session()

    def _of(self, session_id: str) -> _Session:
        return self._sessions.setdefault(session_id, _Session())
