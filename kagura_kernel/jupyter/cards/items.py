"""The body of a run card, part by part: passages, tool calls, notes, output, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kagura_kernel.jupyter.cards.results import shown_html
from kagura_kernel.render.bounded import Bounded, bounded
from kagura_kernel.render.escape import escaped, escaped_output, escaped_prose, one_line, reachable
from kagura_kernel.render.figures import seconds
from kagura_kernel.render.html import html_of
from kagura_kernel.render.markdown import markdown_html
from kagura_kernel.views import card
from kagura_kernel.views.endings import resume_blocks, told_block
from kagura_kernel.views.failures import OUT_OF_MEMORY, end_code, end_words, failure_word, was_killed
from kagura_kernel.views.parts import Ask, Call, Item, Note, Passage, Printout, Result, Withheld
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import good

_GROWING = 24_000

# The argument that says most about a call, by preference.
_TELLING = ("command", "code", "path", "file_path", "pattern", "question", "url", "name")


def item_html(item: Item, view: RunView, *, live: bool) -> str:  # noqa: PLR0911 - one for each kind of part
    """One part of the body."""
    match item:
        case Passage():
            growing = " kg-growing" if item.growing else ""
            return f'<div class="kg-prose{growing}">{markdown_html(_latest(item))}</div>'
        case Call():
            return call_html(item, view)
        case Ask():
            return html_of(card.ask(item, view, live=live))
        case Note():
            return f'<div class="kg-note{" kg-grave" if item.grave else ""}">{escaped_prose(item.text)}</div>'
        case Printout():
            return _output(item.text, item.spill, following=view.finished is None)
        case Result() | Withheld():
            return shown_html(item)
        case _:
            return html_of([told_block(item, steady=view.repeatable and not live)])


def _latest(passage: Passage) -> str:
    """What is shown of a passage: all of it, or while it grows very long its latest part, which is drawn often."""
    if not passage.growing or len(passage.text) <= _GROWING:
        return passage.text
    end = passage.text[-_GROWING // 2 :]
    return f"… what came before is shown when it is whole …\n\n{end[end.find(chr(10)) + 1 :]}"


def call_html(call: Call, view: RunView) -> str:
    """A tool call, folded: its line always, its arguments and output on demand. A question has its own card.

    What left the box stands open: a person who allowed it sees what came of it.
    """
    asked, finished = call.asked, call.finished
    if _is_question(call, view):
        return ""
    line = (
        f'<span class="kg-tool">{escaped(asked.tool)}</span> '
        f'<code class="kg-arg">{escaped(one_line(telling_argument(asked.arguments), 200))}</code> '
        f'<span class="kg-chips">{_chips(call, view)}</span>'
    )
    text = finished.text if finished is not None else call.printed
    output = _output(text, finished.spill if finished else None, following=finished is None)
    why = f'<div class="kg-label">{escaped(OUT_OF_MEMORY)}</div>' if finished and was_killed(finished.exit_code) else ""
    body = f'<div class="kg-inside">{_arguments(asked.arguments)}{output}{why}</div>'
    shown = " open" if finished is not None and finished.route == "host" else ""
    return f'<details class="kg-call" data-keep="{escaped(call.key)}"{shown}><summary>{line}</summary>{body}</details>'


def end_html(view: RunView) -> str:
    """Why a run did not end well, and how to go on with it; empty when it did."""
    finished = view.finished
    if finished is None or good(view):
        return ""
    why, how = end_words(view), html_of(resume_blocks(view))
    if not (why or how):
        return ""
    named = end_code(view)
    code = f'<span class="kg-code">{escaped(named)}</span> ' if named else ""
    tone = "warn" if finished.status in {"stopped", "killed", "denied"} else "bad"
    return f'<div class="kg-end kg-{tone}">{code}{escaped_prose(why)}{how}</div>'


def telling_argument(arguments: Mapping[str, Any]) -> str:
    """What a call is about, from its arguments."""
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return json.dumps(dict(arguments), ensure_ascii=False, default=str) if arguments else ""


def _is_question(call: Call, view: RunView) -> bool:
    """Whether the call did nothing but ask the person, which the question's own card shows."""
    asks = (item.request for item in view.items if isinstance(item, Ask))
    return any(ask.call_id == call.asked.call_id and ask.subject == "question" for ask in asks)


def _chips(call: Call, view: RunView) -> str:
    finished = call.finished
    if finished is None:
        word, tone = _meanwhile(call, view)
        return f'<span class="kg-chip kg-{tone}">{word}</span>'
    shown = []
    if finished.route:
        kind = "kg-host" if finished.route == "host" else ""
        shown.append(f'<span class="kg-chip {kind}">{escaped(finished.route)}</span>')
    if finished.exit_code is not None:
        tone = "good" if finished.exit_code == 0 else "bad"
        shown.append(f'<span class="kg-chip kg-{tone}">exit {finished.exit_code}</span>')
    elif word := failure_word(call):
        shown.append(f'<span class="kg-chip kg-bad">{word}</span>')
    if not view.repeatable:
        shown.append(f'<span class="kg-took">{seconds(finished.duration)}</span>')
    return " ".join(shown)


def _meanwhile(call: Call, view: RunView) -> tuple[str, str]:
    """What a call without an answer is doing."""
    if view.finished is not None:
        return "unfinished", "warn"
    asks = any(ask.request.call_id == call.asked.call_id for ask in view.pending)
    return ("waiting for you", "warn") if asks else ("running", "busy")


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Every argument in full."""
    shown = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        inside = _parts(bounded(text, lines=200), None, escaped)
        shown.append(f'<div class="kg-label">{escaped(name)}</div><pre class="kg-pre"{reachable(text)}>{inside}</pre>')
    return "".join(shown)


def _output(text: str, spill: str | None, *, following: bool) -> str:
    if not text:
        return '<div class="kg-label kg-soft">no output yet</div>' if following else ""
    if following:
        tail = "\n".join(text.rstrip("\n").split("\n")[-60:])
        return f'<pre class="kg-pre kg-out" data-follow tabindex="0">{escaped_output(tail)}</pre>'
    return f'<pre class="kg-pre kg-out"{reachable(text)}>{_parts(bounded(text), spill, escaped_output)}</pre>'


def _parts(part: Bounded, where: str | None, escape: Callable[[str], str]) -> str:
    """Beginning, remark and end, for a `pre`."""
    remark = part.remark(where)
    middle = f'<span class="kg-more">{escaped(remark)}</span>' if remark else ""
    return "\n".join(piece for piece in (escape(part.head), middle, escape(part.tail)) if piece)
