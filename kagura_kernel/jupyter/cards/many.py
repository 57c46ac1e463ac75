"""Several questions at once: one word for all of them, and no accident that says yes to all."""

from __future__ import annotations

from kagura_kernel.jupyter.cards.asked import asked
from kagura_kernel.render.escape import escaped
from kagura_kernel.render.figures import counted
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView


def many_html(view: RunView, *, live: bool) -> str:
    """The line below the questions; empty unless several wait.

    `Allow all` is there only when every one of them is about the network. It unfolds first, which is one click, and
    lists what it would open: the button inside is the second one, and speaks of these questions alone.
    """
    waiting = [ask for ask in view.pending if ask.request.subject != "question"]
    if not live or view.finished is not None or len(waiting) <= 1:
        return ""
    ids = " ".join(ask.request.approval_id for ask in waiting)
    deny = (
        f'<button type="button" class="kg-btn" data-act="deny-all" data-ids="{escaped(ids)}">'
        f"Deny all {len(waiting)}</button>"
    )
    network = len(waiting) == len(view.pending) and all(ask.request.subject == "network" for ask in waiting)
    allow = _allow(waiting, ids) if network else ""
    return (
        f'<div class="kg-many" role="group" aria-label="All {len(waiting)} questions" data-block>'
        f'<strong class="kg-ask-tone">{counted(len(waiting), "question")} wait.</strong> {deny} {allow}'
        '<div class="kg-told" role="status"></div></div>'
    )


def _allow(waiting: list[Ask], ids: str) -> str:
    places = "".join(f"<li><code>{escaped(asked(ask.request).what)}</code></li>" for ask in waiting)
    # Kept open under the very questions: when one more comes, it folds and has to be unfolded again.
    return (
        f'<details class="kg-all" data-keep="all:{escaped(ids)}"><summary>Allow all for this run …</summary>'
        f'<div class="kg-inside"><div>The box could connect to all of these, until the run ends:</div><ul>{places}</ul>'
        f'<button type="button" class="kg-btn kg-primary" data-act="allow-all" data-ids="{escaped(ids)}">'
        f"Yes, allow these {len(waiting)} for this run</button></div></details>"
    )
