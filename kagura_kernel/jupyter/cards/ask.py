"""An approval on a card: while it waits with its buttons, afterwards with its answer."""

from __future__ import annotations

from datetime import timedelta

from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.cards.asked import asked
from kagura_kernel.jupyter.cards.escape import escaped
from kagura_kernel.jupyter.cards.view import Ask, RunView
from kagura_kernel.jupyter.cards.words import clock_face

_KINDS = {
    "host_command": ("Host command", "It would run on this computer with your rights, outside the box"),
    "network": ("Network", "It would let the box reach this host"),
    "credential": ("Credential", "It would lend this credential to the run"),
    "plugin": ("Plugin", "It would let this plugin be used"),
    "write": ("Write", "It would change files of the project"),
    "question": ("Question", "The agent asks you something and waits for the answer"),
}

NO_REASON = "The agent gave no reason."

_VIA = {"cell": ", in the cell", "command": ", by command", "sidebar": ", in the sidebar"}

_VERDICTS = {
    "allow": ("good", "Allowed"),
    "deny": ("bad", "Denied"),
    "timeout": ("bad", "Denied, because nobody answered in time"),
    "aborted": ("warn", "Called off"),
}


def ask_html(ask: Ask, view: RunView, *, live: bool) -> str:
    """The approval card. It has buttons when it is live and undecided."""
    request = ask.request
    label, meaning = _KINDS.get(request.subject, (request.subject, ""))
    title = request.detail or request.title if request.subject == "question" else request.title
    open_now = ask.decision is None and view.finished is None and live
    answer = _buttons(request) if open_now else _answer(ask)
    body = (
        f'<div class="kg-ask-top"><span class="kg-kind">{escaped(label)}</span> '
        f'<strong class="kg-ask-title">{escaped(title)}</strong></div>'
        f"{_detail(request)}{_reason(request)}"
    )
    if open_now:
        body += f'<div class="kg-soft">{escaped(meaning)}{_where(request)}.</div>{_countdown(ask, view)}'
    tone = "kg-open" if open_now else "kg-closed"
    about = f' data-approval="{escaped(request.approval_id)}"' if open_now else ""
    return (
        f'<blockquote class="kg-ask {tone}" role="group" aria-label="{escaped(label)}: {escaped(title)}"{about}>'
        f"{body}{answer}</blockquote>"
    )


def verdict_words(ask: Ask) -> str:
    """How it ended, in words; what stands there while it is open."""
    if ask.decision is None:
        return "Not answered"
    decision = ask.decision
    if decision.via == "policy" and decision.verdict != "allow":
        why = "this cell runs inside another magic and cannot wait for an answer" if ask.inside else ""
        return f"Denied by policy: {why or 'nobody is here who could be asked'}"
    word = _VERDICTS.get(decision.verdict, ("bad", decision.verdict))[1]
    if ask.request.subject == "question" and decision.verdict == "allow":
        word = "Answered"
    if decision.verdict == "timeout":
        return word
    return f"{word} by {decision.by}{_VIA.get(decision.via, '')}"


def _detail(request: ApprovalRequested) -> str:
    parts = asked(request)
    if not parts.subject or parts.subject == request.title or request.subject == "question":
        return ""
    shown = f'<pre class="kg-pre kg-full">{escaped(parts.subject)}</pre>'
    if parts.stdin:
        shown += f'<div class="kg-label">It would read</div><pre class="kg-pre kg-full">{escaped(parts.stdin)}</pre>'
    return shown


def _reason(request: ApprovalRequested) -> str:
    if request.subject == "question":
        return ""
    if not request.reason.strip():
        return f'<div class="kg-says kg-soft">{NO_REASON}</div>'
    return (
        '<div class="kg-says"><span class="kg-soft">The agent’s own words:</span> '
        f"<q>{escaped(request.reason)}</q></div>"
    )


def _where(request: ApprovalRequested) -> str:
    place = asked(request).place
    return f", in <code>{escaped(place)}</code>" if place else ""


def _countdown(ask: Ask, view: RunView) -> str:
    request = ask.request
    now = view.now or request.at
    left = max(0.0, (request.at + timedelta(seconds=request.deadline) - now).total_seconds())
    share = 100 * left / request.deadline if request.deadline else 0
    return (
        f'<div class="kg-count" data-left="{left:.1f}" data-total="{request.deadline:.1f}">'
        f'<span class="kg-bar"><i style="width:{share:.0f}%"></i></span> '
        f'<span><span class="kg-face">{clock_face(left)}</span> left, no answer is a denial</span></div>'
    )


def _buttons(request: ApprovalRequested) -> str:
    ident = f'data-id="{escaped(request.approval_id)}"'
    stop = f'<button type="button" class="kg-btn kg-quiet" data-act="abort" {ident}>Stop the run</button>'
    if request.subject != "question":
        return (
            f'<div class="kg-buttons"><button type="button" class="kg-btn kg-primary" data-act="allow" {ident}>'
            f'Allow once</button> <button type="button" class="kg-btn" data-act="deny" {ident}>Deny</button> '
            f'<span class="kg-spring"></span>{stop}</div><div class="kg-told" role="status"></div>'
        )
    if request.options:
        field = " ".join(
            f'<button type="button" class="kg-btn" data-act="answer" data-answer="{escaped(option)}" {ident}>'
            f"{escaped(option)}</button>"
            for option in request.options
        )
    else:
        field = (
            '<input class="kg-input" type="text" aria-label="Your answer" placeholder="Your answer"> '
            f'<button type="button" class="kg-btn kg-primary" data-act="answer" {ident}>Send</button>'
        )
    skip = f'<button type="button" class="kg-btn kg-quiet" data-act="deny" {ident}>No answer</button>'
    return (
        f'<div class="kg-buttons">{field} <span class="kg-spring"></span>{skip} {stop}</div>'
        '<div class="kg-told" role="status"></div>'
    )


def _answer(ask: Ask) -> str:
    tone = _VERDICTS.get(ask.decision.verdict, ("bad", ""))[0] if ask.decision else "warn"
    said = ""
    if ask.decision is not None and ask.decision.answer and ask.decision.via != "policy":
        said = f" <q>{escaped(ask.decision.answer)}</q>"
    return f'<div class="kg-verdict kg-{tone}">{escaped(verdict_words(ask))}{said}</div>'
