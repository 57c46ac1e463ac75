"""What a person says to a run: the line in which they write it, and how it stands in the card afterwards."""

from __future__ import annotations

from kagura_kernel.domain.sentences import LONGEST
from kagura_kernel.render import blocks as ui
from kagura_kernel.views.parts import Said
from kagura_kernel.views.run import RunView

ABOUT = "say"
"""How the front end and a card's buttons name the line."""

_VIA = {"cell": "in the cell", "command": "by command", "terminal": "in a terminal", "sidebar": "in the sidebar"}
_WHEN_RECORDED = "said when this was recorded"


def say_blocks(view: RunView, *, live: bool) -> ui.Blocks:
    """The line in the live card of an agent's run that goes on."""
    if not live or view.started is None or view.finished is not None or not view.agent or view.auditing:
        return ()
    field = ui.Entry("Say something to this run", placeholder="Say something to this run", longest=LONGEST)
    send = ui.Button("Send", "say", hint="Its brain hears it at its next turn")
    return (ui.Group((ui.Line((field, send), "buttons"), ui.Told()), "say", data={"block": ABOUT}),)


def said_blocks(said: Said, *, live: bool) -> ui.Blocks:
    """One sentence, and where the brain is not told and the run goes on, what can be done instead."""
    if not live or not said.event.refused:
        return (said_block(said),)
    hint = "Stops the run, and goes on in the same conversation with this as its task"
    instead = ui.Button("Stop and go on with this", "instead", {"answer": said.event.text}, hint=hint)
    return said_block(said), ui.Line((instead,), "buttons")


def said_block(said: Said) -> ui.Line:
    """One sentence, whose it is, and whether the brain has heard it."""
    who, state = _who(said), _state(said)
    words = (ui.quote(said.event.text), ui.soft(f"{who}; {state}"))
    return ui.Line(tuple(words), "note said", plain=f"< {said.event.text}  ({who}; {state})")


def _who(said: Said) -> str:
    if said.event.via == "cassette":
        return _WHEN_RECORDED
    return f"said by {said.event.by}, {_VIA.get(said.event.via, f'over {said.event.via}')}"


def _state(said: Said) -> str:
    if said.event.refused:
        return f"not told: {said.event.refused}"
    if said.heard:
        return "heard"
    return "it ended before it heard this" if said.over else "heard at its next turn"
