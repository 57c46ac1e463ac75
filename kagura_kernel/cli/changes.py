"""`kagura-kernel changes`, `apply`, `discard` and `undo`: a run's changes on their way into its project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.journal_access import home_of, open_journal, place_of
from kagura_kernel.cli.output import as_json, for_terminal, table
from kagura_kernel.cockpit.change_desk import ChangeDesk
from kagura_kernel.cockpit.commit_desk import CommitDesk, about_commits
from kagura_kernel.cockpit.next_commands import of_changes
from kagura_kernel.cockpit.run_names import here_of, named_run, no_changes, told_run
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.outcome import by_path
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.steering.runs import told
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.views.changes import changes_text, never_written, numbered, sides_text
from kagura_kernel.views.commits import CommitRow, commit_rows, commits_text, diffs_text, settled_text
from kagura_kernel.views.previews import is_new_notebook, notebook_text, wanted

if TYPE_CHECKING:
    from kagura_kernel.domain.events import ChangesSettled
    from kagura_kernel.domain.outcome import BothSides, FileChange
    from kagura_kernel.journal.store import Journal

ALL_WELL, SOME_LEFT = 0, 1


@contextmanager
def _desk(arguments: SimpleNamespace) -> Iterator[tuple[Journal, str, ChangeDesk]]:
    """The journal, the id of the run that is named, and what its changes are looked at and settled with.

    Raises:
        RunUnknown: there is no such run.
        UsageError: there is no journal, or a word is the end of several ids.
        JournalError: it cannot be used.
    """
    place = place_of(arguments)
    with open_journal(place) as journal:
        run_id = named_run(journal, arguments.run, here_of())
        yield journal, run_id, ChangeDesk(journal, BlobStore(home_of(place) / "blobs"), SystemClock())


def changes(arguments: SimpleNamespace) -> int:
    """Print them; 0. Raises as `_desk`."""
    with _desk(arguments) as (journal, run_id, desk):
        sides = {} if arguments.json else desk.both_sides(run_id)
        branches = _commits_desk(arguments, journal).branches(run_id)
        if branches and not arguments.json:
            print(commits_text(branches.values()))
        found = desk.changes(run_id)
        if arguments.json:
            print(as_json([asdict(change) for change in found]))
        elif not found:
            print(no_changes(journal, run_id, told_run(journal, run_id)))
        else:
            _show(told_run(journal, run_id), found, sides, desk)
    if not arguments.json:
        _tell_next(of_changes(run_id, found, branches.values()))
    return ALL_WELL


def _tell_next(commands: Sequence[str]) -> None:
    if commands:
        print("\n" + "\n".join(f"next: {for_terminal(command)}" for command in commands))


def _commits_desk(arguments: SimpleNamespace, journal: Journal) -> CommitDesk:
    return CommitDesk(journal, BlobStore(home_of(place_of(arguments)) / "blobs"), SystemClock())


def commits(arguments: SimpleNamespace) -> int:
    """Print what a run committed, and the difference of each; 0. Raises as `_desk`."""
    arguments.run = arguments.run or "last"
    with _desk(arguments) as (journal, run_id, _):
        branches = _commits_desk(arguments, journal).branches(run_id)
        run = told_run(journal, run_id)
    rows = commit_rows(branches)
    if arguments.json:
        print(as_json([row._asdict() for row in rows]))
    elif not rows:
        print(f"{run} committed nothing that could be brought out.")
    else:
        print(f"{run}:\n{table(CommitRow._fields, rows, whole=('branch', 'commit'))}")
        told = {one.id: diffs_text(one) for branch in branches.values() for one in branch.commits}
        print("".join(f"\n{text}\n" for text in told.values()), end="")
        _tell_next(of_changes(run_id, (), branches.values()))
    return ALL_WELL


def _settle_commits(arguments: SimpleNamespace) -> int:
    with _desk(arguments) as (journal, run_id, _):
        desk, new = _commits_desk(arguments, journal), vars(arguments).get("branch", "")
        settled = desk.settle(arguments.action, run_id, arguments.paths, by=person(), as_branch=new)
        run = told_run(journal, run_id)
    fields = ("run_id", "branches", "by")
    told = {name: value for name, value in settled.model_dump(mode="json").items() if name in fields}
    print(as_json(told) if arguments.json else settled_text(settled, run))
    return ALL_WELL


def apply(arguments: SimpleNamespace) -> int:
    """Bring them into the project or out of it again, or give them up.

    1 when a file was left alone as the project's had changed, else 0.

    Raises:
        UnknownName: the run changed no such file.
        CannotUndo: what was applied cannot be taken back.
        ChangeConflict: nothing could be applied; the project changed meanwhile.
        WorkspaceUnreadable: the project cannot be written.
        KaguraError: as of `_desk`.
    """
    if about_commits(vars(arguments)):
        return _settle_commits(arguments)
    with _desk(arguments) as (journal, run_id, desk):
        paths, given = list(arguments.paths) or None, vars(arguments)
        settled = desk.settle(
            arguments.action,
            run_id,
            paths,
            by=person(),
            hunks=given.get("hunk", ()),
            conflict=given.get("conflict"),
        )
        run = told_run(journal, run_id)
        protected = never_written(desk.changes(run_id)) if arguments.action == "apply" and not paths else []
    _tell(settled, run, protected, as_lines=not arguments.json)
    return SOME_LEFT if settled.conflicts else ALL_WELL


discard = undo = apply


def _show(run: str, changes: Sequence[FileChange], sides: Mapping[str, BothSides], desk: ChangeDesk) -> None:
    print(f"{run}:")
    print(changes_text(by_path(changes), len(changes)))
    for change in changes:
        if (both := sides.get(change.path)) is not None:
            print(f"\n{sides_text(change, both).rstrip()}")
        elif cells := _cells_of(change, desk):
            print(f"\n{visible(change.path)}\n{cells}")
        elif change.diff:
            print(f"\n{numbered(change).rstrip()}")


def _cells_of(change: FileChange, desk: ChangeDesk) -> str:
    """The cells of a new notebook; empty for another file."""
    if not is_new_notebook(change):
        return ""
    return notebook_text(change, desk.new_cells(change.new_sha256, wanted(change)) or b"")


def _tell(settled: ChangesSettled, run: str, protected: Sequence[str], *, as_lines: bool) -> None:
    if as_lines:
        print(told(settled, run, protected))
    else:
        fields = ("run_id", "applied", "discarded", "conflicts", "undone", "written", "discarded_hunks", "by")
        print(as_json({name: value for name, value in settled.model_dump().items() if name in fields}))
