"""What is decided about plugins, or happens to them, as rows of the journal: stored before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import PluginAudited, PluginChanged
from kagura_kernel.domain.plugins import PluginAudit, PluginChange
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.sessions import CONFIGURED, Standing

if TYPE_CHECKING:
    from kagura_kernel.plugins.discovery import Found

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
        standing: Standing | None = None,
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
        standing: Standing | None = None,
    ) -> None:
        """Something was decided about a plugin or an author; without a standing it moves nothing in a session."""
        configured = standing if standing is not None and standing.state in CONFIGURED else Standing()
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
