"""What the routes about plugins answer with, and what they leave in the mailbox. In a thread, on an open journal.

What stands in it of a plugin is its author's text, and an audit was written under its influence: displays escape both.

Nothing is decided here that counts: the process that holds the session looks at the files, the audit and the risk anew.
What is refused here is what would surprise the person who pressed the button.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, cast

from kagura_kernel.domain.errors import PluginChangedSince, PluginQuarantined, PluginRefused, SessionGone, UnknownName
from kagura_kernel.domain.events import PluginChanged
from kagura_kernel.domain.plugins import report_of
from kagura_kernel.journal import plugins as records
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.mailbox import Deed, send_plugin_word, waiting_plugin_words
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server import models
from kagura_kernel.jupyter.server.parameters import Configuration, ContentHash, SessionName, Text
from kagura_kernel.jupyter.server.runs import VIA, shaped

Session = Annotated[str, SessionName(says="Whose plugin.")]
Shown = Annotated[str, ContentHash(needed=True, says="Of the files whose audit was shown; others are not meant.")]
AnyFiles = Annotated[str, ContentHash(pattern="^([0-9a-f]{64})?$", says="Of the files that were shown.")]
Project = Annotated[str, Text(says="The project whose own plugins are meant beside those of every project.")]

MOST_SESSIONS = 20
"""So many of a plugin's sessions that go on are named."""


@lru_cache(maxsize=1)
def history(journal: Journal) -> records.PluginHistory:
    """What a journal says about plugins, read on from where it was left; any thread may ask.

    That of the journal that was asked last is kept: a server has one, until it lies elsewhere.
    """
    return records.PluginHistory(journal)


def plugins(
    journal: Journal,
    *,
    session: Annotated[str, Text(says="The session that `state`, `config` and `opens` are about.")] = "",
    notebook: Annotated[
        str, Text(says="Else the notebook whose session they are about, as Jupyter tells its kernel.")
    ] = "",
    kernel: Annotated[str, Text(says="Its kernel's id, which counts more than its name.")] = "",
    project: Project = "",
) -> models.Plugins:
    """Plugins, as one session has them.

    What the journal last heard of them, whichever process looked. A session, a notebook or a project is shown the
    plugins that it can have; without any of these all there are.
    """
    views = history(journal).look()
    meant = records.find_session(journal, views, session_id=session, notebook=notebook, kernel_id=kernel)
    shown = [view for view in views if records.concerns(view, meant, notebook=notebook, project=project)]
    uses = [_uses_shown(view, meant) for view in shown]
    notebooks = records.notebooks_of(journal, {use.owner for found in uses for use in found})
    audits = records.latest_audits(journal, meant.owner) if meant is not None else {}
    failures = records.latest_failures(journal, meant.session_id) if meant is not None else {}
    words = waiting_plugin_words(journal, meant.session_id) if meant is not None else []
    return {
        "items": [
            _plugin(
                view,
                meant,
                audit_run=shaped(models.PluginAuditRun, row.run, error=row.error)
                if (row := audits.get(view.name)) is not None
                else None,
                failure=shaped(models.PluginFailure, event, why=event.reason)
                if (event := failures.get(view.name)) is not None
                else None,
                waiting=[shaped(models.PluginWord, word) for word in words if word.plugin == view.name],
                sessions=[_use(use, notebooks) for use in ours],
            )
            for view, ours in zip(shown, uses, strict=True)
        ],
        "session": None if meant is None else shaped(models.PluginSession, meant),
        "next": None,
    }


def plugin_audit(
    journal: Journal,
    name: str,
    *,
    content_hash: Annotated[
        str,
        ContentHash(says="Of the files that are meant; without it those that were there when somebody last looked."),
    ] = "",
    project: Project = "",
) -> models.PluginAudit:
    """The latest audit of a plugin's files.

    Raises:
        UnknownName: there is no such plugin, or no audit of these files.
    """
    known = history(journal)
    views = [view for view in known.look() if records.concerns(view, None, project=project)]
    view = next((view for view in views if view.name == name), None)
    if view is None:
        raise UnknownName("plugin", name, sorted({view.name for view in views}))
    wanted = content_hash or view.seen.content_hash
    found = known.audit(name, wanted)
    if found is None:
        audited = sorted(one[:16] for one in known.audited_hashes(name))
        raise UnknownName(f"audit of the plugin {name} for the files", wanted[:16], audited, hint="Have it audited.")
    report = report_of(found)
    return shaped(
        models.PluginAudit,
        found,
        risk_words=report.risk_words,
        verdict_words=report.verdict_words,
        counts=report.counts,
        summary=report.summary,
        remark=report.remark,
        facts=[asdict(fact) for fact in report.facts],
        findings=[asdict(finding) for finding in report.findings],
        injections=[{"text": text, "why": why} for text, why in report.injections],
        permissions=asdict(found.permissions),
    )


def audit_plugin(
    journal: Journal, name: str, by: str, *, session_id: Session, content_hash: AnyFiles = ""
) -> models.PluginAsked:
    """Have a session audit a plugin anew, which lets it out of quarantine; raises as `enable_plugin`."""
    return _leave_word(journal, name, "audit", by, session_id, content_hash)


def enable_plugin(
    journal: Journal,
    name: str,
    by: str,
    *,
    session_id: Session,
    content_hash: Shown,
    configuration: Annotated[
        tuple[str, ...], Configuration(says="Settings, each `field=value`, quoted as in a shell; no passwords.")
    ] = (),
) -> models.PluginAsked:
    """Have a session enable a plugin whose audit somebody was shown.

    Raises:
        UnknownName: there is no such plugin.
        SessionGone: no process that still runs holds the session.
        PluginChangedSince: the files are not those that somebody was shown.
        PluginRefused: nobody has audited them, or the audit found a danger.
        PluginQuarantined: they are put off.
        JournalError: it could not be written down.
    """
    return _leave_word(journal, name, "enable", by, session_id, content_hash, configuration)


def disable_plugin(
    journal: Journal, name: str, by: str, *, session_id: Session, content_hash: AnyFiles = ""
) -> models.PluginAsked:
    """Have a session disable a plugin; raises as `enable_plugin`."""
    return _leave_word(journal, name, "disable", by, session_id, content_hash)


def approve_plugin(
    journal: Journal, name: str, by: str, *, session_id: Session, content_hash: Shown
) -> models.PluginAsked:
    """Have a session approve a plugin's files for later sessions; raises as `enable_plugin`."""
    return _leave_word(journal, name, "approve", by, session_id, content_hash)


def unapprove_plugin(
    journal: Journal, name: str, by: str, *, session_id: Session, content_hash: AnyFiles = ""
) -> models.PluginAsked:
    """Have a session take an approval back; raises as `enable_plugin`."""
    return _leave_word(journal, name, "unapprove", by, session_id, content_hash)


def _leave_word(
    journal: Journal, name: str, deed: Deed, by: str, session_id: str, content_hash: str, words: tuple[str, ...] = ()
) -> models.PluginAsked:
    views = history(journal).look()
    if name not in {view.name for view in views}:
        raise UnknownName("plugin", name, sorted({view.name for view in views}))
    session = records.find_session(journal, views, session_id=session_id)
    if session is None or not session.live:
        raise SessionGone(session_id)
    view = next((view for view in views if view.name == name and records.concerns(view, session)), None)
    if view is None:
        raise UnknownName("plugin", name, sorted({view.name for view in views if records.concerns(view, session)}))
    _check(view, deed, content_hash)
    send_plugin_word(journal, session.session_id, deed, name, by=by, via=VIA, content_hash=content_hash, words=words)
    return cast(
        "models.PluginAsked", {"plugin": name, "session_id": session.session_id, "deed": deed, "state": "asked"}
    )


def _plugin(view: records.PluginView, session: records.HeldSession | None, **more: Any) -> models.Plugin:
    seen, made = view.seen, view.audit
    use = view.use(session.session_id) if session is not None else None
    return shaped(
        models.Plugin,
        seen,
        permissions=asdict(seen.permissions),
        state=str(view.state(session.session_id) if session is not None else view.state_alone),
        why=use.reason if use is not None else "",
        changed=use is not None and use.change == "changed",
        update=view.update,
        changed_at=stamp(use.at) if use is not None else None,
        risk=str(made.risk) if made is not None else None,
        verdict=str(made.verdict) if made is not None else None,
        dangerous=made is not None and made.dangerous,
        static_only=made is not None and made.static_only,
        audited_at=stamp(made.at) if made is not None and made.at is not None else None,
        approved=view.approved,
        quarantine=view.quarantine,
        config=dict(use.config) if use is not None else {},
        opens=asdict(use.permissions) if use is not None else None,
        name=view.name,
        **more,
    )


def _uses_shown(view: records.PluginView, session: records.HeldSession | None) -> Sequence[PluginChanged]:
    ours = [use for use in view.uses if session is not None and use.session_id == session.session_id]
    others = (use for use in view.uses if use not in ours and owner_alive(use.owner))
    return [*ours, *islice(others, MOST_SESSIONS)]


def _use(use: PluginChanged, notebooks: dict[str, str]) -> models.PluginUse:
    return shaped(models.PluginUse, use, notebook=notebooks.get(use.owner, ""), live=owner_alive(use.owner))


def _check(view: records.PluginView, deed: Deed, content_hash: str) -> None:
    if deed in ("disable", "unapprove"):
        # Taking power away is never refused because something else is not as it was.
        return
    if content_hash and content_hash != view.seen.content_hash:
        raise PluginChangedSince(view.name, "shown")
    if deed == "audit":
        return
    if view.quarantine:
        raise PluginQuarantined(view.name, view.quarantine)
    if view.audit is None:
        raise PluginRefused(view.name, "has not been audited", "Have it audited first.")
    if view.audit.dangerous:
        raise PluginRefused(view.name, "has a danger in its source, which nobody can allow")
