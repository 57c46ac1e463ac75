"""The widget behind every live card: parts of HTML under keys, and the buttons that were pressed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from comm import get_comm_manager

from kagura_kernel.render.escape import escaped_prose
from kagura_kernel.render.html import style
from kagura_kernel.views import card
from kagura_kernel.views.models import MODEL
from kagura_kernel.views.record import live_model

SCRIPTS = ("redraw.js", "live_card.js")
"""Joined into one, in this order."""

ABOVE = tuple(card.ABOVE)
BELOW = (*card.BELOW, MODEL)
"""Parts that stand above and below a card's body, in their order; all others are in it."""

Pressed = Callable[[Mapping[str, Any]], None]
"""Told of each button: `act`, and where they apply `id`, `ids`, `path`, `answer`. From any thread."""


class LiveCard(anywidget.AnyWidget):
    """A card in the front end.

    Parts are sent when they change, not the whole card. A view that is made anew is given all of them. The first card
    of a run has an id that follows from the run's (`live_model`).
    """

    _esm = "\n".join(
        [
            f"const ABOVE = {json.dumps(ABOVE)}, BELOW = {json.dumps(BELOW)};",
            *(Path(__file__).with_name(name).read_text("utf-8") for name in SCRIPTS),
        ]
    )
    # Its text: of a file anywidget would tell every card of the process when it changes, and so keep them all.
    _css = style()
    label = traitlets.Unicode().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True)

    def __init__(self, label: str, parts: Mapping[str, str], pressed: Pressed, run_id: str = "") -> None:
        ident = live_model(run_id)
        named = {"model_id": ident} if run_id and ident not in get_comm_manager().comms else {}
        super().__init__(label=label, parts=dict(parts), **named)
        self._now = dict(parts)
        self._since = dict.fromkeys(parts, time.monotonic())
        self._pressed = pressed
        self.heard = False  # Whether a front end has answered; one that cannot draw it never does
        self.once_heard: Callable[[], None] = lambda: None  # Called when that is known
        self.hosted = False  # Whether the front end leaves the card as it is when its output is written anew
        self.cleared = False  # Whether nobody shows it any more, since its output was cleared
        self.once_hosted: Callable[[], None] = lambda: None  # Called when that is known
        self._seen = time.monotonic()
        self.on_msg(self._hear)

    def show(self, changed: Mapping[str, str]) -> None:
        """Replace these parts."""
        if changed:
            self._now |= changed
            self._since |= dict.fromkeys(changed, time.monotonic())
            self.send({"kind": "parts", "parts": dict(changed)})

    def tell(self, text: str, about: str = "") -> None:
        """Say why a button did nothing, beside the approval or lease it belongs to; it can then be pressed again."""
        self.send({"kind": "told", "id": about, "html": escaped_prose(text)})

    def ask_whether_seen(self) -> None:
        """Have every front end that shows the card say so."""
        self.send({"kind": "seen?"})

    @property
    def ages(self) -> dict[str, float]:
        """Seconds since each part was last replaced."""
        now = time.monotonic()
        return {key: round(now - since, 2) for key, since in self._since.items()}

    def unseen_for(self) -> float:
        """Seconds since a front end last said anything of the card, or since it was made."""
        return time.monotonic() - self._seen

    def close(self) -> None:
        """Take it from the page, with all that belongs to it."""
        layout = self.layout
        super().close()
        layout.close()

    def _hear(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict):
            return
        self._seen = time.monotonic()
        if not self.heard:
            self.heard = True
            self.once_heard()
        match content.get("act"):
            case "seen":
                self.cleared = False
            case "cleared":
                self.cleared = True
                # Where another page shows it still, that one says so.
                self.ask_whether_seen()
            case "hosted":
                self.hosted = True
                self.once_hosted()
            case "sync":
                # A view that is made late must not take the clocks of its parts for fresh ones.
                self.send({"kind": "parts", "parts": dict(self._now), "ages": self.ages})
            case _:
                # The front end waits for a sign that somebody is there, whatever comes of the button.
                self.send({"kind": "heard"})
                self._pressed(content)
