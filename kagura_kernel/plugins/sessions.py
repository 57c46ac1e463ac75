"""What the sessions of this process have done with plugins; gone with the process, as enabling lasts for a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kagura_kernel.plugins.enabled import JailedPlugin
from kagura_kernel.plugins.states import Standing


@dataclass
class _Session:
    """One session."""

    standings: dict[str, Standing] = field(default_factory=dict)  # By plugin
    running: dict[str, JailedPlugin] = field(default_factory=dict)  # Those that are enabled, by plugin
    # The latest that was enabled of each, whether it is still or not: what it printed may say why
    last: dict[str, JailedPlugin] = field(default_factory=dict)
    sandbox_dirty: bool = False  # Whether what guests may import has changed since somebody asked
    session_dirty: bool = False  # Whether what the brain is told has changed since it was told
    briefing: str = ""  # What the brain was told


class PluginSessions:
    """All sessions; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def standing(self, session_id: str, name: str) -> Standing:
        """How far a session has come with a plugin; the beginning where it has not begun."""
        with self._lock:
            session = self._sessions.get(session_id)
            return session.standings.get(name, Standing()) if session else Standing()

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
            session.sandbox_dirty = session.session_dirty = True
            return before

    def leave(self, session_id: str, name: str, *, only: JailedPlugin | None = None) -> JailedPlugin | None:
        """Have it enabled no more; it, for whoever ends its jail. None when it was not, or is another than `only`."""
        with self._lock:
            session = self._sessions.get(session_id)
            plugin = session.running.get(name) if session else None
            if session is None or plugin is None or (only is not None and plugin is not only):
                return None
            del session.running[name]
            session.sandbox_dirty = session.session_dirty = True
            return plugin

    def running(self, session_id: str) -> list[JailedPlugin]:
        """Those that are enabled in a session, by name."""
        with self._lock:
            session = self._sessions.get(session_id)
            return [session.running[name] for name in sorted(session.running)] if session else []

    def one(self, session_id: str, name: str) -> JailedPlugin | None:
        """The one of this name that is enabled in a session."""
        with self._lock:
            session = self._sessions.get(session_id)
            return session.running.get(name) if session else None

    def printed(self, session_id: str, name: str) -> str:
        """The latest that a plugin printed in a session, whether it is still enabled or not."""
        with self._lock:
            session = self._sessions.get(session_id)
            plugin = session.last.get(name) if session else None
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

    def consume_sandbox_dirty(self, session_id: str) -> bool:
        """Whether what guests may import has changed since this was last asked."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None or not session.sandbox_dirty:
                return False
            session.sandbox_dirty = False
            return True

    def consume_session_dirty(self, session_id: str) -> bool:
        """Whether what the brain is told has changed since this was last asked."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None or not session.session_dirty:
                return False
            session.session_dirty = False
            return True

    def briefing(self, session_id: str, make: Callable[[Sequence[JailedPlugin]], str]) -> str:
        """What the brain is told; made anew only when the session is dirty, which ends that."""
        if self.consume_session_dirty(session_id):
            text = make(self.running(session_id))
            with self._lock:
                self._of(session_id).briefing = text
        with self._lock:
            session = self._sessions.get(session_id)
            return session.briefing if session else ""

    def _of(self, session_id: str) -> _Session:
        return self._sessions.setdefault(session_id, _Session())
