"""An approval on a card: while it waits with its buttons, afterwards with its answer."""

from __future__ import annotations

from datetime import timedelta

from kagura_kernel.domain.asked import Block, in_sight, more_arguments, plainly
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.cards.ask_buttons import NEVER, buttons_html, chooses
from kagura_kernel.jupyter.cards.asked import asked
from kagura_kernel.render.blocks import Diff
from kagura_kernel.render.bounded import bounded
from kagura_kernel.render.escape import escaped, reachable
from kagura_kernel.render.figures import clock_face
from kagura_kernel.render.html import html_of
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView

_LINES, _CHARACTERS = 2000, 100_000


def details_html(request: ApprovalRequested, view: RunView) -> str:
    """Origin, difference, arguments; each only where there is one."""
    diff = request.arguments.get("diff")
    difference = html_of([Diff(diff)]) if isinstance(diff, str) and diff else ""
    return f"{difference}{_arguments(request)}{_origin(request, view)}"


def _arguments(request: ApprovalRequested) -> str:
    # Those that are the question stand in it.
    given = {} if in_sight(request.subject) else more_arguments(request.subject, request.arguments)
    if not given:
        return ""
    blocks = "".join(f'<div class="kg-label">{escaped(name)}</div>{_block(text)}' for name, text in given.items())
    return (
        f'<details class="kg-args" data-keep="{escaped("args:" + request.approval_id)}">'
        '<summary><span class="kg-soft">Arguments in full</span></summary>'
        f'<div class="kg-inside">{blocks}</div></details>'
    )


def _block(text: str) -> str:
    shown = bounded(text, lines=_LINES, characters=_CHARACTERS).whole()
    return f'<pre class="kg-pre kg-full"{reachable(text)}>{escaped(shown)}</pre>'


def _origin(request: ApprovalRequested, view: RunView) -> str:
    if request.lineage:
        line = " → ".join(request.lineage)
        return f'<div class="kg-origin">Asked for by a part that was handed on: <code>{escaped(line)}</code>.</div>'
    call = next((call for call in view.calls if call.asked.call_id == request.call_id), None)
    # A question is the agent's own, and says so.
    if call is None or request.subject == "question":
        return ""
    return f'<div class="kg-origin">Asked for by a call of <code>{escaped(call.asked.tool)}</code>.</div>'


_KINDS = {
    "launch": ("Launch", "The run would start with all of this, which is more than an ordinary run has"),
    "host_command": ("Host command", "It would run on this computer with your rights, outside the box"),
    "network": ("Network", "It would let programs in the box connect there"),
    "credential": (
        "Credential",
        "It would let the run hold this credential; a fresh one is made as long as the budget lasts",
    ),
    "plugin": ("Plugin", "It would let this plugin be used"),
    "tool": ("Tool", "It would call this tool with exactly these arguments"),
    "write": ("Write", "It would change files of the project"),
    "plan": ("Plan", "The run would begin, and stop before it costs more than its budget"),
    "trust": ("Trust", "You would not be asked about this any more, until something of it fails"),
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
    title = asked(request).title
    open_now = ask.decision is None and view.finished is None and live
    about = plainly(request.title) if asked(request).target else title
    name = f'aria-label="{escaped(label)}: {escaped(about)}"'
    # The host stands large below its title, and again in what it would mean: that is often enough.
    top = _top(label, title)
    if request.subject == "network" and ask.decision is not None:
        return f'<blockquote class="kg-ask kg-closed kg-brief" role="group" {name}>{_line(ask)}</blockquote>'
    if not open_now:
        inside = f"{top}{_detail(request, live=False)}{_reason(request)}{details_html(request, view)}{_answer(ask)}"
        return f'<blockquote class="kg-ask kg-closed" role="group" {name}>{inside}</blockquote>'
    if ask.brief:
        tone = " kg-brief"
        inside = f"{_line(ask)}{_countdown(ask, view)}{buttons_html(request, brief=True)}"
    else:
        tone = ""
        inside = (
            f"{top}{_detail(request)}{_reason(request)}{details_html(request, view)}"
            f"{_meaning(meaning, request)}"
            f"{_countdown(ask, view)}{buttons_html(request)}"
        )
    # The first stop of the keyboard is the question itself, never one of its buttons.
    return (
        f'<blockquote class="kg-ask kg-open{tone}" role="group" tabindex="0" {name} data-block '
        f'data-approval="{escaped(request.approval_id)}">{inside}</blockquote>'
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
    if chooses(ask.request) and decision.answer in ask.request.options:
        never = decision.answer == NEVER
        word += " for the rest of this session" if never else f" for {decision.answer}"
    return f"{word} by {decision.by}{_VIA.get(decision.via, '')}"


def _top(label: str, title: str) -> str:
    return (
        f'<div class="kg-ask-top"><span class="kg-kind">{escaped(label)}</span> '
        f'<strong class="kg-ask-title">{escaped(title)}</strong></div>'
    )


def _line(ask: Ask) -> str:
    """A network question on one line, with its answer once there is one."""
    answer = _answer(ask) if ask.decision is not None else ""
    label = f'<span class="kg-kind">{_KINDS["network"][0]}</span> ' if answer else ""
    return (
        f'<div class="kg-ask-top">{label}<code class="kg-where">{escaped(asked(ask.request).what)}</code> '
        f"{answer}</div>"
    )


def _meaning(meaning: str, request: ApprovalRequested) -> str:
    # Whoever composed the question has said it better.
    means = "" if asked(request).means else f"{escaped(meaning)}{_where(request)}."
    return f'<div class="kg-soft">{means}</div>' if means else ""


def _detail(request: ApprovalRequested, *, live: bool = True) -> str:
    parts = asked(request)
    if parts.target:
        means = f"<div>{escaped(parts.means)}</div>" if parts.means else ""
        return f'<div class="kg-target"><code>{escaped(parts.target)}</code></div>{means}'
    return "".join(block_html(block, live=live) for block in parts.blocks)


def block_html(block: Block, *, live: bool) -> str:
    """A text that is decided about, with its size; a live card is told by `data-end` when it was read to its end."""
    label = f'<div class="kg-label">{escaped(block.label)}</div>' if block.label else ""
    size = f'<div class="kg-soft kg-size">{block.size}</div>' if block.size else ""
    end = "<i data-end></i>" if live else ""
    return f'{label}<pre class="kg-pre kg-full"{reachable(block.text)}>{escaped(block.text)}{end}</pre>{size}'


def reason_words(request: ApprovalRequested) -> tuple[str, str]:
    """Whose words the reason is in, and the reason; both empty when there is none to show.

    For hosts and for a toolset's calls they are ours. Whose words the others are in is not known to a card; they are
    quoted.
    """
    reason = request.reason.strip()
    match request.subject:
        case "question":
            return "", ""
        case "network" | "tool":
            return "", request.reason
        case "launch" | "credential" | "plan" | "trust":
            return ("The reason given:", request.reason) if reason else ("", "")
        case _:
            return ("The agent’s own words:", request.reason) if reason else ("", NO_REASON)


def _reason(request: ApprovalRequested) -> str:
    whose, reason = reason_words(request)
    if whose:
        return f'<div class="kg-says"><span class="kg-soft">{whose}</span> <q>{escaped(reason)}</q></div>'
    return f'<div class="kg-says kg-soft">{escaped(reason)}</div>' if reason else ""


def _where(request: ApprovalRequested) -> str:
    place = asked(request).place
    return f", in <code>{escaped(place)}</code>" if place else ""


def _countdown(ask: Ask, view: RunView) -> str:
    request = ask.request
    now = view.now or request.at
    left = max(0.0, (request.at + timedelta(seconds=request.deadline) - now).total_seconds())
    share = 100 * left / request.deadline if request.deadline else 0
    count = f'<div class="kg-count" data-left="{left:.1f}" data-total="{request.deadline:.1f}">'
    if ask.brief:
        return f'{count}<span><span class="kg-face">{clock_face(left)}</span> left</span></div>'
    return (
        f'{count}<span class="kg-bar"><i style="width:{share:.0f}%"></i></span> '
        f'<span><span class="kg-face">{clock_face(left)}</span> left, no answer is a denial</span></div>'
    )


def _answer(ask: Ask) -> str:
    tone = _VERDICTS.get(ask.decision.verdict, ("bad", ""))[0] if ask.decision else "warn"
    said = ""
    chosen = chooses(ask.request) and ask.decision is not None and ask.decision.answer in ask.request.options
    if ask.decision is not None and ask.decision.answer and ask.decision.via != "policy" and not chosen:
        said = f" <q>{escaped(ask.decision.answer)}</q>"
    return f'<div class="kg-verdict kg-{tone}">{escaped(verdict_words(ask))}{said}</div>'
