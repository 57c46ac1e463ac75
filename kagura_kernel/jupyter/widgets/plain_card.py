"""A live card of ipywidgets alone, for front ends that know those and cannot draw ours.

It shows the same blocks and tells of the same buttons as `LiveCard`. What the page does there, the kernel does here:
clocks go on, a button rests while its answer is not there, and one that has just appeared cannot be pressed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import ipywidgets

from kagura_kernel.jupyter.widgets.controls import GRAVE, Drawing, Scope, Shared, Widget
from kagura_kernel.jupyter.widgets.live_card import ABOVE, BELOW, Pressed
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.html import html_of, style

TICK_SECONDS = 0.5

SETTLE_SECONDS = 0.4
"""How long what decides something rests after the card has moved."""

_GIVE_UP_SECONDS = 10.0


class PlainCard:
    """A card in the front end. Every method may be called from any thread."""

    def __init__(self, parts: Mapping[str, ui.Blocks], ages: Mapping[str, float], pressed: Pressed) -> None:
        self._pressed = pressed
        self._lock = threading.RLock()
        self._parts: dict[str, Drawing] = {}
        self._shared = Shared()
        self._moved_at = 0.0
        self._ticking = False
        self._closed = False
        self._gone_at = time.monotonic()
        self._remark = self._shared.make(ipywidgets.HTML)
        self._body = self._shared.make(ipywidgets.VBox, "body")
        self._style = self._shared.make(ipywidgets.HTML, value=f"<style>{style()}</style>")
        # With a number to begin with, the front end counts on how many places it is shown.
        self.box = self._shared.make(ipywidgets.VBox, "card plain", _view_count=0)
        self._places = 0
        self.heard = False  # Whether a front end has shown it
        self.box.observe(self._seen, "_view_count")
        self.show(parts, ages)

    def show(self, changed: Mapping[str, ui.Blocks], ages: Mapping[str, float] | None = None) -> None:
        """Replace these parts."""
        with self._lock:
            if not changed or self._closed:
                return
            subjects = self._subjects()
            for key, blocks in changed.items():
                if key not in self._parts:
                    self._parts[key] = Drawing(self._clicked, self._shared)
                drawing = self._parts[key]
                drawing.draw(blocks, (ages or {}).get(key, 0.0))
                for scope in drawing.scopes:
                    scope.pressed_at = None
            self._arrange()
            if self._subjects() != subjects:
                self._moved_at = time.monotonic()
            self._look_after()

    def tell(self, text: str, about: str = "") -> None:
        """Say why a button did nothing, beside what it belongs to; it can then be pressed again."""
        with self._lock:
            scopes = [one for one in self._scopes() if one.about == about] if about else []
            said = html_of((ui.Told(text),)) if text else ""
            for scope in scopes or self._scopes():
                scope.pressed_at = None
            for told in [one.told for one in scopes if one.told is not None] or [self._remark]:
                told.value = said
            self._look_after()

    def unseen_for(self) -> float:
        """Seconds since a front end took it from its page, or since it was made; none while one shows it."""
        return 0.0 if self._places else time.monotonic() - self._gone_at

    def close(self) -> None:
        """Take it from the page."""
        with self._lock:
            self._closed = True
            for drawing in self._parts.values():
                drawing.close()
            for one in (self.box, self._body, self._style, self._remark, self._shared):
                one.close()

    def _seen(self, change: Mapping[str, Any]) -> None:
        self.heard, self._places = True, change["new"] or 0
        self._gone_at = time.monotonic()

    def _clicked(self, widget: Widget) -> None:
        with self._lock:
            self.heard = True
            found = [(scope, button) for scope in self._scopes() for one, button in scope.buttons if one is widget]
            # A page that is behind may still offer what rests here.
            if not found or widget.disabled or self._closed:
                return
            scope, button = found[0]
            content = scope.content(button)
            if content is None:
                return
            if button.act != "open":
                scope.pressed_at = time.monotonic()
            if button.act == "say" and scope.entry is not None:
                scope.entry.value = ""
            self._look_after()
        self._pressed(content)

    def _scopes(self) -> list[Scope]:
        return [scope for drawing in self._parts.values() for scope in drawing.scopes]

    def _subjects(self) -> list[str]:
        """What can be decided, in its order: when that changes, what lies around it has moved."""
        return [scope.about for scope in self._scopes() if any(button.act in GRAVE for _, button in scope.buttons)]

    def _arrange(self) -> None:
        boxes = {key: drawing.box for key, drawing in self._parts.items()}
        whole = [*ABOVE, *BELOW, "all"]
        self._body.children = [box for key, box in boxes.items() if key not in whole]
        above = [boxes[key] for key in (*ABOVE, "all") if key in boxes]
        below = [boxes[key] for key in BELOW if key in boxes]
        body = [self._body] if self._body.children else []
        self.box.children = [self._style, self._remark, *above, *body, *below]

    # ---------------------------------------------------------------- time

    def _look_after(self) -> None:
        """Let clocks go on, and buttons rest or not, for as long as there is anything of it to do."""
        if self._advance() and not self._ticking:
            self._ticking = True
            threading.Thread(target=self._tick, name="kagura plain card", daemon=True).start()

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            with self._lock:
                if self._closed or not self._advance():
                    self._ticking = False
                    return

    def _advance(self) -> bool:
        """Bring it to this moment; whether there will be more to do."""
        now = time.monotonic()
        clocks = [clock for drawing in self._parts.values() for clock in drawing.clocks]
        for clock in clocks:
            clock.tick()
        moving = now - self._moved_at < SETTLE_SECONDS
        waiting = False
        for scope in self._scopes():
            rests = scope.pressed_at is not None and now - scope.pressed_at < _GIVE_UP_SECONDS
            waiting |= rests
            for widget, button in scope.buttons:
                widget.disabled = rests or (moving and button.act in GRAVE)
        return bool(clocks) or moving or waiting
