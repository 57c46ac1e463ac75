"""Blocks as ipywidgets: what is pressed, typed into or goes on by itself is a widget, and all between them is HTML.

Front ends bring these widgets along, and draw them where they do not draw ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import ipywidgets
import traitlets

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.figures import clock_face
from kagura_kernel.render.html import classes, html_of
from kagura_kernel.render.text import words_in_text

Widget: TypeAlias = Any
"""ipywidgets has no annotations."""

GRAVE = frozenset({"allow", "allow-all", "revoke"})
"""What must not be pressed by a click that was meant for what stood there before."""

_TAKEN = "taken; type again to change it"
_STYLES = {"primary": "primary", "danger": "danger"}


class Shared:
    """Layouts and styles of a card, one for each kind of widget: each of them is a widget too."""

    def __init__(self) -> None:
        self._of: dict[type, dict[str, Widget]] = {}

    def make(self, kind: type, look: str = "", **given: Any) -> Widget:
        """A widget with these classes of the style sheet."""
        shared = self._of.get(kind, {})
        made = kind(**shared, **given, _dom_classes=tuple((classes(look) or "").split()))
        if not shared:
            self._of[kind] = {name: getattr(made, name) for name in ("layout", "style") if made.has_trait(name)}
        return made

    def close(self) -> None:
        """Take them from the page."""
        for one in (one for some in self._of.values() for one in some.values()):
            one.close()


class _Line(ipywidgets.Text):  # type: ignore[misc]  # no annotations
    """Its text leaves the page for the kernel alone; ipywidgets would tell all other pages."""

    value = traitlets.Unicode("").tag(sync=True, echo_update=False)


class _Secret(ipywidgets.Password):  # type: ignore[misc]  # no annotations
    """The same, and the page then forgets it: what a page knows can be saved."""

    value = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.taken = ""
        self.observe(self._take, "value")

    def _take(self, change: Mapping[str, Any]) -> None:
        if change["new"]:
            self.taken = change["new"]
            self.value, self.placeholder = "", _TAKEN


@dataclass
class Scope:
    """A question, a lease or a part of a form: its buttons send along what stands in its fields."""

    about: str  # What it is answered under; empty for a part as a whole
    buttons: list[tuple[Widget, ui.Button]] = field(default_factory=list)
    fields: dict[str, Widget] = field(default_factory=dict)
    entry: Widget | None = None
    budget: Widget | None = None
    told: Widget | None = None
    pressed_at: float | None = None  # While a button was pressed and nothing came of it yet

    def content(self, button: ui.Button) -> dict[str, Any] | None:
        """What this button sends, in the words of a live card; None where its answer was not typed."""
        sent: dict[str, Any] = {"act": button.act, "id": button.data.get("id", ""), "path": button.data.get("path")}
        if ids := button.data.get("ids"):
            sent["ids"] = ids.split(" ")
        if "answer" in button.data:
            sent["answer"] = button.data["answer"]
        elif button.act in ("answer", "say") and self.entry is not None:
            sent["answer"] = self.entry.value
            if not sent["answer"].strip():
                return None
        if self.fields:
            sent["fields"] = {name: typed(one) for name, one in self.fields.items()}
        if button.act == "allow" and self.budget is not None:
            sent["answer"] = " ".join(
                filter(None, [self.budget.value.strip() or "no budget", button.data.get("add", "")])
            )
        return sent


def typed(widget: Widget) -> str:
    """What stands in a field."""
    return widget.taken if isinstance(widget, _Secret) else str(widget.value or "")


@dataclass
class _Ticking:
    """A time that goes on, counted from when its blocks were made."""

    face: Widget
    bar: Widget | None
    seconds: float
    began: float
    elapses: bool
    words: str

    def tick(self) -> None:
        since = time.monotonic() - self.began
        now = int(self.seconds + since) if self.elapses else max(0, math.ceil(self.seconds - since))
        self.face.value = f"{clock_face(now)}{self.words}"
        if self.bar is not None:
            self.bar.value = now


class Drawing:
    """One part of a card as widgets.

    Drawn anew it keeps its controls: a click that is under way still counts, and what was typed stays.
    """

    def __init__(self, clicked: Callable[[Widget], None], shared: Shared) -> None:
        self.box = shared.make(ipywidgets.VBox)
        self.blocks: ui.Blocks | None = None
        self.scopes: list[Scope] = []
        self.clocks: list[_Ticking] = []
        self._clicked = clicked
        self._shared = shared
        self._kept: dict[str, Widget] = {}
        self._before: dict[str, Widget] = {}
        self._made: list[Widget] = []
        self._longest: dict[str, float] = {}
        self._began = 0.0

    def draw(self, blocks: ui.Blocks, age: float) -> None:
        """Show these, which are so many seconds old."""
        self._began = time.monotonic() - age
        if blocks == self.blocks:
            for clock in self.clocks:
                clock.began = self._began
            return
        still = [one for one in self._made if isinstance(one, ipywidgets.HTML)]
        if self.blocks and blocks and not _moves(self.blocks) and not _moves(blocks) and len(still) == 1:
            still[0].value = html_of(blocks)
            self.blocks = blocks
            return
        self.blocks = blocks
        old, self._made, self._before, self._kept = self._made, [], self._kept, {}
        self.scopes, self.clocks = [], []
        self.box.children = self._all(blocks, self._scope(""))
        for one in (*old, *(widget for key, widget in self._before.items() if key not in self._kept)):
            one.close()
        self._before = {}

    def close(self) -> None:
        """Take it from the page."""
        for one in (*self._made, *self._kept.values(), self.box):
            one.close()

    # ---------------------------------------------------------------- blocks

    def _all(self, blocks: Sequence[ui.Block], scope: Scope) -> list[Widget]:
        found: list[Widget] = []
        for moves, some in groupby(blocks, _moves):
            those = tuple(some)
            found += [self._block(one, scope) for one in those] if moves else self._still(those)
        return found

    def _block(self, block: ui.Block, scope: Scope) -> Widget:  # noqa: PLR0911 - one for each kind
        match block:
            case ui.Line():
                return self._row(block.words, scope, block.look, block.tone)
            case ui.Bullets():
                return self._box([self._row(row, scope) for row in block.rows])
            case ui.Group():
                about = [block.data[key] for key in ("approval", "lease", "block") if key in block.data]
                inside = self._scope(about[0]) if about else scope
                return self._box(self._all(block.inside, inside), block.look)
            case ui.Question():
                state = "ask open brief" if block.is_brief else "ask open"
                return self._box(self._all(block.inside, self._scope(block.about)), state)
            case ui.Fold():
                return self._fold(block, scope)
            case ui.Field():
                return self._field(block, scope)
            case ui.Countdown():
                words = f" left, {block.meaning}" if block.meaning else " left"
                bar = self._bar(block.total) if block.meaning else None
                return self._clock(bar, block.left, words)
            case ui.Told():
                scope.told = self._make(ipywidgets.HTML, "told", value=html_of((block,)) if block.words else "")
                return scope.told
            case _:
                raise TypeError(f"Nothing to press in a {type(block).__name__}")

    def _fold(self, fold: ui.Fold, scope: Scope) -> Widget:
        # What stands on its line and goes on is above it.
        above = [self._row(fold.line, scope)] if _moves(fold.line) else []
        line: ui.Words = ("…",) if above else fold.line
        if not _moves(fold.inside):
            return self._box([*above, *self._still((ui.Fold(line, fold.inside, fold.key, fold.look, fold.is_open),))])
        key = f"fold {fold.key}"
        is_new = key not in self._before and key not in self._kept
        opens = self._keep(key, ipywidgets.Accordion)
        opens.children, opens.titles = [self._box(self._all(fold.inside, scope))], [words_in_text(line)]
        if is_new and fold.is_open:
            # Nothing can be chosen before it is there.
            opens.selected_index = 0
        return self._box([*above, opens])

    def _field(self, block: ui.Field, scope: Scope) -> Widget:
        name, key = visible(block.name), f"field {scope.about} {block.name}"
        if block.options:
            options = tuple((visible(word), value) for value, word in block.options)
            values = dict(block.options)
            control = self._keep(key, ipywidgets.Dropdown, options=options, description=name)
            if key not in self._before:
                control.value = block.value if block.value in values else options[0][1]
            elif control.options != options:
                chosen, control.options = control.value, options
                control.value = chosen if chosen in values else options[0][1]
        else:
            kind = _Secret if block.is_secret else _Line
            control = self._keep(key, kind, value=block.value, description=name, continuous_update=False)
        scope.fields[block.name] = control
        wrong = (ui.Line((block.problem,), "wrong"),) if block.problem else ()
        return self._box([control, *self._still((ui.Line(block.about, "help"), *wrong))], "field")

    # ---------------------------------------------------------------- words

    def _row(self, words: ui.Words, scope: Scope, look: str = "", tone: str = "") -> Widget:
        found: list[Widget] = []
        for moves, some in groupby(_flat(words), _moves):
            if moves:
                found += [self._control(one, scope) for one in some]
            else:
                found += self._still((ui.Line(tuple(some), tone=tone),))
        return self._make(ipywidgets.HBox, f"across {look}", children=found)

    def _control(self, one: ui.Inline, scope: Scope) -> Widget:
        match one:
            case ui.Clock(counts="elapsed"):
                return self._clock(None, one.seconds, "", elapses=True)
            case ui.Clock():
                # How long it was at its longest is the whole of it.
                longest = self._longest[scope.about] = max(self._longest.get(scope.about, 0.0), one.seconds)
                return self._clock(self._bar(longest), one.seconds, " left")
            case ui.Entry():
                return self._entry(one, scope)
            case ui.Choice():
                chosen = ui.Button(words_in_text(one.words), "open", {"id": one.about}, "current" * one.is_current)
                return self._button(chosen, scope)
            case ui.Button():
                return self._button(one, scope)
            case _:
                raise TypeError(f"Nothing to press: {one!r}")

    def _button(self, button: ui.Button, scope: Scope) -> Widget:
        given = {"description": visible(button.word), "tooltip": visible(button.hint or button.label)}
        given["button_style"] = next((style for look, style in _STYLES.items() if look in button.look.split()), "")
        key = f"button {scope.about} {button.act} {button.word} {sorted(button.data.items())}"
        widget = self._keep(key, ipywidgets.Button, disabled=button.act in GRAVE, **given)
        # Nothing happens where it is listened to already.
        widget.on_click(self._clicked)
        scope.buttons.append((widget, button))
        return widget

    def _entry(self, entry: ui.Entry, scope: Scope) -> Widget:
        said = "" if entry.placeholder == entry.label else entry.placeholder
        given = {"value": entry.value, "description": entry.label, "placeholder": said, "continuous_update": False}
        widget = self._keep(f"entry {scope.about} {entry.label}", _Line, **given)
        scope.budget, scope.entry = (widget, scope.entry) if entry.is_budget else (scope.budget, widget)
        return widget

    def _clock(self, bar: Widget | None, seconds: float, words: str, *, elapses: bool = False) -> Widget:
        face = self._make(ipywidgets.Label, "soft")
        self.clocks.append(_Ticking(face, bar, seconds, self._began, elapses, words))
        self.clocks[-1].tick()
        return self._make(ipywidgets.HBox, "count", children=[bar, face]) if bar is not None else face

    # ---------------------------------------------------------------- widgets

    def _scope(self, about: str) -> Scope:
        self.scopes.append(Scope(about))
        return self.scopes[-1]

    def _still(self, blocks: Iterable[ui.Block]) -> list[Widget]:
        html = html_of(blocks)
        return [self._make(ipywidgets.HTML, value=html)] if html else []

    def _bar(self, total: float) -> Widget:
        return self._make(ipywidgets.IntProgress, max=max(1, math.ceil(total)))

    def _box(self, children: Sequence[Widget], look: str = "") -> Widget:
        return self._make(ipywidgets.VBox, look, children=list(children))

    def _make(self, kind: type, look: str = "", **given: Any) -> Widget:
        self._made.append(made := self._shared.make(kind, look, **given))
        return made

    def _keep(self, key: str, kind: type, **given: Any) -> Widget:
        """A control that stays the same when its part is drawn anew."""
        found = self._before.get(key) or self._kept.get(key) or self._shared.make(kind, **given)
        self._kept[key] = found
        return found


_CONTROLS = ui.Button | ui.Choice | ui.Entry | ui.Field | ui.Countdown | ui.Told


def _moves(one: ui.Block | ui.Inline | Sequence[Any]) -> bool:
    """Whether there is anything in it that HTML alone would not do."""
    match one:
        case ui.Line(words=inside) | ui.Span(words=inside) | ui.Group(inside=inside) | ui.Bullets(rows=inside):
            return _moves(inside)
        case ui.Question():
            return one.is_open and _moves(one.inside)
        case ui.Fold():
            return _moves(one.line) or _moves(one.inside)
        case ui.Clock():
            return one.ticks
        case tuple() | list():
            return any(map(_moves, one))
        case _:
            return isinstance(one, _CONTROLS)


def _flat(words: ui.Words) -> Iterator[ui.Inline]:
    """Words out of those that hold others, where something in them moves."""
    for one in words:
        if isinstance(one, ui.Span) and not isinstance(one.words, str) and _moves(one):
            yield from _flat(one.words)
        else:
            yield one
