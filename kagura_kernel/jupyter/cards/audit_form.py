"""The question of an enabling: a form, and the buttons below it; afterwards what was decided, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kagura_kernel.domain.plugins import RISK_WORDS
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped, one_line
from kagura_kernel.render.figures import clock_face

if TYPE_CHECKING:
    from kagura_kernel.jupyter.cards.audit_view import AuditView, FormField, PluginForm

ENABLE, APPROVE, REJECT, CANCEL = "Enable", "Approve", "Reject", "Cancel"
"""Choices of the question; the cockpit asks with the same words."""

_MEANINGS = {
    ENABLE: "Let this session’s boxes call it",
    APPROVE: "Let this session’s boxes call it, and later sessions enable these very files without an audit",
    REJECT: "Do not enable it",
    CANCEL: "Do not enable it now",
}
_VIA = {"cell": "", "command": " by command", "sidebar": " in the sidebar", "terminal": " in a terminal"}
_ENABLED = {True: "Enabled, and approved for later sessions,", False: "Enabled"}
_YES_NO = (("y", "Yes"), ("n", "No"))


def form_html(view: AuditView, *, left: float, live: bool) -> str:
    """The question with its form and its buttons, or what became of it; empty before it is asked.

    Args:
        view: The enabling.
        left: Seconds until no answer is a no.
        live: Whether it can be answered here.
    """
    form = view.form
    if not view.waiting or form is None:
        words = decision_words(view)
        return f'<div class="kg-verdict">{escaped(words)}</div>' if words else ""
    if not live:
        return '<div class="kg-verdict kg-warn">Not answered</div>'
    title = title_words(view)
    fields = "".join(_field(one, view.problems.get(one.name, ""), form.ident) for one in form.fields)
    filled = f'<div class="kg-form">{fields}</div>' if fields else ""
    return (
        f'<blockquote class="kg-ask kg-open" role="group" tabindex="0" aria-label="Plugin: {escaped(title)}" '
        f'data-block data-approval="{escaped(form.ident)}">'
        '<div class="kg-ask-top"><span class="kg-kind">Plugin</span> '
        f'<strong class="kg-ask-title">{escaped(title)}?</strong></div>{filled}{_meaning(form.choices)}'
        f"{_countdown(left, form.deadline)}{_buttons(form)}</blockquote>"
    )


def title_words(view: AuditView) -> str:
    """What is asked."""
    if view.subject is None:
        return ""
    how = RISK_WORDS[view.audit.risk].lower() if view.audit is not None else "approved earlier"
    return f"Enable {view.subject.name} {view.subject.version}, {how}"


def decision_words(view: AuditView) -> str:
    """Who decided what, and where; empty where nobody had to."""
    if view.cancelled:
        return "Cancelled"
    decision = view.decision
    if decision is None:
        return ""
    if decision.via == "policy":
        return "Denied by policy: nobody is here who could be asked" if decision.verdict != "allow" else ""
    if decision.verdict == "timeout":
        return "Not enabled, because nobody answered in time"
    if decision.verdict == "aborted":
        return ""
    if decision.verdict != "allow":
        word = "Rejected"
    elif view.enabled:
        word = _ENABLED[decision.answer.strip().casefold() == APPROVE.casefold()]
    else:
        word = "Allowed"
    return f"{word} by {visible(decision.by)}{_VIA.get(decision.via, '')}"


def _meaning(choices: tuple[str, ...]) -> str:
    if APPROVE not in choices:
        return ""
    return (
        f'<div class="kg-soft"><b>{ENABLE}</b>: for this session. <b>{APPROVE}</b>: for later ones too, until one of '
        "its files changes.</div>"
    )


def _countdown(left: float, total: float) -> str:
    share = 100 * left / total if total else 0
    return (
        f'<div class="kg-count" data-left="{left:.1f}" data-total="{total:.1f}">'
        f'<span class="kg-bar"><i style="width:{share:.0f}%"></i></span> '
        f'<span><span class="kg-face">{clock_face(left)}</span> left, no answer is a no</span></div>'
    )


def _buttons(form: PluginForm) -> str:
    choices = form.choices
    shown = []
    for choice in choices:
        act = "deny" if choice == choices[-1] else "allow"
        tone = " kg-primary" if choice == ENABLE else ""
        # Enter in a field sends a form that is nothing but a form; it decides nothing about a plugin's risk.
        enters = " data-enter" if choice == ENABLE and not form.approval_id else ""
        shown.append(
            f'<button type="button" class="kg-btn{tone}" data-act="{act}" data-answer="{choice}"{enters} '
            f'data-id="{escaped(form.ident)}" title="{_MEANINGS[choice]}">{choice}</button>'
        )
    return f'<div class="kg-buttons">{" ".join(shown)}</div><div class="kg-told" role="status"></div>'


def _field(field: FormField, problem: str, ident: str) -> str:
    key = f"kg-{ident}-{field.name}"
    about = [f"{key}-help", *([f"{key}-wrong"] if problem else [])]
    facts = (
        f'class="kg-input" id="{escaped(key)}" data-field="{escaped(field.name)}" '
        f'aria-describedby="{escaped(" ".join(about))}"'
        + (' aria-required="true"' if field.default is None else "")
        + (' aria-invalid="true"' if problem else "")
    )
    wrong = f'<div class="kg-wrong" id="{escaped(key)}-wrong">{escaped(_sentence(problem))}</div>' if problem else ""
    return (
        f'<div class="kg-field"><label for="{escaped(key)}">{escaped(field.name)}</label>'
        f'<div class="kg-help" id="{escaped(key)}-help">{_help(field)}</div>{_input(field, facts)}{wrong}</div>'
    )


def _help(field: FormField) -> str:
    description = one_line(field.description, 500)
    said = [escaped(description if description.endswith((".", "!", "?")) else f"{description}.")]
    if field.type == "array":
        said.append("Several with commas.")
    if bounds := _bounds(field):
        said.append(bounds)
    if field.default is not None and field.type != "boolean":
        default = one_line(field.default, 80)
        said.append(f"Left empty, it is <code>{escaped(default)}</code>." if default else "May be empty.")
    return " ".join(said)


def _bounds(field: FormField) -> str:
    low, high = field.minimum, field.maximum
    if low is not None and high is not None:
        return f"From {low:g} to {high:g}."
    if low is not None:
        return f"At least {low:g}."
    return f"At most {high:g}." if high is not None else ""


def _input(field: FormField, facts: str) -> str:
    value = escaped(field.default or "")
    if field.type == "boolean":
        first = "" if field.default else '<option value="" selected>Choose</option>'
        options = "".join(
            f'<option value="{key}"{" selected" if key == field.default else ""}>{word}</option>'
            for key, word in _YES_NO
        )
        return f"<select {facts}>{first}{options}</select>"
    if field.type == "number":
        # A text field: a number field of a browser hides what it does not understand, and a person's words with it.
        return f'<input type="text" inputmode="decimal" autocomplete="off" value="{value}" {facts}>'
    return f'<input type="text" autocomplete="off" spellcheck="false" value="{value}" {facts}>'


def _sentence(problem: str) -> str:
    return f"{problem[:1].upper()}{problem[1:].rstrip('.')}."
