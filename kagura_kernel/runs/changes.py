"""A run's changes on their way to the project: collected, applied as it goes, or left for a person."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from kagura_kernel.domain.errors import NotebookUnwritable
from kagura_kernel.domain.events import ChangesCollected, ChangesSettled
from kagura_kernel.domain.notebook import split_cell_path
from kagura_kernel.domain.outcome import ChangeState, FileChange, by_path, in_order
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.cells import is_made, own_notebook
from kagura_kernel.membrane.change_apply import apply_changes
from kagura_kernel.membrane.changes import LEFT, Collector, Ours
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.notebooks import NotebookChanges, ToldNotebooks
from kagura_kernel.membrane.project import ProjectFiles, UnsafePath
from kagura_kernel.runs.kept_boxes import Earlier, KeptBox
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.sandbox.backend import Box

MAX_PART_FILES = 200
"""Files in one row of the journal."""

MAX_PART_BYTES = 2**20
"""Bytes that the files in one row may take, unless a single file takes more."""


MAX_NAMED = 20
"""Paths that a remark for the brain names."""


class RunChanges:
    """Brings one run's changes out of its box.

    With `ask` they are stored and wait for a person; with `through` they are applied after every tool call, without
    ever touching a file that changed in the project meanwhile, but those that somebody would run unasked wait as with
    `ask`; with `none` they are only told.
    """

    def __init__(self, order: RunOrder, blobs: BlobStore, recorder: Recorder, scrubber: Scrubber | None = None) -> None:
        self._mode = order.write_mode
        self.plans_only = order.plans_only  # Whether nothing of it counts yet
        # What a child changes goes to the run that it works for, and reaches the project on that run's way.
        self._unapplied: ChangeState = "handed" if order.handoff.lineage else "discarded"
        self._recorder = recorder
        self._root = order.project
        self._project = ProjectFiles(order.project)
        self._blobs = blobs
        self._ours: dict[str, Sequence[str]] = {}
        self._protected = order.spec.policy.untold
        self._own = own_notebook(order.place.notebook, order.project)
        # What a child changes is laid into another box, as files.
        self._notebooks = None if order.handoff.lineage else NotebookChanges(self._project, blobs, self._own, scrubber)
        self._whole: dict[str, FileChange] = {}  # Notebooks that are told by their cells, as files
        self._settled: dict[str, FileChange] = {}
        self._cells: dict[str, FileChange] = {}
        self._earlier: dict[str, Earlier] = {}
        self._still: dict[str, FileChange] = {}
        self._resumed: dict[str, Sequence[str]] = {}
        self._order = asyncio.Lock()
        self._collector = Collector(
            self._project,
            blobs,
            since=time.time(),
            protected=self._protected,
            limit_bytes=order.spec.limits.workspace_bytes,
            scrubber=scrubber,
            git=order.git,
        )
        # On an account of its own: what it has weighed and shown is not missing at the end.
        self._onlooker = replace(self._collector, diff_bytes=0)

    def go_on(self, kept: KeptBox) -> None:
        """Work in a box in which runs have worked before: what they have told of is not told again.

        What changed in the project since the box began is a conflict.
        """
        self._earlier = dict(kept.told)
        self._ours = {path: one.known for path, one in kept.told.items()}
        self._collector.since = self._onlooker.since = kept.since
        if self._notebooks is not None and kept.notebooks is not None:
            self._notebooks.go_on(kept.notebooks)

    def resume(self, runs: Sequence[str], laid: Iterable[FileChange]) -> None:
        """Work from where other runs stood: what they changed was laid into its box, and this one tells it anew."""
        self._resumed = {change.path: runs for change in laid} if self.mode is not WriteMode.NONE else {}

    def changed_outside(self) -> list[str]:
        """Files of the project that others have changed since the box began, sorted; blocks."""
        newer = self._project.newer_than(self._collector.since)
        return sorted(
            path for path in newer if path not in self._own and self.now_at(path) not in self._ours.get(path, ())
        )

    @property
    def protected(self) -> tuple[str, ...]:
        """Paths of the project that no file of this run ever takes, beside those that are always protected."""
        return (*self._protected, *self._own)

    async def begin(self) -> None:
        """Note what is to be compared with later; called before there is a box."""
        if self._notebooks is not None:
            await asyncio.to_thread(self._notebooks.begin)

    @property
    def through(self) -> bool:
        """Whether changes are applied as the run goes on."""
        return self.mode is WriteMode.THROUGH

    @property
    def mode(self) -> WriteMode:
        """How changes reach the project now."""
        return WriteMode.NONE if self.plans_only else self._mode

    async def write_through(self, box: Box) -> str:
        """Apply what is new since the last call: a remark for the brain about what was not, or nothing."""
        async with self._order:
            changes: list[FileChange] = []
            try:
                await self._collector.collect(box, await self._in_project(), changes)
            finally:
                changes = await self._by_cells(changes)
                # What is protected was told, and stays as it is: a project never changes there. What runs by itself
                # waits for a person, as all else of a collection that was cut short does.
                fresh = [change for change in self._new(changes) if self._is_fresh(change)]
                await self._tell(fresh)
            self._take_back({change.path for change in changes})
            self._forget_all_but({change.path for change in changes})
            if free := by_path(change for change in fresh if not _is_left(change)):
                await self._apply(free)
            return self._remark([change.path for change in fresh])

    def _take_back(self, there: Container[str]) -> None:
        """Let nothing wait that the box has taken back."""
        over = [one for one in self._settled.values() if one.state == "proposed" and one.path not in there]
        # A person may have applied it meanwhile.
        gone = [one for one in over if not self._is_in(one)]
        self._settled |= {one.path: replace(one, state="discarded" if one in gone else "applied") for one in over}
        if gone:
            self._recorder.record(ChangesSettled, discarded=tuple(one.path for one in gone), by="write through")

    def _remark(self, paths: Sequence[str]) -> str:
        states = {path: self._settled[path].state for path in paths}
        whys = {
            "conflict": "a person changed the project's file meanwhile",
            "protected": "never written by a run",
            "proposed": "waits for a person, since programs run or obey such files unasked",
        }
        parts = [
            f"{why}: {', '.join(ascii(path)[1:-1] for path in left)}"
            for state, why in whys.items()
            if (left := [path for path in paths if states[path] == state][:MAX_NAMED])
        ]
        return f"[not in the project: {'; '.join(parts)}]" if parts else ""

    async def _apply(self, by_path: dict[str, FileChange]) -> None:
        done = await asyncio.to_thread(
            apply_changes, self._project, self._blobs, list(by_path.values()), protected=self.protected
        )
        for path in done.applied:
            self._ours[path] = (by_path[path].new_sha256,)
            self._settled[path] = replace(by_path[path], state="applied")
        for path in done.conflicts:
            self._settled[path] = replace(by_path[path], state="conflict")
        self._recorder.record(
            ChangesSettled, applied=done.applied, conflicts=done.conflicts, written=done.written, by="write through"
        )
        if done.error is not None:
            raise done.error

    async def look(self, box: Box) -> tuple[FileChange, ...]:
        """What differs from the project by now, without diffs, for whoever goes on from here; nothing is told.

        Raises:
            WorkspaceTooLarge: all that was ever looked at weighs more than the run's limit.
            SandboxUnavailable: the box is gone.
        """
        return tuple(replace(change, diff="") for change in await self._onlooker.collect(box, self._ours))

    def now_at(self, path: str) -> str:
        """The hash of what lies at a path in the project; empty for nothing, `?` for what cannot be read."""
        try:
            return self._project.state(path).sha256
        except (OSError, UnsafePath):
            return "?"

    def _is_in(self, change: FileChange) -> bool:
        """Whether the project has a change already."""
        if not change.is_cell:
            return self.now_at(change.path) == change.new_sha256
        with contextlib.suppress(NotebookUnwritable):
            return is_made(self._root / split_cell_path(change.path)[0], change)
        return False

    async def so_far(self, box: Box) -> list[FileChange]:
        """What differs from the project now; nothing is recorded, and contents are stored."""
        async with self._order:
            return await self._collector.collect(box, self._ours)

    @property
    def cells(self) -> Mapping[str, FileChange]:
        """Cells of its notebook that it would change, by path."""
        return self._cells

    def propose(self, changes: Sequence[FileChange], *, withdrawn: Sequence[str] = ()) -> None:
        """Tell of cells that it would change, and of those that it would not change any more."""
        for part in in_parts(changes):
            self._recorder.record(ChangesCollected, changes=part)
        self._cells |= by_path(changes)
        if withdrawn:
            self._recorder.record(ChangesSettled, discarded=tuple(withdrawn), by="the agent")
            self._cells = {path: change for path, change in self._cells.items() if path not in withdrawn}

    def cells_settled(self, changes: Sequence[FileChange], refused: Mapping[str, str]) -> None:
        """Tell what became of cells that were written through."""
        left = [change.path for change in changes if split_cell_path(change.path)[1] in refused]
        applied = [change.path for change in changes if change.path not in left]
        states = dict.fromkeys(applied, "applied") | dict.fromkeys(left, "conflict")
        self._cells |= {path: replace(self._cells[path], state=state) for path, state in states.items()}  # type: ignore[arg-type]
        self._recorder.record(ChangesSettled, applied=tuple(applied), conflicts=tuple(left), by="write through")

    @property
    def left(self) -> tuple[FileChange, ...]:
        """What the run leaves behind, as far as it is known: each file with its state, sorted by path.

        What somebody would run unasked stands first.
        """
        return tuple(in_order(self._settled.values()))

    @property
    def as_files(self) -> tuple[FileChange, ...]:
        """All in which its box differs from the project, notebooks as files, for whoever lays it into another box."""
        files = [one for one in (*self._settled.values(), *self._still.values()) if not one.is_cell]
        return tuple(in_order([*files, *self._whole.values()]))

    @property
    def still(self) -> Container[str]:
        """Paths of what runs before in its box have left, and this one has not touched."""
        return self._still

    @property
    def notebooks(self) -> ToldNotebooks | None:
        """What it and the runs before in its box know of notebooks; None for a run that works for another one."""
        return self._notebooks.record if self._notebooks is not None else None

    async def _in_project(self) -> Ours:
        """What the project has by way of these runs: files, and notebooks, of which each cell is looked at."""
        if self._notebooks is None or not self._notebooks.record.cells:
            return self._ours
        hashes = await asyncio.to_thread(self._notebooks.hashes)
        return self._ours | {path: (now,) for path, now in hashes.items()}

    async def _by_cells(self, changes: list[FileChange]) -> list[FileChange]:
        """The same with notebooks that were changed as changes of their cells, where these can be told."""
        if self._notebooks is None:
            return changes
        found = list[FileChange]()
        self._whole = {}
        for change in changes:
            told = await self._notebooks.told(change)
            found += told
            if told != [change] and all(one.is_cell for one in told):
                self._whole[change.path] = change
        return found

    @property
    def told(self) -> dict[str, Earlier]:
        """What it and the runs before in its box have told of, for the next one there."""
        run_id = self._recorder.run_id
        settled = {path: Earlier(run_id, change, self._known(change)) for path, change in self._settled.items()}
        return self._earlier | settled

    def _known(self, change: FileChange) -> Sequence[str]:
        """What the project may have of a file by way of the runs in the box, the last one last.

        Which of them a person has applied, or taken back, is not known here.
        """
        old = (change.old_sha256,) if change.state == "proposed" else ()
        before = () if self.through else (*self._ours.get(change.path, ()), *old)
        return (*(one for one in before if one != change.new_sha256), change.new_sha256)

    async def settle(self, box: Box) -> None:
        """Bring out what the run leaves behind; called once, before the box is closed.

        Whatever ends it early, what had been brought out by then is stored, and is in `left` with what was not.

        Raises:
            WorkspaceTooLarge: the new contents weigh more than the limit.
            SandboxError: the box is gone, or has told of more than anybody takes.
        """
        if self.through:
            await self.write_through(box)
            return
        changes: list[FileChange] = []
        try:
            await self._collector.collect(box, await self._in_project(), changes)
        finally:
            changes = await self._by_cells(changes)
            new = self._new(changes)
            if self.mode is WriteMode.NONE:
                new = [replace(change, state=self._unapplied) for change in new]
            await self._tell(new)
        self._forget_all_but({change.path for change in changes})

    def _new(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Those that no run before in the box has told of as they are."""
        told = self._earlier
        self._still = by_path(one for one in changes if one.path in told and told[one.path].is_still(one))
        return [one for one in changes if one.path not in self._still]

    def _is_fresh(self, change: FileChange) -> bool:
        before = self._settled.get(change.path)
        if before is None or (before.state == "proposed" and not _is_left(before)):
            return True
        if change.reason == LEFT:
            # What is in the project already is most probably what lies in the box.
            return (before.size, before.mode) != (change.size, change.mode)
        return _content_of(before) != _content_of(change)

    async def _tell(self, changes: list[FileChange]) -> None:
        await self._recorder.ready_for(*(change.diff for change in changes))
        for part in in_parts(changes):
            self._recorder.record(ChangesCollected, changes=part)
        self._settled |= by_path(changes)
        self._supersede(change.path for change in changes)

    def _forget_all_but(self, there: Container[str]) -> None:
        """Let nothing wait that runs before it have told of, and that is not in its box any more."""
        gone = [path for path, one in self._earlier.items() if path not in there and not self._is_in(one.change)]
        self._supersede([*gone, *(path for path in self._resumed if path not in there)])

    def _supersede(self, paths: Iterable[str]) -> None:
        """Let nothing wait that runs before it have told of these files."""
        over: dict[str, list[str]] = {}
        for path in paths:
            before = self._earlier.pop(path, None)
            for run_id in (*self._resumed.pop(path, ()), *(() if before is None else (before.run_id,))):
                over.setdefault(run_id, []).append(path)
        for run_id, those in over.items():
            self._recorder.take_over(run_id, those)


def _is_left(change: FileChange) -> bool:
    waits = bool(change.runs) or change.is_cell
    return change.state == "protected" or (waits and change.state == "proposed")


def _content_of(change: FileChange) -> tuple[object, ...]:
    return change.new_sha256, change.mode, change.target if change.is_cell else ""


def in_parts(changes: Sequence[FileChange]) -> Iterator[list[FileChange]]:
    """Changes for rows of the journal, few and light enough for a reader to take at once; those who read join them."""
    part: list[FileChange] = []
    weight = 0
    for change in changes:
        size = len(json.dumps(asdict(change)))
        if part and (len(part) >= MAX_PART_FILES or weight + size > MAX_PART_BYTES):
            yield part
            part, weight = [], 0
        part.append(change)
        weight += size
    if part:
        yield part
