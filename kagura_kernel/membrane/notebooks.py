"""A notebook that a run has changed as a file, told as changes of its cells.

Of the notebook that the run was asked for in nothing else leaves the box: its outputs say what the person's kernel has
done. It is saved while the run goes on, so that what the run did to it is what differs from the notebook as it was when
the run began. Every other notebook is compared with what the project has; once changes of it were told, with what it
held then and what of them is in the project by now, so that these can be taken back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.notebook import TOP, CellEdit, SourceCell, edits_between, is_cell_id
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.cells import cell_change, has_new_mark, kept, notebook_in, source_in
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.project import ProjectFiles, UnsafePath

LARGEST = 32 * 2**20
MOST_CELLS = 500
"""Changes of cells beyond which a notebook is told as a file."""

LEFT_OUT = "what it changed beside sources of cells, such as outputs, was left out"
"""The note of cells whose notebook was changed in other ways too."""

MARKED = "its source has a mark in the place of a secret, or of what the agent was not shown"

_OF_OWN = "of the notebook that it was asked for in a run changes sources of cells alone"


class Outline(NamedTuple):
    """A notebook as far as changes of it can be told by cells."""

    cells: tuple[SourceCell, ...]
    rest: Mapping[str, str]  # A hash of what else each cell holds, by its id, and of the notebook's own metadata by ``


def outline(content: bytes | None) -> Outline | str:
    """What a notebook's file holds, or why changes of it cannot be told by cells; None is too large a file."""
    if content is None or len(content) > LARGEST:
        return f"it is larger than {LARGEST // 2**20} MiB"
    found = notebook_in(content)
    if isinstance(found, str):
        return found
    ids = [cell.get("id", "") for cell in found["cells"]]
    if len(set(ids)) < len(ids) or not all(map(is_cell_id, ids)):
        return "its cells have no ids of their own"
    cells = [SourceCell(cell["id"], str(cell.get("cell_type")), source_in(cell)) for cell in found["cells"]]
    if not {cell.kind for cell in cells} <= {"code", "markdown", "raw"}:
        return "it has cells of an unknown kind"
    rest = {cell["id"]: _hash(cell, "id", "cell_type", "source") for cell in found["cells"]}
    return Outline(tuple(cells), {**rest, "": _hash(found, "cells", "nbformat", "nbformat_minor")})


def _hash(holder: Mapping[str, Any], *without: str) -> str:
    """Of what it holds beside these; empty where that is nothing."""
    rest = {name: value for name, value in holder.items() if name not in without and value not in (None, [], {})}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest() if rest else ""


def changed_cells(before: Outline, after: Outline) -> list[CellEdit] | str:
    """What makes one notebook of the other, by ids of cells, or why that cannot be told."""
    old = {cell.id: cell for cell in before.cells}
    if any(cell.kind != old.get(cell.id, cell).kind for cell in after.cells):
        return "a cell of it has become one of another kind"
    now = [cell.id for cell in after.cells if cell.id in old]
    then = [ident for ident in old if ident in set(now)]
    blocks = SequenceMatcher(None, then, now, autojunk=False).get_matching_blocks()
    stay = {ident for block in blocks for ident in now[block.b : block.b + block.size]}
    edits = edits_between(old, after.cells, set(now) - stay)
    return edits if len(edits) <= MOST_CELLS else f"more than {MOST_CELLS} cells of it are others"


@dataclass(eq=False, repr=False)
class ToldNotebooks:
    """What the runs in one box know of notebooks, by path; handed on from one to the next."""

    # What each held before anything of it was changed, or why that cannot be told
    before: dict[str, Outline | str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # The hash of each when changes of it were first told
    # What was proposed for its cells: sources by their ids, None for one that was to go
    cells: dict[str, dict[str, set[str | None]]] = field(default_factory=dict)
    places: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # Below which cells each was to stand

    def note(self, path: str, now: Outline, file: str, edits: Sequence[CellEdit]) -> None:
        """These are proposed now, of what the project has."""
        self.before.setdefault(path, now)
        self.files.setdefault(path, file)
        cells, places = self.cells.setdefault(path, {}), self.places.setdefault(path, {})
        for edit in edits:
            cells.setdefault(edit.cell, set()).add(None if edit.action == "delete" else edit.source)
            places.setdefault(edit.cell, set()).add(edit.above)

    def base(self, path: str, now: Outline, after: Outline) -> Outline | str:
        """What the box's cells are compared with: what it held before, with what is in the project of these changes."""
        before, proposed = self.before.get(path, now), self.cells.get(path)
        if isinstance(before, str) or not proposed:
            return before
        old, there = {cell.id for cell in before.cells}, {cell.id: cell for cell in now.cells}
        cells = list[SourceCell]()
        for cell in before.cells:
            found = there.get(cell.id)
            is_ours = (None if found is None else found.source) in proposed.get(cell.id, ())
            cells += [cell] if not is_ours else [found] if found is not None else []
        # A new one stands where the box has it; of one that it has no more the place says nothing.
        order = [cell.id for cell in after.cells]
        fresh = [cell for cell in now.cells if cell.id not in old and cell.source in proposed.get(cell.id, ())]
        for cell in sorted(fresh, key=lambda one: order.index(one.id) if one.id in order else -1):
            above = order[order.index(cell.id) - 1] if cell.id in order[1:] else ""
            _put(cells, cell, above)
        # One that stands where it was to stand came there with a person's word.
        here, places = {cell.id: cell for cell in cells}, self.places[path]
        for stands_below, ident in pairwise((TOP, *(cell.id for cell in now.cells))):
            if ident in here and stands_below in (TOP, *here) and stands_below in places.get(ident, ()):
                cells.remove(here[ident])
                _put(cells, here[ident], stands_below)
        return Outline(tuple(cells), before.rest)


def _put(cells: list[SourceCell], cell: SourceCell, above: str) -> None:
    """Below the one with that id; where there is none, at the top."""
    cells.insert(next((at + 1 for at, one in enumerate(cells) if one.id == above), 0), cell)


@dataclass(eq=False, repr=False)
class NotebookChanges:
    """Tells one run's changes of notebooks; may be asked again as the run goes on."""

    project: ProjectFiles  # The project on the host
    blobs: BlobStore  # Has the new contents
    own: tuple[str, ...] = ()  # Paths of the notebook that the run was asked for in
    scrubber: Scrubber | None = None  # Knows the secrets that no difference may show

    def __post_init__(self) -> None:
        self.record = ToldNotebooks(dict.fromkeys(self.own, "it could not be read when the run began"))
        self._known: dict[tuple[str, str, str], list[FileChange]] = {}

    def begin(self) -> None:
        """Note what the run's own notebook holds before a box shows it; blocks."""
        for path in self.own:
            if (content := self._content(path)[1]) is not None:
                self.record.before[path] = outline(content)

    def go_on(self, record: ToldNotebooks) -> None:
        """Go on from what runs before in the same box know."""
        record.before = {**self.record.before, **record.before}
        self.record = record

    def hashes(self) -> dict[str, str]:
        """What the project has now of notebooks of which changes were told, by path; blocks."""
        return {path: self._content(path)[0] for path in self.record.cells}

    async def told(self, change: FileChange) -> list[FileChange]:
        """A change as those of cells; as it is where it is none of a notebook, or not one that can be told so.

        Raises:
            JournalUnwritable: sources of cells cannot be kept.
        """
        is_own = change.path in self.own
        is_known = is_own or change.path in self.record.cells
        if change.state == "protected" or not (is_known or _is_of_notebook(change)):
            return [change]
        key = (change.path, change.old_sha256, change.new_sha256)
        if key not in self._known:
            self._known[key] = await self._told(change, is_own=is_own)
        return self._known[key]

    async def _told(self, change: FileChange, *, is_own: bool) -> list[FileChange]:
        found = await asyncio.to_thread(self._compared, change)
        if isinstance(found, str):
            if is_own:
                return [replace(change, state="protected", reason=f"{_OF_OWN}, and {found}")]
            change = replace(change, reason=f"told as a file and not by its cells: {found}")
            # It may have been changed by more than by what was proposed of its cells.
            is_as_it_was = self.record.files.get(change.path, change.old_sha256) == change.old_sha256
            return [change if is_as_it_was else replace(change, state="conflict", base_sha256="?")]
        edits, others = found
        if not edits and not is_own and change.path in self.record.cells:
            return []
        if not edits:
            if is_own:
                return [replace(change, state="protected", reason=_OF_OWN)] if others else []
            return [change]
        return [await self._change(change.path, edit, LEFT_OUT if others else "") for edit in edits]

    async def _change(self, notebook: str, edit: CellEdit, note: str) -> FileChange:
        change = await kept(cell_change(notebook, edit), edit, self.blobs)
        if has_new_mark("".join(edit.was), edit.source):
            return replace(change, state="protected", reason=MARKED)
        return replace(change, reason=note)

    def _compared(self, change: FileChange) -> tuple[list[CellEdit], bool] | str:
        """How its cells were changed, and whether anything else was; why that cannot be told."""
        if change.status != "modified" or change.kind != "file":
            return "it is no file of the project any more" if change.status != "added" else "it was not there before"
        found, content = self._content(change.path)
        if found != change.old_sha256:
            return "the project's file has changed just now"
        if self.scrubber is not None and content and self.scrubber.holds(content):
            return "the project's file holds a leased credential"
        now, after = outline(content), outline(self.blobs.head(change.new_sha256, LARGEST + 1))
        before: Outline | str = ""
        if isinstance(now, Outline) and isinstance(after, Outline):
            before = self.record.base(change.path, now, after)
        if isinstance(now, str) or isinstance(after, str) or isinstance(before, str):
            return next(one for one in (after, now, before) if isinstance(one, str))
        edits = changed_cells(before, after)
        if isinstance(edits, str):
            return edits
        there = {cell.id: cell.source for cell in now.cells}
        others = any(rest != before.rest.get(ident, "") for ident, rest in after.rest.items())
        if edits := [edit for edit in edits if not _is_made(edit, there)]:
            self.record.note(change.path, now, found, edits)
        return edits, others

    def _content(self, path: str) -> tuple[str, bytes | None]:
        """The hash of what the project has there, and the bytes of a file that is not too large."""
        try:
            state = self.project.state(path, keep=LARGEST)
        except (OSError, UnsafePath):
            return "?", None
        return state.sha256, state.content if state.kind == "file" else None


def _is_of_notebook(change: FileChange) -> bool:
    is_changed = change.kind == "file" and change.status == "modified" and change.state == "proposed"
    return is_changed and change.path.endswith(".ipynb")


def _is_made(edit: CellEdit, there: Mapping[str, str]) -> bool:
    """Whether the project's notebook, which may have been saved meanwhile, says so already."""
    if edit.action == "delete":
        return edit.cell not in there
    return there.get(edit.cell) == edit.source and (edit.action == "insert" or not edit.above)
