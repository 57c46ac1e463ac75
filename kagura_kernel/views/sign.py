"""What a live card says while nothing else on it moves: what is waited for, and since when."""

from __future__ import annotations

from kagura_kernel.render import blocks as ui
from kagura_kernel.render.figures import clock_face
from kagura_kernel.views import parts
from kagura_kernel.views.run import RunView


def sign_blocks(view: RunView, *, live: bool) -> ui.Blocks:
    """`Thinking 0:12`; nothing while a text grows, a call goes on, or a person is asked."""
    if not live or not view.agent or view.started is None or view.finished is not None or _moves(view):
        return ()
    sign, now = view.sign, view.now or view.started.at
    elapsed = max(0.0, (now - (view.quiet_since or view.started.at)).total_seconds())
    clock = ui.Clock(elapsed, "elapsed", clock_face(elapsed))
    if sign is not None and sign.what == "retrying":
        again = f"attempt {sign.attempt:,} of {sign.attempts:,}, next in {sign.seconds:.0f} s"
        line: ui.Words = (ui.soft(f"The model’s service: {sign.text}; {again}"),)
    elif view.box is None:
        line = (ui.soft("Getting the box ready"), clock)
    else:
        line = (ui.soft("Thinking" if sign is not None else "Waiting for the model"), clock)
    told = ui.Fold(line, (ui.Pre(view.thoughts),), "thoughts") if view.thoughts else ui.Line(line)
    return (ui.Group((told,), "kit"),)


def _moves(view: RunView) -> bool:
    last = view.items[-1] if view.items else None
    grows = isinstance(last, parts.Passage) and last.growing
    works = any(call.finished is None for call in view.calls) or view.hands_on
    return grows or works or bool(view.pending)
