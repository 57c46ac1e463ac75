"""A run's changes and commits, and how each of them stands, folded from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kagura_kernel.domain.commits import CommittedBranch, branches_after
from kagura_kernel.domain.errors import RunUnknown
from kagura_kernel.domain.outcome import FileChange, in_order
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.store import Journal

if TYPE_CHECKING:
    from kagura_kernel.domain.events import RunStarted

_KINDS = ("run.started", "changes.collected", "changes.settled", "commits.told", "run.finished")


def changes_of(journal: Journal, run_id: str) -> list[FileChange]:
    """A run's changes with their states, in the order of `in_order`.

    Raises:
        RunUnknown: there is no such run.
    """
    return start_and_changes(journal, run_id)[1]


def changes_wait(journal: Journal, row: RunRow) -> bool:
    """Whether any change of a run waits for a person."""
    return bool(row.changed_files) and any(
        change.state in ("proposed", "conflict") for change in changes_of(journal, row.run_id)
    )


def commits_wait(journal: Journal, run_id: str) -> bool:
    """Whether any branch that a run committed to waits for a person."""
    rows = journal.events(run_id=run_id, kinds=("commits.told",))
    if not rows:
        # Whoever lists runs imports no events for those that have not committed anything.
        return False
    from kagura_kernel.domain.events import CommitsTold

    branches: dict[str, CommittedBranch] = {}
    for row in rows:
        if isinstance(row.event, CommitsTold):
            branches = branches_after(branches, row.event.branches)
    return any(branch.waits for branch in branches.values())


def start_and_changes(journal: Journal, run_id: str) -> tuple[RunStarted, list[FileChange]]:
    """The beginning of a run, and its changes as of `changes_of`, which says what is raised."""
    from kagura_kernel.domain.events import RunStarted
    from kagura_kernel.domain.events.run import changes_after

    started: RunStarted | None = None
    changes: Mapping[str, FileChange] = {}
    for row in journal.events(run_id=run_id, kinds=_KINDS):
        if isinstance(row.event, RunStarted):
            started = row.event
        changes = changes_after(changes, row.event)
    if started is None:
        raise RunUnknown(run_id)
    return started, in_order(changes.values())
