"""Plugins as the journal tells of them, whichever process did something: how they stand, and what happened to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from kagura_kernel.domain.errors import JournalUnreadable, UnknownName
from kagura_kernel.domain.events import Event, PluginAudited, PluginCalled, PluginChanged, PluginSeen
from kagura_kernel.domain.plugins import PluginAudit, PluginPlace
from kagura_kernel.journal.encoding import decode
from kagura_kernel.journal.plugin_fold import PluginFold, PluginUse, PluginView
from kagura_kernel.journal.schema import PLUGINS, events
from kagura_kernel.journal.store import Journal

__all__ = [
    "PluginHistory",
    "PluginLogLine",
    "PluginUse",
    "PluginView",
    "one_plugin",
    "plugin_log",
    "plugin_views",
]

_FACTS = ("plugin.audited", "plugin.changed", "plugin.seen")
_ALL = (*_FACTS, "plugin.called")
_ROWS = select(events.c.seq, events.c.body).where(PLUGINS)
_CHUNK = 500
# Behind so many calls of other plugins nobody looks for one of this.
_FAR = 20_000


@dataclass(frozen=True, slots=True)
class PluginLogLine:
    """One thing that happened to a plugin.

    Attributes:
        at: When, UTC.
        what: `seen`, `audited`, `called`, or the change; `printed` for what the plugin itself wrote.
        text: One line for a person.
        ok: Whether it is nothing to worry about.
        session_id: The session; empty where none is concerned.
        run_id: The run that called, or that audited; empty for others.
        by: Who; empty where nobody decided anything.
    """

    at: datetime
    what: str
    text: str
    ok: bool = True
    session_id: str = ""
    run_id: str = ""
    by: str = ""


class PluginHistory:
    """What one journal says about plugins; reads only what is new at each look. Any thread may use it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._fold = PluginFold()
        self._seq = 0

    def look(self) -> list[PluginView]:
        """All plugins, by name; of one name those that come with the package first, then the user's.

        Raises:
            JournalUnreadable: it cannot be read.
        """
        with self._lock:
            self._catch_up()
            return self._fold.views()

    def audit(self, plugin: str, content_hash: str) -> PluginAudit | None:
        """The latest audit of exactly these files; None when there is none. Raises like `look`."""
        with self._lock:
            self._catch_up()
            return self._fold.audits.get((plugin, content_hash))

    def audited_hashes(self, plugin: str) -> frozenset[str]:
        """Hashes of all files of this name that were ever audited. Raises like `look`."""
        with self._lock:
            self._catch_up()
            return frozenset(found for name, found in self._fold.audits if name == plugin)

    def seen(self) -> dict[tuple[str, PluginPlace, str], PluginSeen]:
        """How plugins were when they were last found, by name, place and project. Raises like `look`."""
        with self._lock:
            self._catch_up()
            return dict(self._fold.seen)

    def _catch_up(self) -> None:
        rows = self._journal.read(_of_kinds(_FACTS).where(events.c.seq > self._seq).order_by(events.c.seq))
        for row in rows:
            self._fold.take(_event(self._journal, row))
            self._seq = row.seq


def plugin_views(journal: Journal) -> list[PluginView]:
    """All plugins, read anew; see `PluginHistory.look`."""
    return PluginHistory(journal).look()


def one_plugin(journal: Journal, name: str, *, project: str = "") -> PluginView:
    """One plugin: the one that a session in this project gets.

    Raises:
        UnknownName: nothing is known of it.
        JournalUnreadable: it cannot be read.
    """
    known = [view for view in plugin_views(journal) if view.project in ("", project)]
    for view in known:
        if view.name == name:
            return view
    raise UnknownName("plugin", name, sorted({view.name for view in known}))


def plugin_log(journal: Journal, name: str, *, limit: int = 50) -> list[PluginLogLine]:
    """The latest that happened to a plugin, in every session, the latest last.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    found: list[PluginLogLine] = []
    for event in _newest(journal):
        if (line := _line(event, name)) is not None:
            found.append(line)
        if len(found) >= limit:
            break
    return found[::-1]


def _of_kinds(kinds: Sequence[str]) -> Any:
    return _ROWS.where(events.c.kind.in_(kinds))


def _newest(journal: Journal) -> Iterator[Event]:
    query = _of_kinds(_ALL).order_by(events.c.seq.desc()).limit(_CHUNK)
    rows = journal.read(query)
    looked_at = 0
    while rows:
        for row in rows:
            yield _event(journal, row)
        looked_at += len(rows)
        done = len(rows) < _CHUNK or looked_at >= _FAR
        rows = () if done else journal.read(query.where(events.c.seq < rows[-1].seq))


def _event(journal: Journal, row: Row[Any]) -> Event:
    try:
        return decode(row.body)
    except ValueError as error:
        raise JournalUnreadable(journal.where, f"row {row.seq} is no event") from error


def _line(event: Event, name: str) -> PluginLogLine | None:
    line = PluginLogLine(event.at, "", "", session_id=event.session_id, run_id=event.run_id)
    match event:
        case PluginSeen() if event.plugin == name:
            return replace(line, what="seen", text=_seen_text(event), ok=not event.problem)
        case PluginAudited() if event.audit.plugin == name:
            ok = not event.audit.dangerous
            return replace(line, what="audited", text=_audited_text(event.audit), ok=ok, by=event.by)
        case PluginCalled() if event.plugin == name:
            return replace(line, what="called", text=_called_text(event), ok=event.ok)
        case PluginChanged() if event.plugin == name:
            ok = event.change not in {"changed", "failed", "quarantined", "rejected"}
            return replace(line, what=event.change, text=_changed_text(event), ok=ok, by=event.by)
        case _:
            return None


def _seen_text(event: PluginSeen) -> str:
    if event.gone:
        return "it is there no more"
    return event.problem or f"version {event.version} with the hash {event.content_hash[:12]}"


def _changed_text(event: PluginChanged) -> str:
    if event.reason:
        return event.reason
    given = ", ".join(f"{name}={value}" for name, value in event.config.items())
    return f"{event.change} with {given}" if given and event.change == "configured" else event.change


def _audited_text(audit: PluginAudit) -> str:
    by = audit.auditor or "the scan alone"
    return f"risk {audit.risk}, {audit.verdict}, {len(audit.findings)} findings, by {by}"


def _called_text(event: PluginCalled) -> str:
    call = f"{event.module}.{event.function}"
    took = f"{event.duration * 1000:.0f} ms"
    return f"{call} answered in {took}" if event.ok else f"{call} failed after {took}: {event.error_code} {event.error}"
