"""What is decided about plugins, or happens to them, as rows of the journal: stored before it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import PluginAudited, PluginChanged
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginPermissions, PluginState
from kagura_kernel.journal.store import Journal

if TYPE_CHECKING:
    from kagura_kernel.plugins.discovery import Found
    from kagura_kernel.plugins.states import Standing

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

    def moved(
        self,
        change: PluginChange,
        session_id: str,
        found: Found,
        standing: Standing,
        *,
        by: str,
        via: str = "",
        why: str = "",
    ) -> None:
        """A plugin has come somewhere else in a session."""
        configured = standing.state in (PluginState.CONFIGURED, PluginState.ENABLED, PluginState.DISABLED)
        self._append(
            change,
            found.name,
            session_id=session_id,
            state=standing.state,
            version=found.manifest.version,
            content_hash=standing.content_hash,
            by=by,
            via=via,
            why=why,
            config=standing.config if configured else {},
            permissions=standing.opens if configured else PluginPermissions(),
        )

    def noted(
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
    ) -> None:
        """Something was decided about a plugin that moves it in no session."""
        self._append(
            change,
            name,
            session_id=session_id,
            version=version,
            content_hash=content_hash,
            by=by,
            via=via,
            why=why,
        )

    def _append(  # noqa: PLR0913 - one row, each a column of it
        self,
        change: PluginChange,
        name: str,
        *,
        session_id: str,
        version: str,
        content_hash: str,
        by: str,
        via: str,
        why: str,
        state: PluginState | Literal[""] = "",
        config: Mapping[str, str] | None = None,
        permissions: PluginPermissions | None = None,
    ) -> None:
        event = PluginChanged(
            run_id="",
            session_id=session_id,
            at=self._clock.now(),
            plugin=name,
            change=change,
            state=state,
            version=version,
            content_hash=content_hash,
            reason=self._redact(why[:MAX_REASON]),
            by=by,
            via=via,
            config=dict(config or {}),
            permissions=permissions or PluginPermissions(),
            owner=self._owner if session_id else "",
        )
        self._journal.append(event)
