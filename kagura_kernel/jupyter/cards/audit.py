"""The card of an audit or an enabling: who looks, the report, the question, how it ended. Live and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kagura_kernel.jupyter.cards.audit_form import form_html
from kagura_kernel.jupyter.cards.audit_report import report_html
from kagura_kernel.jupyter.cards.audit_view import STATES, AuditView, Subject
from kagura_kernel.render.escape import escaped, escaped_prose, one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.html import html_of, words_of
from kagura_kernel.render.style import framed
from kagura_kernel.views.body import item_blocks
from kagura_kernel.views.head import figures
from kagura_kernel.views.status import RISK_TONES

LABEL = "Plugin audit"
CONFIGURED = "Configured with"

_PLACES = {"bundled": "comes with Kagura", "user": "one of your own plugins", "project": "lies in this project"}
_ORDER = ("said", "asks", "report", "form", "end")
_SENTENCE = 500


def audit_parts(view: AuditView, *, left: float) -> dict[str, str]:
    """HTML of the parts of a live card that changed since the last time, by key.

    Args:
        view: The audit.
        left: Seconds until no answer to its question is a no.
    """
    dirty = view.take_dirty()
    parts = {"head": _head(view, live=True)} if "head" in dirty else {}
    drawn = _drawn(view, left=left, live=True)
    return parts | {key: drawn[key]() for key in _ORDER if key in dirty}


def audit_html(view: AuditView) -> str:
    """The card as it stays in a notebook."""
    inside = "".join(draw() for draw in _drawn(view, left=0, live=False).values())
    body = f'<div class="kg-body">{inside}</div>' if inside else ""
    return framed(_head(view, live=False) + body, LABEL)


def _drawn(view: AuditView, *, left: float, live: bool) -> Mapping[str, Callable[[], str]]:
    return {
        "said": lambda: _said(view) if live else "",
        "asks": lambda: _asks(view, live=live),
        "report": lambda: report_html(view.audit, view.subject, cached=view.cached) if view.audit else "",
        "form": lambda: form_html(view, left=left, live=live),
        "end": lambda: _end(view),
    }


def _head(view: AuditView, *, live: bool) -> str:
    words, tone = STATES[view.state]
    if view.audit is not None and view.state == "audited":
        tone = RISK_TONES[view.audit.risk]
    # The front end announces the end once; a region that speaks by itself would do so at every figure beside it.
    final = " data-final" if live and view.ended else ""
    stop = ""
    if live and not view.ended:
        stop = (
            '<button type="button" class="kg-btn kg-quiet" data-act="stop"'
            ' title="Call it off; nothing is enabled">Stop</button>'
        )
    about = view.subject
    name = LABEL if about is None else f"{escaped(about.name)} <span class='kg-soft'>{escaped(about.version)}</span>"
    top = (
        f'<div class="kg-top"><strong class="kg-pill kg-{tone}"{final}>{words}</strong> '
        f'<strong class="kg-name">{name}</strong> {words_of((figures(view.run, live=live),))} {stop}</div>'
    )
    return f'<div class="kg-head">{top}{_places(view, about)}</div>'


def _places(view: AuditView, about: Subject | None) -> str:
    parts = []
    if about is not None:
        says = escaped(one_line(about.description, _SENTENCE))
        parts.append(f'<div><b>Says of itself</b> <q class="kg-own">{says}</q></div>')
        signed = f", signed by {escaped(about.signed_by)}, whom you trust" if about.signed_by else ""
        parts.append(f"<div><b>From</b> {_PLACES[about.place]}{signed}</div>")
    started = view.run.started
    if started is not None and view.audit is None:
        who = escaped(started.brain) if started.brain else "none, the static scan alone"
        why = f" — {escaped(one_line(started.brain_reason, _SENTENCE))}" if started.brain_reason else ""
        parts.append(f"<div><b>Auditor</b> {who}{why}</div>")
    return f'<div class="kg-places">{"".join(parts)}</div>' if parts else ""


def _said(view: AuditView) -> str:
    if not view.writes:
        return ""
    if not view.said:
        return '<div class="kg-label">The auditor reads the source.</div>'
    line = f"The auditor writes its report, {counted(len(view.said), 'character')} so far"
    return (
        f'<details class="kg-args" data-keep="said"><summary>{line}</summary><div class="kg-inside">'
        f'<pre class="kg-pre" data-follow tabindex="0">{escaped(view.said)}</pre></div></details>'
    )


def _asks(view: AuditView, *, live: bool) -> str:
    asks = "".join(html_of(item_blocks(ask, view.run, live=live and not view.ended)) for ask in view.questions)
    notes = "".join(f'<div class="kg-note">{escaped_prose(text)}</div>' for text in view.notes)
    return asks + notes


def _end(view: AuditView) -> str:
    if view.enabled:
        told = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(text)}</dd>" for name, text in view.configured.items())
        with_ = f'<div class="kg-part-name">{CONFIGURED}</div><dl class="kg-pairs">{told}</dl>' if told else ""
        return f'{with_}<div class="kg-end kg-good">{escaped_prose(view.enabled)}</div>'
    # Of a person's no it is said already whose it was, and by whom it was stopped the cell's error says.
    if view.error is None or view.state in {"rejected", "stopped"}:
        return ""
    code = f'<span class="kg-code">{escaped(view.error.code)}</span> '
    return f'<div class="kg-end kg-bad">{code}{escaped_prose(view.why)}</div>'
