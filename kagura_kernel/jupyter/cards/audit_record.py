"""An audit or an enabling as plain text, and as a record for programs, beside its card in the notebook file.

As of runs: what differs from time to time, ids, times and who decided, stands in the output's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.cards.audit import CONFIGURED, audit_html, report_block
from kagura_kernel.jupyter.cards.audit_form import decision_words, title_words
from kagura_kernel.jupyter.cards.audit_view import STATES, AuditView, Subject
from kagura_kernel.jupyter.cards.record import audit_record, clean, picked
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.html import Bundle
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.approvals import verdict_words

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginAudit

AUDIT_MIME = "application/vnd.kagura.audit+json"

_LINE = 240


def audit_bundle(view: AuditView) -> Bundle:
    """An audit for a display slot."""
    data = {"text/plain": card_text(view), "text/html": audit_html(view), AUDIT_MIME: card_record(view)}
    return data, {"kagura": card_metadata(view)}


def card_text(view: AuditView) -> str:
    """The whole card; nothing in it differs between two runs of the same thing."""
    about = view.subject
    name = f" of {about.name} {about.version}" if about is not None else ""
    lines = [f"[plugin audit{name}: {STATES[view.state][0].lower()}]"]
    lines += [f"! {visible(text)}" for text in view.notes]
    lines += [f"? {visible(ask.request.title)}  {verdict_words(ask)}" for ask in view.questions]
    if view.audit is not None:
        lines += report_lines(view.audit, about, cached=view.cached)
    if view.waiting:
        lines.append(f"? {visible(title_words(view))}?  Not answered")
    elif words := decision_words(view):
        lines.append(words)
    return "\n".join([*lines, *_end(view)])


def report_lines(audit: PluginAudit, subject: Subject | None, *, cached: bool) -> list[str]:
    """The report, for the card's text and for a console."""
    return lines_of([report_block(audit, subject, cached=cached)])


def card_record(view: AuditView) -> dict[str, Any]:
    """What was found and what came of it, without anything that differs from time to time."""
    about = view.subject or Subject("")
    record = picked(about, "modules", plugin="name", plugin_version="version") | {"version": 1}
    record |= picked(view, "cached", status="state", config="configured")
    record |= picked(view.decision, "verdict", "via") if view.decision else {"verdict": "", "via": ""}
    record["error_code"] = view.error.code if view.error is not None else ""
    record["approved"] = bool(view.enabled) and about.approved
    record["audit"] = audit_record(view.audit) if view.audit is not None else None
    found: dict[str, Any] = clean(record)
    return found


def card_metadata(view: AuditView) -> dict[str, Any]:
    """Ids, hashes, times and money."""
    facts: dict[str, Any] = {"cost_usd": view.run.usd}
    if view.run.started is not None:
        facts |= picked(view.run.started, "run_id", started_at="at")
    if view.audit is not None:
        facts |= picked(view.audit, "content_hash", "auditor", audited_at="at")
    if view.decision is not None:
        facts |= picked(view.decision, "approval_id", "by", "at")
    found: dict[str, Any] = clean(facts)
    return found


def _end(view: AuditView) -> Iterator[str]:
    if view.configured:
        told = ", ".join(f"{name}={one_line(text, _LINE)}" for name, text in view.configured.items())
        yield f"{CONFIGURED} {told}."
    if view.enabled:
        yield visible(view.enabled)
    elif view.error is not None and view.state != "stopped":
        yield f"{view.error.code}: {visible(view.why)}"
