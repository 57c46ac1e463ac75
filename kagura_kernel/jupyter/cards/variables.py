"""Variables that crossed the wall, on a card: one quiet line, and one that is not quiet for each that could not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kagura_kernel.domain.events import VariableCrossed
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped, escaped_prose, one_line
from kagura_kernel.views.run import RunView

_SUMMARY = 80
_WORDS = {"in": "In", "out": "Out"}


def variables_html(view: RunView) -> str:
    """The lines in the head; empty when nothing crossed."""
    parts = [
        f"<b>{word}</b> {', '.join(_one(crossed) for crossed in found)}"
        for direction, word in _WORDS.items()
        if (found := _of(view, direction))
    ]
    quiet = f'<div class="kg-vars">{" ".join(parts)}</div>' if parts else ""
    return quiet + "".join(f'<div class="kg-caution">{_trouble(crossed)}</div>' for crossed in _failed(view))


def variables_text(view: RunView) -> list[str]:
    """The same, a line for each direction and for each that could not cross."""
    lines = [
        f"= {direction}: {', '.join(_plain(crossed) for crossed in found)}"
        for direction in _WORDS
        if (found := _of(view, direction))
    ]
    return lines + [
        f"! {crossed.direction}: {visible(crossed.name)}: {one_line(crossed.error, 300)}" for crossed in _failed(view)
    ]


def variables_record(view: RunView) -> list[dict[str, Any]]:
    """For programs: what crossed, as what, and what could not."""
    return [
        {name: getattr(crossed, name) for name in ("name", "direction", "form", "summary", "error")}
        for crossed in view.variables.values()
    ]


def _of(view: RunView, direction: str) -> Sequence[VariableCrossed]:
    return [one for one in view.variables.values() if one.direction == direction and not one.error]


def _failed(view: RunView) -> Sequence[VariableCrossed]:
    return [one for one in view.variables.values() if one.error]


def _one(crossed: VariableCrossed) -> str:
    about = one_line(crossed.summary, _SUMMARY)
    return f"<code>{escaped(crossed.name)}</code>{f' ({escaped(about)})' if about else ''}"


def _plain(crossed: VariableCrossed) -> str:
    about = one_line(crossed.summary, _SUMMARY)
    return f"{visible(crossed.name)}{f' ({about})' if about else ''}"


def _trouble(crossed: VariableCrossed) -> str:
    way = "into the box" if crossed.direction == "in" else "out of the box"
    return f"<code>{escaped(crossed.name)}</code> did not come {way}: {escaped_prose(one_line(crossed.error, 300))}"
