"""What an approval rests on beyond its subject: who asks, a difference, and every argument that it does not show."""

from __future__ import annotations

from kagura_kernel.domain.asked import in_sight, more_arguments
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.cards.bounded import bounded
from kagura_kernel.jupyter.cards.diff import diff_html
from kagura_kernel.jupyter.cards.escape import escaped, reachable
from kagura_kernel.jupyter.cards.view import RunView

_LINES, _CHARACTERS = 2000, 100_000


def details_html(request: ApprovalRequested, view: RunView) -> str:
    """Origin, difference, arguments; each only where there is one."""
    diff = request.arguments.get("diff")
    difference = diff_html(diff) if isinstance(diff, str) and diff else ""
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
