"""How a run is shown while it goes on, and its changes after it: in a notebook, in a terminal, or once at its end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from kagura_kernel.brain.provider import REPLAY
from kagura_kernel.cockpit.change_desk import ChangeDesk
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import ChangeConflict, KaguraError
from kagura_kernel.domain.events import Event
from kagura_kernel.domain.notebook import WriteCells
from kagura_kernel.domain.outcome import RESOLUTIONS, FileChange, by_path
from kagura_kernel.jupyter.slots import Slot, aside, press, write_once
from kagura_kernel.jupyter.surface import Surface, person
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.html import Bundle
from kagura_kernel.views import card
from kagura_kernel.views.body import end_blocks, item_blocks, item_text
from kagura_kernel.views.changes import Beside, changes_blocks, path_of
from kagura_kernel.views.commits import can_settle, commits_blocks
from kagura_kernel.views.head import head_line
from kagura_kernel.views.models import MODEL, model_blocks, picker_blocks
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.previews import is_new_notebook, wanted, wanted_before
from kagura_kernel.views.record import all_text, changes_bundle, run_bundle
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label

FILES = 24
BYTES = 2_000_000
"""Of all previews of one card: images among them end up in the notebook file."""


def _beside(cockpit: Cockpit, run_id: str, changes: Mapping[str, FileChange], was: Beside | None = None) -> Beside:
    """What is known beside these; previews stay as they were."""
    desk = cockpit.changes_desk
    found = was or _previews(desk, changes)
    conflicts = any(change.state == "conflict" for change in changes.values())
    written = any(change.written for change in changes.values())
    sides, stuck = desk.both_sides(run_id) if conflicts else {}, desk.stuck(run_id) if written else {}
    return replace(found, sides=sides, stuck=stuck, branches=cockpit.commits_desk.branches(run_id))


def _previews(desk: ChangeDesk, changes: Mapping[str, FileChange]) -> Beside:
    """The beginnings of these files and of what was there before; what is kept nowhere any more is left out."""
    found: dict[str, bytes] = {}
    before: dict[str, bytes] = {}
    left = BYTES
    for change in changes.values():
        for kept, sha256, size in (
            (found, change.new_sha256, wanted(change)),
            (before, change.old_sha256, wanted_before(change)),
        ):
            if size and sha256 and size <= left and len(kept) < FILES:
                data = desk.new_cells(sha256, size) if is_new_notebook(change) else desk.content(sha256, size)
                if data is not None:
                    kept[change.path] = data
                    left -= len(data)
    return Beside(found, before)


LABEL = "Changes of a run"

# One live card for each run of this process: a command that settles changes settles them there too.
_open: dict[str, ChangeCard] = {}


def show_changes(
    cockpit: Cockpit,
    run_id: str,
    changes: Mapping[str, FileChange],
    surface: Surface,
    write_cells: WriteCells | None = None,
) -> None:
    """Put a run's changes and commits below the cell; with buttons where a person can press them and any are left."""
    beside = _beside(cockpit, run_id, changes)
    if not changes and not beside.branches:
        return
    if surface is Surface.NOTEBOOK and _offers(changes, beside):
        _open[run_id] = ChangeCard(cockpit, run_id, changes, beside, write_cells)
    else:
        write_once(changes_bundle(changes, run_id=run_id, beside=beside))


def _offers(changes: Mapping[str, FileChange], beside: Beside) -> bool:
    """Whether anything can be decided about them, or be taken back."""
    return can_settle(beside.branches) or any(
        (change.written and change.path not in beside.stuck)
        or change.state == "proposed"
        or (change.state == "conflict" and not change.is_cell)
        for change in changes.values()
    )


def refresh_changes(cockpit: Cockpit, run_id: str) -> None:
    """Bring a live card up to date after a command; nothing happens when there is none."""
    card = _open.get(run_id)
    if card is not None:
        card.refresh(by_path(cockpit.changes(run_id)))


ACTS = frozenset({"apply", "discard", "undo"})
"""What buttons of changes do."""

OF_COMMITS = "-commits"
"""What follows one of these where a button is about the commits of a branch."""


def settle(
    cockpit: Cockpit,
    run_id: str,
    act: str,
    paths: list[str] | None,
    write_cells: WriteCells | None,
    which: str = "",
) -> str:
    """Do with changes of a run as a button says; what is to be told beside it, or nothing.

    `which` is what the button of a part or of a way out of a conflict bears beside its path.
    """
    word, _, of = which.partition(":")
    # A number that is cut is that of no part either.
    hunks = (int(word[:9]),) if word.isdecimal() else ()
    conflict = next((one for one in RESOLUTIONS if one == word), None)
    desk = cockpit.changes_desk
    try:
        desk.settle(act, run_id, paths, by=person(), hunks=hunks, conflict=conflict, of=of, write_cells=write_cells)
    except ChangeConflict:
        # The change's own line says so.
        return ""
    except KaguraError as error:
        return error.message
    return ""


def settle_commits(cockpit: Cockpit, run_id: str, act: str, branch: str) -> str:
    """The same with the commits of a branch."""
    try:
        cockpit.commits_desk.settle(act, run_id, [branch], by=person())
    except KaguraError as error:
        return error.message
    return ""


class ChangeCard:
    """A live change card."""

    def __init__(
        self,
        cockpit: Cockpit,
        run_id: str,
        changes: Mapping[str, FileChange],
        beside: Beside,
        write_cells: WriteCells | None = None,
    ) -> None:
        self._cockpit = cockpit
        self._write_cells = write_cells
        self._run_id = run_id
        self._changes = dict(changes)
        self._beside = beside
        self._lock = threading.Lock()
        self._slot = Slot()
        still = self._still()
        self._slot.open(LABEL, all_text(changes, beside.branches), self._parts(), self._pressed, still)

    def refresh(self, changes: Mapping[str, FileChange], told: str = "") -> None:
        """Show these states; from any thread. The card becomes static when nothing can be decided any more."""
        beside = _beside(self._cockpit, self._run_id, changes, self._beside)
        with self._lock:
            self._changes, self._beside = dict(changes), beside
            if _offers(changes, beside):
                self._slot.show(self._parts(told))
                # A file that conflicts offers what was pressed again: its buttons are free now as well.
                self._slot.tell(told)
                self._slot.keep(lambda: self._still(told), at_once=True)
            else:
                _open.pop(self._run_id, None)
                # A page that was loaded since keeps what the live card showed last.
                self._slot.show(self._parts(told))
                self._slot.write(self._still(told))

    def _how(self) -> str:
        how = f"To apply: `%kagura apply {self._run_id}`, in a terminal `kagura-kernel apply {self._run_id}`."
        return how + (" With `--commits` it is the commits." if self._beside.branches else "")

    def _still(self, told: str = "") -> Bundle:
        return changes_bundle(self._changes, told, self._run_id, self._how(), self._beside)

    def _parts(self, told: str = "") -> dict[str, Blocks]:
        commits = commits_blocks(self._beside.branches, live=True)
        beside, how = self._beside, self._how()
        return {"all": changes_blocks(self._changes, live=True, told=told, how=how, beside=beside, commits=commits)}

    def _pressed(self, content: Mapping[str, Any]) -> None:
        word, path, which = str(content.get("act")), content.get("path"), str(content.get("id") or "")
        act = word.removesuffix(OF_COMMITS)
        if act not in ACTS:
            return
        paths = [path_of(path)] if isinstance(path, str) else None
        if act != word:
            aside(lambda: self._show(settle_commits(self._cockpit, self._run_id, act, path_of(which))))
        else:
            aside(lambda: self._show(settle(self._cockpit, self._run_id, act, paths, self._write_cells, which)))

    def _show(self, told: str) -> None:
        """What stands by now, and what is to be said of it."""
        try:
            now = by_path(self._cockpit.changes(self._run_id))
        except KaguraError as error:
            self._slot.tell(told or error.message)
        else:
            self.refresh(now, told)


View_contra = TypeVar("View_contra", contravariant=True)

WIDGET_SECONDS = 8.0
"""How long a front end may take to show a live card before it is taken for one without widgets."""


class Display(Protocol[View_contra]):
    """Shows one run, or one audit. Called in the context of its cell."""

    def refresh(self, view: View_contra) -> None:
        """Show what changed since the last time; called ten times a second, also when nothing did."""
        ...

    def finish(self, view: View_contra) -> None:
        """Show the end; the last call."""
        ...


RunDisplay = Display[RunView]


class NotebookDisplay:
    """A live card, replaced by its static form; then the changes with their buttons."""

    def __init__(self, cockpit: Cockpit, run_id: str, write_cells: WriteCells | None = None) -> None:
        self._cockpit = cockpit
        self._run_id = run_id
        self._write_cells = write_cells
        self._settled: deque[Event] = deque()  # What was decided here about cells; no event of the run says so
        # Whoever clears outputs while it runs is shown what comes after that, as of any other cell.
        self._slot = Slot(stays=True)
        self._opened = 0.0
        self._told: dict[str, Slot] = {}  # Questions that were told in words, each with its place in the output
        self._models: dict[str, str] = {}  # What was offered to choose from: each model with its words
        self._waiting: list[str] = []

    def refresh(self, view: RunView) -> None:
        """Send the parts that changed."""
        while self._settled:
            view.apply(self._settled.popleft())
        parts = live_parts(view)
        if self._slot.live:
            self._slot.show(parts)
            waiting = [ask.key for ask in view.pending]
            # What a person is asked, and what they say, is in the file at once.
            self._slot.keep(lambda: run_bundle(view), at_once=waiting != self._waiting)
            self._waiting = waiting
            self._tell_in_words(view)
            self._tell_answers(view)
        elif view.started is not None:
            if view.agent and not view.auditing and view.started.brain != REPLAY:
                parts[MODEL] = model_blocks(view.started.model or "the brain’s own choice")
            self._slot.open(run_label(view), head_line(view), parts, self._pressed, run_bundle(view), self._run_id)
            self._opened = time.monotonic()

    def finish(self, view: RunView) -> None:
        """Replace the card, and show the change card below it."""
        # Those who listen hear of the end from the live card.
        self._slot.show(live_parts(view))
        self._slot.write(run_bundle(view))
        self._tell_answers(view)
        show_changes(self._cockpit, self._run_id, view.changes, Surface.NOTEBOOK, self._write_cells)

    def _tell_in_words(self, view: RunView) -> None:
        """A front end without widgets shows no buttons: say how to answer without them."""
        if self._slot.heard or time.monotonic() - self._opened < WIDGET_SECONDS:
            return
        for ask in view.pending:
            if ask.key not in self._told:
                self._told[ask.key] = slot = Slot()
                ident = ask.request.approval_id
                text = " TEXT (which sends the answer)" if ask.request.subject == "question" else ""
                how = f"No buttons here? In another kernel: %kagura approve {ident}{text}, or %kagura deny {ident}."
                slot.write(({"text/plain": f"{item_text(ask)}\n  {how}"}, {}))

    def _tell_answers(self, view: RunView) -> None:
        """Put the answer in the place of what told a question in words."""
        for item in view.items:
            if isinstance(item, Ask) and item.decision is not None and (slot := self._told.pop(item.key, None)):
                slot.write(({"text/plain": item_text(item)}, {}))

    def _pressed(self, content: Mapping[str, Any]) -> None:
        act, path = str(content.get("act")), content.get("path")
        if act in {"apply", "discard"}:
            which = str(content.get("id") or "")
            aside(lambda: self._settle(act, path_of(path) if isinstance(path, str) else None, which))
        elif act == "models":
            aside(self._offer_models)
        elif act == "use-model":
            self._use_model(content)
        else:
            press(self._cockpit, self._run_id, content, self._slot.tell)

    def _offer_models(self) -> None:
        """Open the picker; services are asked for their models, which takes a moment."""
        from kagura_kernel.jupyter.models import offered, worded

        try:
            models = offered(self._cockpit)
        except KaguraError as error:
            self._slot.tell(error.message, MODEL)
            return
        self._models = worded(models)
        current = next((one.name for one in models if one.current), "")
        if self._models:
            self._slot.show({MODEL: picker_blocks(tuple(self._models.items()), current)})
        else:
            self._slot.tell("The brain names no models: `%kagura model NAME` takes any.", MODEL)

    def _use_model(self, content: Mapping[str, Any]) -> None:
        fields = content.get("fields")
        name = str(fields.get("Model")) if isinstance(fields, dict) else ""
        if name not in self._models:
            self._slot.tell("Choose one of the list.", MODEL)
            return
        try:
            self._cockpit.use_model(name)
        except KaguraError as error:
            self._slot.tell(error.message, MODEL)
        else:
            self._slot.show({MODEL: model_blocks(f"the next cells here think with {name}")})

    def _settle(self, act: str, path: str | None, which: str) -> None:
        """Decide about cells while the run goes on."""
        changes = by_path(self._cockpit.changes(self._run_id))
        cells = [one.path for one in changes.values() if one.is_cell and one.state in ("proposed", "conflict")]
        below = path if path is not None and path.endswith("/") else None
        paths = [one for one in cells if path in (None, one) or (below is not None and one.startswith(below))]
        self._slot.tell(settle(self._cockpit, self._run_id, act, paths, self._write_cells, which))
        rows = self._cockpit.journal.events(run_id=self._run_id, kinds=("changes.settled",))
        self._settled.extend(row.event for row in rows)


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


def live_parts(view: RunView) -> dict[str, Blocks]:
    """The parts that changed since the last time, by key."""
    dirty = view.take_dirty()
    parts = {item.key: item_blocks(item, view, live=True) for item in view.items if item.key in dirty}
    if "end" in dirty:
        parts["end"] = end_blocks(view)
    sections = {**card.ABOVE, **card.BELOW}
    parts |= {key: section(view, live=True) for key, section in sections.items() if key in dirty}
    return parts


def display_for(surface: Surface, cockpit: Cockpit, run_id: str, write_cells: WriteCells | None) -> RunDisplay:
    """The display that fits the place."""
    match surface:
        case Surface.NOTEBOOK:
            return NotebookDisplay(cockpit, run_id, write_cells)
        case Surface.TERMINAL:
            from kagura_kernel.jupyter.terminal import TerminalDisplay

            return TerminalDisplay(cockpit, run_id)
        case Surface.CONSOLE:
            from kagura_kernel.jupyter.terminal import ConsoleDisplay, ConsoleLines

            return ConsoleDisplay(cockpit, run_id, ConsoleLines.of_this_cell())
        case Surface.HEADLESS | Surface.INSIDE:
            return HeadlessDisplay(cockpit, run_id)
