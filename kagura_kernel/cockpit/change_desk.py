"""What became of a run's changes, and a person's decision about them; works after the run, in any process.

Of a file that both have changed it is told what each side did, and whether both fit into one text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import (
    CannotUndo,
    ChangeConflict,
    MergeOverlaps,
    NotThisTime,
    RedactionUnavailable,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.events import BoxStarted, ChangesCollected, ChangesSettled, RunStarted
from kagura_kernel.domain.notebook import CellEdit, WriteCells, cell_path, split_cell_path
from kagura_kernel.domain.outcome import BothSides, FileChange, Hunks, Resolution, Written, by_path, seal_of
from kagura_kernel.journal.change_states import changes_of, start_and_changes
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.redaction.redactor import redactor_in
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.cells import cell_edits, notebook_in, read_file, source_in, write_file
from kagura_kernel.membrane.change_apply import OLD_HOLDS_LEASED, apply_changes, in_order_back, put_back, stuck
from kagura_kernel.membrane.changes import MAX_DIFF_INPUT, is_text, unified_diff
from kagura_kernel.membrane.merge import can_merge, hunks_between, merged, with_hunks
from kagura_kernel.membrane.names import is_below
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath
from kagura_kernel.runs.git_places import GitPlaces

MOST_SIDES = 24
"""Conflicts of one run of which both sides are shown."""

_NOTHING = "-"


def without_secrets(text: str) -> str:
    """What redaction leaves of a text. Raises `RedactionUnavailable`."""
    return redactor_in(data_home(os.environ)).redact(text).text


def state_now(project: ProjectFiles, path: str) -> HostState:
    """What the project has at a path, and its content where that is short.

    Raises:
        NotThisTime: something stands there that is no file, or cannot be reached.
    """
    try:
        now = project.state(path, keep=MAX_DIFF_INPUT)
    except (OSError, UnsafePath) as error:
        raise NotThisTime(f"{path} cannot be reached in the project any more. Discard the change.") from error
    if now.kind == "other":
        raise NotThisTime(f"{path} is no file in the project any more. Discard the change.")
    return now


def seen_of(now: HostState) -> str:
    """What stands for this state in a button."""
    return now.sha256[:12] or _NOTHING


def texts_of(change: FileChange, now: HostState, blobs: BlobStore) -> tuple[bytes, bytes, bytes]:
    """What the run began with, what the project has, and what the run made.

    Raises:
        NotThisTime: one of them is no text of a file, too long, not known or not kept; the message says which.
    """
    base, mine, theirs = _contents(change, now, blobs)
    if change.status == "deleted" or not now.kind:
        raise NotThisTime(f"{change.path} cannot be merged: it is deleted on one side. Take one side.")
    if base is None:
        raise NotThisTime(f"{change.path} cannot be merged: what the run began with is not known. Take one side.")
    return base, mine, theirs


def sides_of(change: FileChange, project: ProjectFiles, blobs: BlobStore) -> BothSides:
    """A conflict as it is shown; nothing of it is stored."""
    try:
        now = state_now(project, change.path)
    except NotThisTime as error:
        return BothSides(why=error.message)
    try:
        return _shown(change, now, blobs)
    except (NotThisTime, RedactionUnavailable) as error:
        return BothSides(seen=seen_of(now), why=error.message)


def _shown(change: FileChange, now: HostState, blobs: BlobStore) -> BothSides:
    if change.diff == OLD_HOLDS_LEASED:
        raise NotThisTime("The project’s own file held a leased credential.")
    base, mine, theirs = _contents(change, now, blobs)
    yours = without_secrets(unified_diff(change.path, base, mine)) if base is not None else ""
    other = without_secrets(unified_diff(change.path, mine if base is None else base, theirs))
    both = BothSides(yours, other, seen=seen_of(now))
    if base is None:
        return replace(both, why="What the run began with is not known.")
    if now.kind and change.status != "deleted" and can_merge():
        with suppress(NotThisTime):
            both = replace(both, can_merge=True, overlaps=merged(base, mine, theirs)[1])
    return both


def _contents(change: FileChange, now: HostState, blobs: BlobStore) -> tuple[bytes | None, bytes, bytes]:
    try:
        theirs = blobs.head(change.new_sha256, MAX_DIFF_INPUT + 1) if change.new_sha256 else b""
        mine = now.content if now.kind else b""
    except OSError as error:
        raise NotThisTime(f"What the run made of {change.path} is kept no more. Run the cell again.") from error
    is_plain = change.kind == "file" and now.kind != "link" and mine is not None and len(theirs) <= MAX_DIFF_INPUT
    if mine is None or not is_plain or not is_text(mine) or not is_text(theirs):
        raise NotThisTime(f"{change.path} is no text on both sides, or too long to be compared. Take one side.")
    return _base(change, blobs), mine, theirs


def _base(change: FileChange, blobs: BlobStore) -> bytes | None:
    wanted = change.base_sha256 or change.old_sha256
    try:
        base = b"" if not wanted else blobs.get(wanted)
    except OSError:
        return None
    return base if is_text(base) and len(base) <= MAX_DIFF_INPUT else None


MOST_CELLS = 60
"""Cells of a new notebook that are shown."""


class ChangeDesk:
    """Applies and discards what runs proposed, and takes back what was applied."""

    def __init__(self, journal: Journal, blobs: BlobStore, clock: Clock) -> None:
        self._journal = journal
        self._blobs = blobs
        self._clock = clock

    def changes(self, run_id: str) -> list[FileChange]:
        """A run's changes with their states, in the order of `in_order`.

        Raises:
            RunUnknown: there is no such run.
        """
        return changes_of(self._journal, run_id)

    def content(self, sha256: str, limit: int) -> bytes | None:
        """At most so many bytes of the beginning of a changed file's new content; None when it is kept no more."""
        try:
            return self._blobs.head(sha256, limit)
        except OSError:
            return None

    def new_cells(self, sha256: str, limit: int) -> bytes | None:
        """The first cells of a new notebook, as JSON and without secrets.

        None where it is none, is longer than `limit`, or is kept no more, and where secrets cannot be looked for.
        """
        found = notebook_in(self.content(sha256, limit) or b"")
        if isinstance(found, str):
            return None
        cells = [
            {
                "kind": str(cell.get("cell_type")),
                "id": cell.get("id", ""),
                "source": source_in(cell).encode("utf-8", "replace").decode("utf-8"),
                "outputs": bool(cell.get("outputs")),
            }
            for cell in found["cells"][:MOST_CELLS]
        ]
        try:
            shown = [cell | {"source": without_secrets(cell["source"])} for cell in cells]
        except RedactionUnavailable:
            return None
        return json.dumps({"cells": shown, "count": len(found["cells"])}).encode()

    def settle(
        self,
        act: str,
        run_id: str,
        paths: Sequence[str] | None,
        *,
        by: str,
        hunks: Sequence[int] = (),
        conflict: Resolution | None = None,
        of: str = "",
        write_cells: WriteCells | None = None,
    ) -> ChangesSettled:
        """Do what a person asked for: `apply`, `discard` or `undo`.

        With `hunks` it is only these parts of one file, and with `conflict` one file that is in conflict. `of` stands
        for what the person has looked at.

        Raises:
            UsageError: a part is named, or a way out of a conflict, and not one file.
            KaguraError: as of what is asked for.
        """
        if (hunks or conflict) and len(paths or ()) != 1:
            raise UsageError("That is for one file: name it too, as in `apply last a.py --hunk 2`.")
        if hunks and conflict:
            raise UsageError("A file in conflict is decided as a whole: leave `--hunk` or `--conflict` out.")
        if conflict:
            return self.resolve(run_id, (paths or [""])[0], conflict, by=by, seen=of)
        if hunks:
            work = self.apply_hunks if act == "apply" else self.discard_hunks
            return work(run_id, (paths or [""])[0], tuple(dict.fromkeys(hunks)), by=by, of=of)
        if act == "apply":
            return self.apply(run_id, paths, by=by, of=of, write_cells=write_cells)
        return (self.undo if act == "undo" else self.discard)(run_id, paths, by=by)

    def apply(
        self,
        run_id: str,
        paths: Sequence[str] | None = None,
        *,
        by: str,
        of: str = "",
        write_cells: WriteCells | None = None,
    ) -> ChangesSettled:
        """Bring changes into the project: all that are proposed, or those at `paths`.

        `of` is the seal of what was proposed when they were looked at.

        Cells go into the notebook that `write_cells` reaches, else into its file. Each part is recorded as soon as it
        is done, so that an error in between loses nothing.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: the run changed no such file.
            ChangeConflict: nothing could be applied; the project changed meanwhile.
            NotThisTime: git runs what is left of it by now, or what waits is something else by now, or not here.
            NotebookUnwritable: a notebook cannot be changed; no file was by then.
            WorkspaceUnreadable: the project cannot be written.
        """
        started, changes = start_and_changes(self._journal, run_id)
        wanted = _pick(changes, paths)
        if of not in ("", seal_of(wanted)):
            raise NotThisTime("What waits is not what was shown any more. Look at it as it is now.")
        project = ProjectFiles(Path(started.project))
        files = [change for change in wanted if not change.is_cell]
        files = [self._as_it_stands(project, change) for change in _free(started, files, among=wanted)]
        self._see_contents(files)
        parts: list[ChangesSettled] = []
        in_files: dict[str, list[CellEdit]] = {}
        for name, edits in self._edits(run_id, [one for one in wanted if one.is_cell], changes).items():
            place = Path(started.project, name)
            refused = write_cells(str(place), edits) if write_cells is not None else None
            if refused is None:
                read_file(place)
                in_files[name] = edits
            else:
                parts.append(self._cells_settled(started, name, edits, refused, by))
        if files or not wanted:
            done = apply_changes(project, self._blobs, files, protected=started.protected)
            parts.append(
                self._record(started, applied=done.applied, conflicts=done.conflicts, written=done.written, by=by)
            )
            if done.error is not None:
                raise done.error
        for name, edits in in_files.items():
            refused = write_file(Path(started.project, name), edits)
            parts.append(self._cells_settled(started, name, edits, refused, by))
        applied = tuple(path for part in parts for path in part.applied)
        conflicts = tuple(path for part in parts for path in part.conflicts)
        if conflicts and not applied:
            raise ChangeConflict(conflicts)
        return parts[-1].model_copy(update={"applied": applied, "conflicts": conflicts})

    def _edits(
        self, run_id: str, cells: Sequence[FileChange], changes: Sequence[FileChange]
    ) -> dict[str, list[CellEdit]]:
        """What is to be changed in each notebook."""
        notebooks: dict[str, list[FileChange]] = {}
        for change in cells:
            notebooks.setdefault(split_cell_path(change.path)[0], []).append(change)
        applied = _applied_before(self._journal, run_id) if cells else {}
        is_below = any(change.status == "added" for change in cells)
        proposed = _with_those_before(self._journal, run_id, changes) if is_below else changes
        return {name: cell_edits(found, self._blobs, applied, proposed) for name, found in notebooks.items()}

    def _cells_settled(
        self, started: RunStarted, name: str, edits: Sequence[CellEdit], refused: Mapping[str, str], by: str
    ) -> ChangesSettled:
        applied = tuple(cell_path(name, edit.cell) for edit in edits if edit.cell not in refused)
        conflicts = tuple(cell_path(name, edit.cell) for edit in edits if edit.cell in refused)
        return self._record(started, applied=applied, conflicts=conflicts, by=by)

    def discard(self, run_id: str, paths: Sequence[str] | None = None, *, by: str) -> ChangesSettled:
        """Give changes up: all that are proposed, or those at `paths`.

        One in conflict is given up by its path alone; where others are, it is told of among `conflicts`.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: the run changed no such file.
            ChangeConflict: nothing is left but what conflicts with the project.
        """
        started, changes = start_and_changes(self._journal, run_id)
        given_up = tuple(change.path for change in _pick(changes, paths))
        left = () if paths else tuple(path for path, change in by_path(changes).items() if change.state == "conflict")
        return self._record(started, discarded=given_up, conflicts=left, by=by)

    def apply_hunks(self, run_id: str, path: str, numbers: Sequence[int], *, by: str, of: str = "") -> ChangesSettled:
        """Bring parts of one file's difference into the project; the rest of it goes on waiting.

        `of` is the beginning of the hash of what was proposed when the parts were looked at.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: the run changed no such file, or no such part of it waits.
            NotThisTime: the file is decided as a whole.
            ChangeConflict: it changed in the project meanwhile.
            WorkspaceUnreadable: the project cannot be written.
        """
        started, change = self._in_hunks(run_id, path, numbers, of)
        if not set(change.open_hunks) - set(numbers):
            return self.apply(run_id, [path], by=by)
        project = ProjectFiles(Path(started.project))
        old, new = self._sides(project, change)
        before, after = (with_hunks(old, new, {*change.applied_hunks, *more}) for more in ((), numbers))
        mode = project.state(path).mode
        part = replace(
            change, old_sha256=self._blobs.hold(before), new_sha256=self._blobs.hold(after), mode=mode, diff=""
        )
        done = apply_changes(project, self._blobs, _free(started, [part]), protected=started.protected)
        if done.error is not None:
            raise done.error
        if done.conflicts:
            self._record(started, conflicts=done.conflicts, by=by)
            raise ChangeConflict(done.conflicts)
        written = Written(path, part.old_sha256, part.new_sha256, "file", mode, hunks=tuple(numbers), was=change.state)
        return self._record(started, written=(written,), by=by)

    def discard_hunks(self, run_id: str, path: str, numbers: Sequence[int], *, by: str, of: str = "") -> ChangesSettled:
        """Give parts of one file's difference up; arguments and errors are as for `apply_hunks`."""
        started, change = self._in_hunks(run_id, path, numbers, of)
        self._sides(ProjectFiles(Path(started.project)), change)
        return self._record(started, discarded_hunks=(Hunks(path, tuple(numbers)),), by=by)

    def _in_hunks(self, run_id: str, path: str, numbers: Sequence[int], of: str) -> tuple[RunStarted, FileChange]:
        started, changes = start_and_changes(self._journal, run_id)
        (change,) = _pick(changes, [path.rstrip("/")])
        if not change.hunks or change.state == "conflict":
            raise NotThisTime(
                f"{path} is decided as a whole: it is in conflict, or its difference has one part, or is not shown to "
                "its end."
            )
        if not change.new_sha256.startswith(of):
            raise NotThisTime(f"{path} was changed further by the run. Look at the difference as it is now.")
        for number in numbers:
            if number not in change.open_hunks:
                raise UnknownName("open hunk", str(number), tuple(map(str, change.open_hunks)))
        return started, change

    def _see_contents(self, files: Sequence[FileChange]) -> None:
        """Raises `NotThisTime` where a new content lies in another data directory than this one."""
        gone = [
            one.path for one in files if one.new_sha256 and one.kind == "file" and not self._blobs.has(one.new_sha256)
        ]
        if gone:
            raise NotThisTime(
                f"What the run made of {', '.join(gone)} is not here, so nothing was applied: it waits in the folder "
                "`blobs` of the data directory that the run had. Apply it there, bring that folder here, or run the "
                "task again; `discard RUN` gives it up, and `apply RUN PATH` brings in what else waits."
            )

    def _as_it_stands(self, project: ProjectFiles, change: FileChange) -> FileChange:
        """The change as it is left when parts of it are decided."""
        if not (change.applied_hunks or change.discarded_hunks):
            return change
        old, new = self._sides(project, change)
        before = with_hunks(old, new, change.applied_hunks)
        after = with_hunks(old, new, {*change.applied_hunks, *change.open_hunks})
        return replace(change, old_sha256=self._blobs.hold(before), new_sha256=self._blobs.hold(after), size=len(after))

    def _sides(self, project: ProjectFiles, change: FileChange) -> tuple[bytes, bytes]:
        """What the parts of a change are between.

        Raises:
            NotThisTime: they are kept no more, or are not what the difference shows.
        """
        with suppress(OSError, UnsafePath):
            now = project.state(change.path, keep=MAX_DIFF_INPUT)
            if now.sha256 == change.old_sha256 and now.kind == "file" and now.content is not None:
                self._blobs.hold(now.content)
            old, new = self._blobs.get(change.old_sha256), self._blobs.get(change.new_sha256)
            if is_text(old) and is_text(new) and len(hunks_between(old, new)) == len(change.hunks):
                return old, new
        raise NotThisTime(f"Parts of {change.path} cannot be told apart any more. Apply or discard it as a whole.")

    def resolve(self, run_id: str, path: str, how: Resolution, *, by: str, seen: str = "") -> ChangesSettled:
        """Bring a file that is in conflict into the project, by itself or with what the project has there.

        `seen` stands for what the project had when a person looked at both sides.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: the run changed no such file.
            NotThisTime: it is in no conflict, was saved since it was looked at, is not here, or cannot be merged.
            MergeOverlaps: both sides changed the same lines, and no markers were asked for.
            ChangeConflict: it changed just now, or is never written.
            WorkspaceUnreadable: the project cannot be written.
        """
        started, changes = start_and_changes(self._journal, run_id)
        (change,) = _pick(changes, [path.rstrip("/")])
        if change.state != "conflict" or change.is_cell:
            raise NotThisTime(f"{path} is no file in conflict.")
        project = ProjectFiles(Path(started.project))
        change = self._as_it_stands(project, change)
        now = state_now(project, path)
        if seen not in ("", seen_of(now)):
            raise NotThisTime(f"{path} was saved since both sides were shown. Look at them again: `changes RUN`.")
        part = replace(change, old_sha256=now.sha256, state="proposed")
        self._see_contents([part])
        if how != "theirs":
            content, overlaps = merged(*texts_of(change, now, self._blobs))
            if overlaps and how == "merge":
                raise MergeOverlaps(path)
            part = replace(part, status="modified", new_sha256=self._blobs.hold(content), size=len(content))
        done = apply_changes(project, self._blobs, _free(started, [part]), protected=started.protected)
        if done.error is not None:
            raise done.error
        if done.conflicts:
            raise ChangeConflict(done.conflicts)
        written = tuple(replace(one, was="conflict") for one in done.written)
        return self._record(started, applied=done.applied, written=written, by=by)

    def both_sides(self, run_id: str) -> dict[str, BothSides]:
        """The files in conflict by path, without secrets, and only some of very many. Raises `RunUnknown`."""
        started, changes = start_and_changes(self._journal, run_id)
        project = ProjectFiles(Path(started.project))
        waiting = [one for one in changes if one.state == "conflict" and not one.is_cell][:MOST_SIDES]
        found = {}
        for one in waiting:
            with suppress(NotThisTime):
                found[one.path] = sides_of(self._as_it_stands(project, one), project, self._blobs)
        return found

    def undo(self, run_id: str, paths: Sequence[str] | None, *, by: str) -> ChangesSettled:
        """Bring back what the project had before files were applied: all that can be taken back, or those at `paths`.

        Each is then what it was before, and can be applied again. Of a file that was applied in parts, the last part
        is taken back.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: no such file of the run was applied.
            NotThisTime: nothing of it is in the project.
            CannotUndo: a file has changed since, or what it was is kept no more. Nothing was written.
            WorkspaceUnreadable: the project cannot be written.
        """
        started, changes = start_and_changes(self._journal, run_id)
        wanted = _pick_applied(changes, paths)
        project = ProjectFiles(Path(started.project))
        for path, why in self._stuck(started, wanted).items():
            raise CannotUndo(path, why)
        undone: list[str] = []
        try:
            for one in in_order_back(wanted):
                put_back(project, self._blobs, one, protected=started.protected)
                undone.append(one.path)
        finally:
            settled = self._record(started, undone=tuple(undone), by=by) if undone else None
        if settled is None:
            raise NotThisTime("Nothing that could be taken back is in the project.")
        return settled

    def stuck(self, run_id: str) -> dict[str, str]:
        """Of what was applied what cannot be taken back any more: by path the reason. Raises `RunUnknown`."""
        started, changes = start_and_changes(self._journal, run_id)
        return self._stuck(started, [change.written[-1] for change in changes if change.written])

    def _stuck(self, started: RunStarted, writes: Sequence[Written]) -> dict[str, str]:
        return stuck(ProjectFiles(Path(started.project)), self._blobs, writes, protected=started.protected)

    def _record(
        self,
        started: RunStarted,
        *,
        by: str,
        applied: tuple[str, ...] = (),
        discarded: tuple[str, ...] = (),
        conflicts: tuple[str, ...] = (),
        undone: tuple[str, ...] = (),
        written: tuple[Written, ...] = (),
        discarded_hunks: tuple[Hunks, ...] = (),
    ) -> ChangesSettled:
        event = ChangesSettled(
            run_id=started.run_id,
            session_id=started.session_id,
            at=self._clock.now(),
            applied=applied,
            discarded=discarded,
            conflicts=conflicts,
            undone=undone,
            written=written,
            discarded_hunks=discarded_hunks,
            by=by,
        )
        self._journal.append(event)
        return event


def _applied_before(journal: Journal, run_id: str) -> dict[str, list[str]]:
    """Hashes of what a run has made of cells that were applied, by path: what it goes on from."""
    proposed: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for row in journal.events(run_id=run_id, kinds=("changes.collected", "changes.settled")):
        if isinstance(row.event, ChangesCollected):
            proposed |= {change.path: change.new_sha256 for change in row.event.changes if change.is_cell}
        elif isinstance(row.event, ChangesSettled):
            for path in row.event.applied:
                if proposed.get(path):
                    found.setdefault(path, []).append(proposed[path])
    return found


def _with_those_before(journal: Journal, run_id: str, changes: Sequence[FileChange]) -> list[FileChange]:
    """A run's changes, and before them those of the runs that have worked in its box."""
    found = list(changes)
    while run_id:
        rows = journal.events(run_id=run_id, kinds=("box.started",))
        run_id = next((row.event.goes_on for row in rows if isinstance(row.event, BoxStarted)), "")
        if run_id:
            found[:0] = changes_of(journal, run_id)
    return found


def _free(
    started: RunStarted, files: Sequence[FileChange], *, among: Sequence[FileChange] = ()
) -> Sequence[FileChange]:
    """Those files that git neither reads nor runs, whose settings may have changed since the run began.

    Raises:
        NotThisTime: there are none, nor anything else in `among`.
    """
    held = GitPlaces(Path(started.project), os.environ).held if files else ()
    free = [one for one in files if not any(is_below(one.path, root) for root in held)]
    if files and not free and len(among) <= len(files):
        raise NotThisTime(
            f"{files[0].path} was not applied: git runs it, or reads its settings from it, since this run began. Set "
            "that back (`git config --list --show-origin` has it), or copy the file yourself."
        )
    return free


def _pick(changes: Sequence[FileChange], paths: Sequence[str] | None) -> list[FileChange]:
    open_ones = by_path(change for change in changes if change.state in ("proposed", "conflict"))
    if paths is None:
        proposed = [change for change in open_ones.values() if change.state == "proposed"]
        if open_ones and not proposed:
            # What to do with a conflict is said of each by its path.
            raise ChangeConflict(tuple(open_ones))
        return proposed
    return [open_ones[path] for path in _below(paths, open_ones, "open change")]


def _pick_applied(changes: Sequence[FileChange], paths: Sequence[str] | None) -> list[Written]:
    """The last write of each, the newest paths first."""
    known = {change.path: change.written[-1] for change in changes if change.written}
    cells = {change.path for change in changes if change.is_cell and change.state == "applied"}
    if cell := next((path for path in paths or () if path in cells), ""):
        raise CannotUndo(cell, "a cell is taken back where it was applied, with JupyterLab’s own undo")
    return [known[path] for path in reversed(list(known) if paths is None else _below(paths, known, "applied file"))]


def _below(paths: Sequence[str], known: Collection[str], what: str) -> list[str]:
    """These paths, and those below each that ends with a slash."""
    found: dict[str, None] = {}
    for path in paths:
        those = [one for one in known if one.startswith(path)] if path.endswith("/") else [path]
        if not those or those[0] not in known:
            raise UnknownName(what, path, tuple(known))
        found |= dict.fromkeys(those)
    return list(found)
