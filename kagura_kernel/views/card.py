"""A run's card and its sections as blocks, and its text: what notebooks and terminals are drawn from.

A section is a function from the folded run to blocks, and a line of `ABOVE` or `BELOW`: live cards, saved ones and
their text take it from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kagura_kernel.domain.events import NotebookShown
from kagura_kernel.render.blocks import Blocks, Fold, Group, Line, Pre, soft, strong
from kagura_kernel.render.figures import counted
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.approvals import many_block
from kagura_kernel.views.body import end_blocks, item_blocks, item_text
from kagura_kernel.views.changes import changes_blocks
from kagura_kernel.views.head import granted_blocks, head_blocks, images_blocks, sign_blocks
from kagura_kernel.views.kit import kit_blocks, kit_text
from kagura_kernel.views.learned import learned_blocks
from kagura_kernel.views.leases import leases_blocks
from kagura_kernel.views.messages import say_blocks
from kagura_kernel.views.network import network_blocks
from kagura_kernel.views.run import RunView


class Section(Protocol):
    """A part of the card above or below its body."""

    def __call__(self, view: RunView, *, live: bool) -> Blocks:
        """What it shows, on a live card or on one that stays; nothing where it has nothing to say."""
        ...


_SOURCES = {
    "live": "the notebook as it is on screen",
    "file": "the notebook’s file, as it was saved last",
    "kernel": "what this kernel has run",
}
_NOTHING = "nothing of the notebook"


def run_blocks(view: RunView) -> Blocks:
    """A run as it stays in the notebook."""
    above = [block for section in ABOVE.values() for block in section(view, live=False)]
    inside = [block for item in view.items for block in item_blocks(item, view, live=False)]
    body = Group((*inside, *end_blocks(view)), "body")
    below = [block for section in BELOW.values() for block in section(view, live=False)]
    return (*above, *([body] if body.inside else []), *below)


def run_text(view: RunView) -> str:
    """The same in text. Nothing here differs between two runs of the same thing: no ids, times or durations."""
    # What crossed the wall is told at the end.
    sections = [section for key, section in ABOVE.items() if key != "leases"]
    lines = [line for section in sections for line in lines_of(section(view, live=False))]
    for item in view.items:
        text = item_text(item)
        lines.extend(["", *text.split("\n")] if text else [])
    for more in (crossings_text(view), lines_of(end_blocks(view))):
        lines.extend(["", *more] if more else [])
    return _joined(lines)


def crossings_text(view: RunView) -> list[str]:
    """What crossed the wall: connections and leases, a line each."""
    return lines_of([*network_blocks(view.network, steady=True), *leases(view, live=False)])


def given_text(view: RunView) -> list[str]:
    """What it was given, what it had along, and what crossed the wall, as a terminal says it of a run that is over."""
    given = lines_of((*granted_blocks(view, here=False), *images_blocks(view)))
    return [*given, *kit_text(view.kit), *crossings_text(view)]


def notebook(view: RunView, *, live: bool) -> Blocks:  # noqa: ARG001 - a section's shape
    """What its brain was shown of the notebook: `Sees 6 cells, 1 error, 12 names`, which opens to the very text."""
    shown = view.notebook
    if shown is None:
        return ()
    words = _sees(shown)
    plain = f"~ sees {words}"
    more = "`--context none` shows nothing; a cell with the tag `private` is never shown."
    source = () if words == _NOTHING else (soft(f"— {_SOURCES[shown.source]}"),)
    line = (strong("Sees"), words, *source)
    if not shown.text:
        return (Group((Line(line, plain=plain),), "kit", "Notebook"),)
    inside = (Line((soft(more),), plain=""), Pre(shown.text))
    return (Group((Fold(line, inside, "notebook", plain=plain),), "kit", "Notebook"),)


def cells(view: RunView, *, live: bool) -> Blocks:
    """What it would change in the notebook, while it goes on: then the card of its changes has them."""
    found = {path: change for path, change in view.changes.items() if change.is_cell}
    if not live or view.finished is not None or not found:
        return ()
    return (Group(changes_blocks(found, live=True), "changing", "Cells"),)


def kit(view: RunView, *, live: bool) -> Blocks:
    """What its agent brought along."""
    return kit_blocks(view.kit, steady=view.repeatable and not live)


def learned(view: RunView, *, live: bool) -> Blocks:
    """Its plan, and what it was shown of the memory."""
    # What a waiting question is about lies open, also just before it is there: a card that was drawn folded stays so.
    asks = live and (view.learned.asks or any(one.request.subject == "plan" for one in view.pending))
    return learned_blocks(view.learned, steady=view.repeatable and not live, unfolded=asks)


def leases(view: RunView, *, live: bool) -> Blocks:
    """The credentials that it holds, or held."""
    over = view.finished is not None
    return leases_blocks(view.leases, view.now, steady=view.repeatable, is_over=over, live=live)


def many(view: RunView, *, live: bool) -> Blocks:
    """One word for all questions that wait; nothing unless several do.

    All can be allowed at once where every one of them is about the network.
    """
    waiting = [one for one in view.pending if one.request.subject != "question"]
    if not live or view.finished is not None or len(waiting) <= 1:
        return ()
    network_alone = len(waiting) == len(view.pending) and all(one.request.subject == "network" for one in waiting)
    return (many_block(waiting, may_allow=network_alone),)


def network(view: RunView, *, live: bool) -> Blocks:
    """Its foot: what was refused, and what was reached."""
    return network_blocks(view.network, steady=view.repeatable and not live, live=live)


ABOVE: Mapping[str, Section] = {
    "head": head_blocks,
    "notebook": notebook,
    "kit": kit,
    "learned": learned,
    "leases": leases,
    "say": say_blocks,
}
"""The sections above the body, in their order, by the key under which `RunView.take_dirty` says that one changed."""

BELOW: Mapping[str, Section] = {"sign": sign_blocks, "cells": cells, "many": many, "net": network}
"""Likewise, those below it. A section that has nothing to say, or only of a run that goes on, gives no blocks."""


def _joined(lines: list[str]) -> str:
    """Calls that follow each other stand close together; everything else has air."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if not line and kept and kept[-1].startswith("> ") and after.startswith("> "):
            continue
        kept.append(line)
    return "\n".join(kept)


def _sees(shown: NotebookShown) -> str:
    """What it was shown, counted."""
    parts = [
        counted(shown.cells, "cell") if shown.cells else "",
        counted(shown.errors, "error") if shown.errors else "",
        counted(shown.names, "name") if shown.names else "",
        f"{shown.unchanged:,} unchanged" if shown.unchanged else "",
        f"{shown.left_out:,} without room" if shown.left_out else "",
        f"{shown.private:,} private left out" if shown.private else "",
    ]
    return ", ".join(filter(None, parts)) or _NOTHING
