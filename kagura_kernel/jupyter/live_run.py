"""How a run is shown while it goes on: in a notebook, in a terminal, or, without a person, once at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kagura_kernel.jupyter.answers import press
from kagura_kernel.jupyter.cards.record import run_bundle
from kagura_kernel.jupyter.change_card import show_changes
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.render.html import html_of
from kagura_kernel.views import card
from kagura_kernel.views.body import end_blocks, item_blocks, item_text
from kagura_kernel.views.head import head_line
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit


WIDGET_SECONDS = 8.0
"""How long a front end may take to show a live card before it is taken for one without widgets."""


class RunDisplay(Protocol):
    """Shows one run. Called in the context of its cell."""

    def refresh(self, view: RunView) -> None:
        """Show what changed since the last time; called ten times a second, also when nothing did."""
        ...

    def finish(self, view: RunView) -> None:
        """Show the end; the last call."""
        ...


class NotebookDisplay:
    """A live card, replaced by its static form; then the changes with their buttons."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        self._cockpit = cockpit
        self._run_id = run_id
        self._slot = Slot()
        self._opened = 0.0
        self._told: set[str] = set()
        self._waiting: list[str] = []

    def refresh(self, view: RunView) -> None:
        """Send the parts that changed."""
        parts = live_parts(view)
        if self._slot.live:
            self._slot.show(parts)
            waiting = [ask.key for ask in view.pending]
            # What a person is asked, and what they say, is in the file at once.
            self._slot.keep(lambda: run_bundle(view), at_once=waiting != self._waiting)
            self._waiting = waiting
            self._tell_in_words(view)
        elif view.started is not None:
            self._slot.open(run_label(view), head_line(view), parts, self._pressed, run_bundle(view))
            self._opened = time.monotonic()

    def finish(self, view: RunView) -> None:
        """Replace the card, and show the change card below it."""
        # Those who listen hear of the end from the live card.
        self._slot.show(live_parts(view))
        self._slot.write(run_bundle(view))
        show_changes(self._cockpit, self._run_id, view.changes, Surface.NOTEBOOK)

    def _tell_in_words(self, view: RunView) -> None:
        """A front end without widgets shows no buttons: say how to answer without them."""
        if self._slot.heard or time.monotonic() - self._opened < WIDGET_SECONDS:
            return
        for ask in view.pending:
            if ask.key not in self._told:
                self._told.add(ask.key)
                ident = ask.request.approval_id
                text = " TEXT (which sends the answer)" if ask.request.subject == "question" else ""
                how = f"No buttons here? In another kernel: %kagura approve {ident}{text}, or %kagura deny {ident}."
                write_once(({"text/plain": f"{item_text(ask)}\n  {how}"}, {}))

    def _pressed(self, content: Mapping[str, Any]) -> None:
        press(self._cockpit, self._run_id, content, self._slot.tell)


class HeadlessDisplay:
    """Nothing until the end; then each slot once."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        self._cockpit = cockpit
        self._run_id = run_id

    def refresh(self, view: RunView) -> None:
        """Nothing: what is written now could not be changed later."""

    def finish(self, view: RunView) -> None:
        """The whole card, then the changes."""
        write_once(run_bundle(view))
        show_changes(self._cockpit, self._run_id, view.changes, Surface.HEADLESS)


_BLOCKS = {
    "head": card.head,
    "kit": card.kit,
    "learned": card.learned,
    "leases": card.leases,
    "many": card.many,
    "net": card.network,
}


def live_parts(view: RunView) -> dict[str, str]:
    """HTML of the parts that changed since the last time, by key."""
    dirty = view.take_dirty()
    parts = {item.key: html_of(item_blocks(item, view, live=True)) for item in view.items if item.key in dirty}
    if "end" in dirty:
        parts["end"] = html_of(end_blocks(view))
    parts |= {key: html_of(section(view, live=True)) for key, section in _BLOCKS.items() if key in dirty}
    return parts


def display_for(surface: Surface, cockpit: Cockpit, run_id: str) -> RunDisplay:
    """The display that fits the place."""
    match surface:
        case Surface.NOTEBOOK:
            return NotebookDisplay(cockpit, run_id)
        case Surface.TERMINAL:
            from kagura_kernel.jupyter.terminal import TerminalDisplay

            return TerminalDisplay(cockpit, run_id)
        case Surface.CONSOLE:
            from kagura_kernel.jupyter.console import ConsoleDisplay, ConsoleLines

            return ConsoleDisplay(cockpit, run_id, ConsoleLines.of_this_cell())
        case Surface.HEADLESS | Surface.INSIDE:
            return HeadlessDisplay(cockpit, run_id)
