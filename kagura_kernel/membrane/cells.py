"""Changes of cells on their way into a notebook: into the one on screen by whoever reaches it, else into its file.

A cell is changed only while it says what it said when the change was proposed, or what the same run has made of it.
One that is as it was proposed is left as it is: whoever asks again, since an answer was lost, changes nothing twice. Of
a file everything else stays as it is: outputs, metadata, other cells. Nothing is run.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from kagura_kernel.domain.errors import NotebookUnwritable
from kagura_kernel.domain.notebook import TOP, CellEdit, cell_path, split_cell_path
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import unified_diff
from kagura_kernel.membrane.credentials.secret import HIDDEN
from kagura_kernel.membrane.project import Changed, HostState, ProjectFiles, UnsafePath

GONE = "the cell is not in the notebook any more"
CHANGED = "the cell was changed meanwhile"
NO_PLACE = "the cell above it is not in the notebook any more"

LARGEST = 256 * 2**20

MARKS = ("[REDACTED:", HIDDEN, "characters left out …")
"""What stands where a brain is not shown something: a secret, a credential of the run, or the middle of a long text."""

_FORMAT = 4
_WITH_IDS = 5
"""The version of it from which on cells have ids."""


def notebook_name(notebook: str, project: Path) -> str:
    """What names a notebook among a run's changes: its path below the project, or all of it elsewhere."""
    with contextlib.suppress(ValueError):
        return PurePath(notebook).relative_to(project).as_posix()
    return notebook


def own_notebook(notebook: str, project: Path) -> tuple[str, ...]:
    """Where in the project the notebook lies that a run was asked for in: as it is named, and where links lead."""
    places = (Path(notebook), Path(notebook).resolve()) if notebook else ()
    found = [place.relative_to(project).as_posix() for place in places if project in place.parents]
    return tuple(dict.fromkeys(found))


def has_new_mark(was: str, source: str) -> bool:
    """Whether a source has a mark that would take the place of what only its person has."""
    return any(source.count(mark) > was.count(mark) for mark in MARKS)


def cell_change(notebook: str, edit: CellEdit) -> FileChange:
    """What an edit means, without its difference and before its sources are kept."""
    old, new = _sources(edit)
    is_new, is_gone = edit.action == "insert", edit.action == "delete"
    return FileChange(
        cell_path(notebook, edit.cell),
        "added" if is_new else "deleted" if is_gone else "modified",
        edit.kind,  # type: ignore[arg-type]
        size=len(new),
        old_sha256="" if is_new else sha256(old).hexdigest(),
        new_sha256="" if is_gone else sha256(new).hexdigest(),
        target=edit.above,
    )


async def kept(change: FileChange, edit: CellEdit, blobs: BlobStore) -> FileChange:
    """The change with its difference, once the sources that it names are kept.

    Raises:
        JournalUnwritable: they cannot be.
    """
    old, new = _sources(edit)
    for named, source in ((change.old_sha256, old), (change.new_sha256, new)):
        if named:
            await blobs.keep(source)
    return replace(change, diff=unified_diff(change.path, _lines(old), _lines(new)))


def _sources(edit: CellEdit) -> tuple[bytes, bytes]:
    return "".join(edit.was).encode("utf-8", "replace"), edit.source.encode("utf-8", "replace")


def _lines(source: bytes) -> bytes:
    """A source as lines that end: that a cell's last one does not says nothing."""
    return source + b"\n" if source and not source.endswith(b"\n") else source


def cell_edits(
    changes: Sequence[FileChange],
    blobs: BlobStore,
    applied: Mapping[str, Sequence[str]],
    proposed: Sequence[FileChange],
) -> list[CellEdit]:
    """The changes as a notebook takes them.

    Args:
        changes: Of cells of one notebook.
        blobs: Has their sources.
        applied: Hashes of what this run made of a cell before, by path.
        proposed: All changes of the run: a cell may stand below one that waits.

    Raises:
        NotebookUnwritable: a source is kept no more.
    """
    actions = {"added": "insert", "modified": "edit", "deleted": "delete"}
    below = {change.path: change.target for change in proposed if change.is_cell and change.status == "added"}
    found = []
    for change in changes:
        notebook, cell = split_cell_path(change.path)
        hashes = [*filter(None, (change.old_sha256,)), *applied.get(change.path, ())]
        try:
            was = tuple(_source_of(blobs, one) for one in dict.fromkeys(hashes))
            source = _source_of(blobs, change.new_sha256) if change.new_sha256 else ""
        except FileNotFoundError as error:
            raise NotebookUnwritable(
                notebook, "a proposed source is kept no more, so let the cell run again"
            ) from error
        near = _near(notebook, change.target, below)
        found.append(CellEdit(actions[change.status], cell, change.kind, source, was, change.target, near))  # type: ignore[arg-type]
    return _in_place(found)


def _source_of(blobs: BlobStore, sha256: str) -> str:
    return blobs.get(sha256).decode("utf-8", "replace")


def _near(notebook: str, above: str, below: Mapping[str, str]) -> tuple[str, ...]:
    """What the cell above would stand below itself, and so on up to a cell that nobody proposed."""
    found = [above]
    while (further := below.get(cell_path(notebook, found[-1]), "")) and further not in found:
        found.append(further)
    return tuple(found[1:])


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
        NotebookUnwritable: it cannot be read as a notebook, or not be written; it is as it was.
    """
    state, notebook = read_file(path)
    _name_all(notebook["cells"])
    before = json.dumps(notebook)
    refused = {edit.cell: why for edit in edits if (why := _changed(notebook["cells"], edit))}
    if len(refused) < len(edits) and json.dumps(notebook) != before:
        notebook["nbformat_minor"] = max(_WITH_IDS, notebook["nbformat_minor"])
        # Half a character, which JSON may have, is written as JSON writes it.
        text = (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        try:
            ProjectFiles(path.parent).replace(path.name, text, state.mode, expected=state.sha256)
        except Changed:
            return dict.fromkeys((edit.cell for edit in edits), CHANGED)
        except OSError as error:
            raise NotebookUnwritable(str(path), error.strerror or "it cannot be written") from error
    return refused


def read_file(path: Path) -> tuple[HostState, dict[str, Any]]:
    """What lies there, and the notebook in it.

    Raises:
        NotebookUnwritable: it is none whose cells could be changed.
    """
    try:
        state = ProjectFiles(path.parent).state(path.name, keep=LARGEST)
    except (OSError, UnsafePath) as error:
        raise NotebookUnwritable(str(path), getattr(error, "strerror", "") or "it cannot be read") from error
    if state.kind != "file":
        why = "it is not a file, and links are not followed" if state.kind else "there is no such file"
        raise NotebookUnwritable(str(path), why)
    if state.content is None:
        raise NotebookUnwritable(str(path), f"it is larger than {LARGEST // 2**20} MiB")
    found = notebook_in(state.content)
    if isinstance(found, str):
        raise NotebookUnwritable(str(path), found)
    return state, found


def notebook_in(content: bytes) -> dict[str, Any] | str:
    """The notebook that a file holds, or why it holds none whose cells could be changed."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return "it is no JSON"
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or found.get("nbformat") != _FORMAT or type(found.get("nbformat_minor")) is not int:
        return "it is no notebook of format 4; JupyterLab saves older ones in that"
    odd = next((number for number, cell in enumerate(cells, 1) if not _is_cell(cell)), 0)
    return f"cell {odd} of it is none" if odd else found


def is_made(path: Path, change: FileChange) -> bool:
    """Whether a notebook's file has a cell as it was proposed. Raises as `read_file`."""
    cells = read_file(path)[1]["cells"]
    at = next((at for at, one in enumerate(cells) if one.get("id") == split_cell_path(change.path)[1]), -1)
    if at < 0 or change.status == "deleted":
        return at < 0 and change.status == "deleted"
    is_there = change.target in ("", cells[at - 1].get("id") if at else TOP)
    return is_there and sha256(source_in(cells[at]).encode("utf-8", "replace")).hexdigest() == change.new_sha256


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("id", ""), str):
        return False
    source = cell.get("source")
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


def _name_all(cells: list[dict[str, Any]]) -> None:
    """Give ids to cells that have none: those by which an agent is shown them, as far as they are free."""
    taken = {cell["id"] for cell in cells if cell.get("id")}
    for number, cell in enumerate(cells, 1):
        if not cell.get("id"):
            name = f"cell-{number}"
            cell["id"] = name if name not in taken else f"{name}-{secrets.token_hex(4)}"


def source_in(cell: Mapping[str, Any]) -> str:
    """The source of a cell in a file."""
    return "".join(cell["source"])


def _changed(cells: list[dict[str, Any]], edit: CellEdit) -> str:
    """Make one change that is not made yet; why it cannot be made."""
    at = _place(cells, edit.cell)
    above = next((one for one in (edit.above, *edit.near) if one in ("", TOP) or _place(cells, one) >= 0), None)
    if above is None:
        return NO_PLACE
    if why := _why_not(edit, source_in(cells[at]) if at >= 0 else None):
        return why
    if edit.action == "delete":
        cells[:] = [cell for cell in cells if cell["id"] != edit.cell]
    elif edit.action == "edit" or at < 0:
        cell = cells.pop(at) if at >= 0 else _new_cell(edit)
        cell["source"] = edit.source.splitlines(keepends=True)
        cells.insert(_place(cells, above) + 1 if above else at, cell)
    return ""


def _why_not(edit: CellEdit, now: str | None) -> str:
    """Why a change cannot be made of a cell that says this now, and None where there is none."""
    if now is None:
        return GONE if edit.action == "edit" else ""
    is_done = edit.action != "delete" and now == edit.source
    return "" if is_done or now in edit.was else CHANGED


def _new_cell(edit: CellEdit) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": edit.kind, "id": edit.cell, "metadata": {}}
    return cell | ({"execution_count": None, "outputs": []} if edit.kind == "code" else {})


def _place(cells: Sequence[Mapping[str, Any]], ident: str) -> int:
    """Where a cell stands; -1 for one that is not there, and for the top."""
    return next((at for at, cell in enumerate(cells) if cell["id"] == ident), -1)
