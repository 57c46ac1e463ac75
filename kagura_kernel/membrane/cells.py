"""Changes of cells on their way into a notebook: into the one on screen by whoever reaches it, else into its file.

A cell is changed only while it says what it said when the change was proposed, or what the same run has made of it.
Of a file everything else stays as it is: outputs, metadata, other cells. Nothing is run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from kagura_kernel.domain.notebook import TOP, CellEdit, split_cell_path
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import Changed, ProjectFiles

GONE = "the cell is not in the notebook any more"
CHANGED = "the cell was changed meanwhile"
NO_PLACE = "the cell above it is not in the notebook any more"
UNREADABLE = "the notebook's file cannot be read as one"

LARGEST = 256 * 2**20

_FORMAT = 4
_WITH_IDS = 5


def notebook_name(notebook: str, project: Path) -> str:
    """What names a notebook among a run's changes: its path below the project, or all of it elsewhere."""
    with contextlib.suppress(ValueError):
        return PurePath(notebook).relative_to(project).as_posix()
    return notebook


def cell_edits(changes: Sequence[FileChange], blobs: BlobStore, applied: Mapping[str, Sequence[str]]) -> list[CellEdit]:
    """The changes as a notebook takes them; `applied` are hashes of what this run made of a cell before, by path.

    Raises:
        FileNotFoundError: a source is kept no more.
    """
    actions = {"added": "insert", "modified": "edit", "deleted": "delete"}
    found = []
    for change in changes:
        hashes = [*filter(None, (change.old_sha256,)), *applied.get(change.path, ())]
        was = tuple(blobs.get(one).decode("utf-8", "replace") for one in dict.fromkeys(hashes))
        source = blobs.get(change.new_sha256).decode("utf-8", "replace") if change.new_sha256 else ""
        _, cell = split_cell_path(change.path)
        found.append(CellEdit(actions[change.status], cell, change.kind, source, was, change.target))  # type: ignore[arg-type]
    return _in_place(found)


def _in_place(edits: Sequence[CellEdit]) -> list[CellEdit]:
    """Each below what it stands below, where that is new too."""
    left, done = list(edits), list[CellEdit]()
    while left:
        waiting = {edit.cell for edit in left}
        ready = [edit for edit in left if edit.above not in waiting or edit.above == edit.cell]
        done += ready or left
        left = [edit for edit in left if edit not in ready] if ready else []
    return done


def write_file(path: Path, edits: Sequence[CellEdit]) -> Mapping[str, str]:
    """Change cells of a notebook's file, all that can be changed at once; the others by id, each with the reason.

    A file that somebody else writes at the same moment stays as they have written it.

    Raises:
        OSError: it cannot be written; it is as it was.
    """
    files = ProjectFiles(path.parent)
    state = files.state(path.name, keep=LARGEST)
    notebook = _notebook(state.content)
    if notebook is None:
        return dict.fromkeys((edit.cell for edit in edits), UNREADABLE)
    refused = {edit.cell: why for edit in edits if (why := _changed(notebook["cells"], edit))}
    if len(refused) < len(edits):
        notebook["nbformat_minor"] = max(_WITH_IDS, int(notebook.get("nbformat_minor", 0)))
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        try:
            files.replace(path.name, text.encode("utf-8", "surrogatepass"), state.mode, expected=state.sha256)
        except Changed:
            return dict.fromkeys((edit.cell for edit in edits), CHANGED)
    return refused


def _notebook(content: bytes | None) -> dict[str, Any] | None:
    """What a file holds, where that is a notebook whose cells have ids; None for everything else."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(content or b"")
        if found["nbformat"] == _FORMAT and all(isinstance(cell, dict) for cell in found["cells"]):
            return found if isinstance(found, dict) else None
    return None


def _changed(cells: list[dict[str, Any]], edit: CellEdit) -> str:
    """Make one change; why it cannot be made."""
    at = next((at for at, cell in enumerate(cells) if cell.get("id") == edit.cell), None)
    if edit.above and edit.above != TOP and not any(cell.get("id") == edit.above for cell in cells):
        return NO_PLACE
    if edit.action == "insert":
        if at is not None:
            return CHANGED
        cell: dict[str, Any] = {"cell_type": edit.kind, "id": edit.cell, "metadata": {}}
        cell |= {"execution_count": None, "outputs": []} if edit.kind == "code" else {}
    else:
        if at is None:
            return GONE
        source = cells[at].get("source", "")
        if ("".join(source) if isinstance(source, list) else source) not in edit.was:
            return CHANGED
        cell = cells[at]
        if edit.action == "delete":
            del cells[at]
            return ""
    cell["source"] = edit.source.splitlines(keepends=True)
    if edit.above:
        if at is not None:
            del cells[at]
        cells.insert(next((at + 1 for at, one in enumerate(cells) if one.get("id") == edit.above), 0), cell)
    return ""
