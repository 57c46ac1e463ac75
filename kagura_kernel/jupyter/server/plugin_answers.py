"""What the routes about plugins answer with, and what they leave in the mailbox. In a thread, on an open journal.

What stands in it of a plugin is its author's text, and an audit was written under its influence: displays escape both.

Nothing is decided here that counts: the process that holds the session looks at the files, the audit and the risk anew.
What is refused here is what would surprise the person who pressed the button.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from kagura_kernel.domain.errors import PluginChangedSince, PluginQuarantined, PluginRefused, SessionGone, UnknownName
from kagura_kernel.domain.events import PluginChanged
from kagura_kernel.domain.plugins import PluginAudit, report_of
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.plugin_sessions import (
    AuditRunRow,
    HeldSession,
    concerns,
    find_session,
    latest_audits,
    latest_failures,
    notebooks_of,
)
from kagura_kernel.journal.plugin_views import PluginHistory, PluginView
from kagura_kernel.journal.plugin_words import PluginWord, send_plugin_word, waiting_plugin_words
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server.acting import VIA
from kagura_kernel.jupyter.server.asking import PluginOrder

MOST_SESSIONS = 20
"""So many of a plugin's sessions that go on are named."""


class _Histories:
    """The history of the journal that was asked last: a server has one, until it lies elsewhere."""

    def __init__(self) -> None:
        self._kept: tuple[Journal, PluginHistory] | None = None

    def of(self, journal: Journal) -> PluginHistory:
        """What a journal says about plugins, read on from where it was left; any thread may ask."""
        kept = self._kept
        if kept is None or kept[0] is not journal:
            kept = self._kept = (journal, PluginHistory(journal))
        return kept[1]


history = _Histories().of
"""What a journal says about plugins; not all of it has to be read for each answer."""


def plugins(journal: Journal, *, session_id: str, notebook: str, kernel_id: str, project: str) -> dict[str, Any]:
    """All plugins that a session, a notebook or a project can have, and the session that is meant."""
    views = history(journal).look()
    session = find_session(journal, views, session_id=session_id, notebook=notebook, kernel_id=kernel_id)
    shown = [view for view in views if concerns(view, session, notebook=notebook, project=project)]
    uses = [_uses_shown(view, session) for view in shown]
    notebooks = notebooks_of(journal, {use.owner for found in uses for use in found})
    audits = latest_audits(journal, session.owner) if session is not None else {}
    failures = latest_failures(journal, session.session_id) if session is not None else {}
    words = waiting_plugin_words(journal, session.session_id) if session is not None else []
    return {
        "items": [
            {
                **_plugin_fields(view, session),
                "audit_run": _audit_run_fields(audits.get(view.name)),
                "failure": _failure_fields(failures.get(view.name)),
                "waiting": [_word_fields(word) for word in words if word.plugin == view.name],
                "sessions": [_use_fields(use, notebooks) for use in ours],
            }
            for view, ours in zip(shown, uses, strict=True)
        ],
        "session": _session_fields(session),
        "next": None,
    }


def audit(journal: Journal, name: str, content_hash: str, project: str) -> dict[str, Any]:
    """The latest audit of these files of a plugin, or of those that are there; raises `UnknownName`."""
    known = history(journal)
    views = [view for view in known.look() if concerns(view, None, project=project)]
    view = next((view for view in views if view.name == name), None)
    if view is None:
        raise UnknownName("plugin", name, sorted({view.name for view in views}))
    wanted = content_hash or view.seen.content_hash
    found = known.audit(name, wanted)
    if found is None:
        audited = sorted(one[:16] for one in known.audited_hashes(name))
        raise UnknownName(f"audit of the plugin {name} for the files", wanted[:16], audited, hint="Have it audited.")
    return audit_fields(found)


def audit_fields(found: PluginAudit) -> dict[str, Any]:
    """An audit's report, as every display has it, and the facts behind it."""
    report = report_of(found)
    return {
        "plugin": found.plugin,
        "version": found.version,
        "content_hash": found.content_hash,
        "risk": str(found.risk),
        "risk_words": report.risk_words,
        "verdict": str(found.verdict),
        "verdict_words": report.verdict_words,
        "counts": report.counts,
        "summary": report.summary,
        "remark": report.remark,
        "facts": [asdict(fact) for fact in report.facts],
        "findings": [asdict(finding) for finding in report.findings],
        "injections": [{"text": text, "why": why} for text, why in report.injections],
        "canaries": str(found.canaries),
        "description_accurate": found.description_accurate,
        "static_only": found.static_only,
        "auditor": found.auditor,
        "dangerous": found.dangerous,
        "permissions": asdict(found.permissions),
        "at": None if found.at is None else stamp(found.at),
    }


def _plugin_fields(view: PluginView, session: HeldSession | None) -> dict[str, Any]:
    seen, made = view.seen, view.audit
    use = view.use(session.session_id) if session is not None else None
    return {
        "name": view.name,
        "version": seen.version,
        "description": seen.description,
        "place": seen.place,
        "project": seen.project,
        "modules": list(seen.modules),
        "permissions": asdict(seen.permissions),
        "content_hash": seen.content_hash,
        "state": str(view.state(session.session_id) if session is not None else view.state_alone),
        "why": use.reason if use is not None else "",
        "changed_at": stamp(use.at) if use is not None else None,
        "risk": str(made.risk) if made is not None else None,
        "verdict": str(made.verdict) if made is not None else None,
        "dangerous": made is not None and made.dangerous,
        "static_only": made is not None and made.static_only,
        "audited_at": stamp(made.at) if made is not None and made.at is not None else None,
        "approved": view.approved,
        "signed_by": seen.signed_by,
        "problem": seen.problem,
        "quarantine": view.quarantine,
        "config": dict(use.config) if use is not None else {},
        "opens": asdict(use.permissions) if use is not None else None,
    }


def _uses_shown(view: PluginView, session: HeldSession | None) -> Sequence[PluginChanged]:
    ours = [use for use in view.uses if session is not None and use.session_id == session.session_id]
    others = (use for use in view.uses if use not in ours and owner_alive(use.owner))
    return [*ours, *islice(others, MOST_SESSIONS)]


def _use_fields(use: PluginChanged, notebooks: dict[str, str]) -> dict[str, Any]:
    return {
        "session_id": use.session_id,
        "notebook": notebooks.get(use.owner, ""),
        "state": str(use.state),
        "live": owner_alive(use.owner),
    }


def _session_fields(session: HeldSession | None) -> dict[str, Any] | None:
    if session is None:
        return None
    return {
        "session_id": session.session_id,
        "notebook": session.notebook,
        "kernel_id": session.kernel_id,
        "project": session.project,
        "live": session.live,
    }


def _audit_run_fields(row: AuditRunRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    run = row.run
    return {
        "run_id": run.run_id,
        "status": run.status,
        "live": run.live,
        "started_at": stamp(run.started_at),
        "error_code": run.error_code,
        "error": row.error,
    }


def _failure_fields(event: PluginChanged | None) -> dict[str, Any] | None:
    return None if event is None else {"why": event.reason, "via": event.via, "at": stamp(event.at)}


def _word_fields(word: PluginWord) -> dict[str, Any]:
    return {"deed": word.deed, "by": word.by, "at": stamp(word.at)}


def leave_word(journal: Journal, name: str, order: PluginOrder, by: str) -> dict[str, Any]:
    """Leave a session a word about a plugin.

    Raises:
        UnknownName: there is no such plugin.
        SessionGone: no process that still runs holds the session.
        PluginChangedSince: the files are not those that somebody was shown.
        PluginRefused: nobody has audited them, or the audit found a danger.
        PluginQuarantined: they are put off.
        JournalError: it could not be written down.
    """
    views = history(journal).look()
    if name not in {view.name for view in views}:
        raise UnknownName("plugin", name, sorted({view.name for view in views}))
    session = find_session(journal, views, session_id=order.session_id)
    if session is None or not session.live:
        raise SessionGone(order.session_id)
    view = next((view for view in views if view.name == name and concerns(view, session)), None)
    if view is None:
        raise UnknownName("plugin", name, sorted({view.name for view in views if concerns(view, session)}))
    _check(view, order)
    send_plugin_word(
        journal,
        session.session_id,
        order.deed,
        name,
        by=by,
        via=VIA,
        content_hash=order.content_hash,
        words=order.words,
    )
    return {"plugin": name, "session_id": session.session_id, "deed": order.deed, "state": "asked"}


def _check(view: PluginView, order: PluginOrder) -> None:
    if order.deed in ("disable", "unapprove"):
        # Taking power away is never refused because something else is not as it was.
        return
    if order.content_hash and order.content_hash != view.seen.content_hash:
        raise PluginChangedSince(view.name, "shown")
    if order.deed == "audit":
        return
    if view.quarantine:
        raise PluginQuarantined(view.name, view.quarantine)
    if view.audit is None:
        raise PluginRefused(view.name, "has not been audited", "Have it audited first.")
    if view.audit.dangerous:
        raise PluginRefused(view.name, "has a danger in its source, which nobody can allow")
