"""The change card below a run: a diff by file, applied or given up by a click, static once all is decided."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.errors import ChangeConflict, KaguraError
from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.jupyter.answers import aside
from kagura_kernel.jupyter.cards.record import changes_bundle
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import Surface, person
from kagura_kernel.render.html import html_of
from kagura_kernel.views.changes import changes_blocks, changes_text, wanted

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit


FILES = 24
BYTES = 2_000_000
"""Of all previews of one card: images among them end up in the notebook file."""


def previews_of(cockpit: Cockpit, changes: Mapping[str, ChangeRow]) -> dict[str, bytes]:
    """By path, the beginnings of changed files; those that are kept nowhere any more are left out."""
    found: dict[str, bytes] = {}
    left = BYTES
    for change in changes.values():
        size = wanted(change)
        if not size or size > left or not change.new_sha256:
            continue
        data = cockpit.changed_content(change.new_sha256, size)
        if data is None:
            continue
        found[change.path] = data
        left -= size
        if len(found) == FILES:
            break
    return found


LABEL = "Changes of a run"

# One live card for each run of this process: a command that settles changes settles them there too.
_open: dict[str, ChangeCard] = {}


def show_changes(cockpit: Cockpit, run_id: str, changes: Mapping[str, ChangeRow], surface: Surface) -> None:
    """Put a run's changes below the cell; with buttons where a person can press them and something waits."""
    if not changes:
        return
    if surface is Surface.NOTEBOOK and any(change.state == "proposed" for change in changes.values()):
        _open[run_id] = ChangeCard(cockpit, run_id, changes)
    else:
        write_once(changes_bundle(changes, run_id=run_id, previews=previews_of(cockpit, changes)))


def refresh_changes(cockpit: Cockpit, run_id: str) -> None:
    """Bring a live card up to date after a command; nothing happens when there is none."""
    card = _open.get(run_id)
    if card is not None:
        card.refresh(as_rows(cockpit.changes(run_id)))


def as_rows(changes: Iterable[FileChange]) -> dict[str, ChangeRow]:
    """Changes by path, as the cards take them."""
    import dataclasses

    return {change.path: ChangeRow(**dataclasses.asdict(change)) for change in changes}


class ChangeCard:
    """A live change card."""

    def __init__(self, cockpit: Cockpit, run_id: str, changes: Mapping[str, ChangeRow]) -> None:
        self._cockpit = cockpit
        self._run_id = run_id
        self._changes = dict(changes)
        self._previews = previews_of(cockpit, changes)
        self._lock = threading.Lock()
        self._slot = Slot()
        still = changes_bundle(changes, "", run_id, self._previews)
        self._slot.open(LABEL, changes_text(changes), self._parts(), self._pressed, still)

    def refresh(self, changes: Mapping[str, ChangeRow], told: str = "") -> None:
        """Show these states; from any thread. The card becomes static when nothing waits any more."""
        with self._lock:
            self._changes = dict(changes)
            if any(change.state == "proposed" for change in changes.values()):
                self._slot.show(self._parts(told))
                # A file that conflicts offers what was pressed again: its buttons are free now as well.
                self._slot.tell(told)
                self._slot.keep(lambda: changes_bundle(changes, told, self._run_id, self._previews), at_once=True)
            else:
                _open.pop(self._run_id, None)
                # A page that was loaded since keeps what the live card showed last.
                self._slot.show(self._parts(told))
                self._slot.write(changes_bundle(changes, told, self._run_id, self._previews))

    def _parts(self, told: str = "") -> dict[str, str]:
        return {"all": html_of(changes_blocks(self._changes, live=True, told=told, previews=self._previews))}

    def _pressed(self, content: Mapping[str, Any]) -> None:
        act, path = content.get("act"), content.get("path")
        if act not in {"apply", "discard"}:
            return
        paths = [path] if isinstance(path, str) else None
        aside(lambda: self._settle(str(act), paths))

    def _settle(self, act: str, paths: list[str] | None) -> None:
        told = ""
        try:
            if act == "apply":
                self._cockpit.apply_changes(self._run_id, paths, by=person())
            else:
                self._cockpit.discard_changes(self._run_id, paths, by=person())
        except ChangeConflict:
            # The file's own line says so.
            pass
        except KaguraError as error:
            told = error.message
        try:
            now = as_rows(self._cockpit.changes(self._run_id))
        except KaguraError as error:
            self._slot.tell(told or error.message)
        else:
            self.refresh(now, told)
