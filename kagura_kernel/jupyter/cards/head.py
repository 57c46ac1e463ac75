"""The head of a run card: state, brain and why, box and why, time, tokens, money."""

from __future__ import annotations

from kagura_kernel.jupyter.cards.granted import granted_html
from kagura_kernel.jupyter.cards.variables import variables_html
from kagura_kernel.render.escape import escaped
from kagura_kernel.render.figures import clock_face, seconds, tokens, whole_cost
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import good, status_of, status_words

_TONES = {
    "starting": "busy",
    "running": "busy",
    "waiting": "ask",
    "stopped": "warn",
    "killed": "warn",
    "denied": "warn",
}


def head_html(view: RunView, *, live: bool) -> str:
    """The head. A live one ticks and has a Stop button while the run goes on."""
    status = status_of(view)
    tone = "good" if good(view) else _TONES.get(status, "bad")
    # The front end announces the end once; a region that speaks by itself would do so at every figure beside it.
    final = " data-final" if live and view.finished is not None else ""
    pill = f'<strong class="kg-pill kg-{tone}"{final}>{escaped(status_words(view))}</strong>'
    stop = ""
    if live and view.finished is None and view.started is not None:
        stop = (
            '<button type="button" class="kg-btn kg-quiet" data-act="stop"'
            ' title="Stop the run and everything it started">Stop</button>'
        )
    name = f'<strong class="kg-name">{_name(view)}</strong>'
    top = f'<div class="kg-top">{pill} {name} {figures_html(view, live=live)} {stop}</div>'
    return f'<div class="kg-head">{top}{_places(view, live=live)}</div>'


def box_notes(view: RunView, *, here: bool) -> list[str]:
    """What is to be known of the box. Elsewhere only what answers the cell's own words: that it has no images."""
    asked_for = view.granted.image if view.granted is not None else ""
    notes = view.box.notes if view.box is not None else ()
    return [note for note in notes if here or (asked_for and asked_for in note)]


def _name(view: RunView) -> str:
    if view.started is None:
        return "Run"
    if not view.agent:
        return "Sandbox"
    if view.auditing and not view.started.brain:
        return "Plugin audit"
    model = (view.finished.model if view.finished else "") or view.started.model
    brain = escaped(view.started.brain)
    return f"{brain} <span class='kg-soft'>{escaped(model)}</span>" if model else brain


def figures_html(view: RunView, *, live: bool) -> str:
    """Tokens, money and time, set so that they do not jump as they grow."""
    shown = []
    used = view.input_tokens + view.output_tokens
    if used:
        detail = f"{view.input_tokens:,} tokens read, {view.output_tokens:,} written"
        shown.append(f'<span title="{detail}">{tokens(used)} tokens</span>')
    if cost := whole_cost(view.usd, view.children, view.children_usd):
        shown.append(f'<span title="Cost in USD">{escaped(cost)}</span>')
    # At the edge: it is there from the beginning, and stays where it is when the others come.
    if live and view.finished is None and view.started is not None and view.now is not None:
        elapsed = max(0.0, (view.now - view.started.at).total_seconds())
        shown.append(f'<span class="kg-tick" data-elapsed="{elapsed:.1f}" title="Elapsed">{clock_face(elapsed)}</span>')
    elif view.finished is not None and not view.repeatable:
        shown.append(f'<span title="Duration">{seconds(view.finished.duration)}</span>')
    return f'<span class="kg-figures">{" ".join(shown)}</span>'


def _places(view: RunView, *, live: bool) -> str:
    """The line below: where the thinking and the doing take place, and why there.

    The saved card of a run that can be repeated leaves the box's reason out: it is this machine's, and the card has to
    come out the same on another one. The reason stands in the output's metadata.
    """
    parts = []
    if view.agent and view.started is not None and view.started.brain_reason:
        parts.append(f"<div><b>Brain</b> {escaped(view.started.brain_reason)}</div>")
    if view.box is not None:
        here = live or not view.repeatable
        image = f" {escaped(view.box.image)}" if view.box.image else ""
        why = view.box.reason.removeprefix(f"{view.box.backend}: ")
        reason = f" — {escaped(why)}" if here and why else ""
        where = f"{escaped(view.box.backend)}{image}, {escaped(view.box.isolation)} isolation"
        parts.append(f"<div><b>Box</b> {where}{reason}</div>")
        parts.extend(f'<div class="kg-caution">{escaped(note)}</div>' for note in box_notes(view, here=here))
    elif view.finished is None and not view.auditing:
        parts.append("<div><b>Box</b> starting …</div>")
    if granted := granted_html(view, live=live):
        parts.append(granted)
    if crossed := variables_html(view):
        parts.append(crossed)
    return f'<div class="kg-places">{"".join(parts)}</div>' if parts else ""
