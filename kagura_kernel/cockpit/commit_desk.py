"""Which commits runs made, and a person's decision about them; works after the run, in any process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kagura_kernel.cockpit.change_desk import without_secrets
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commits import CommitState, CommittedBranch, Moved, branches_after
from kagura_kernel.domain.errors import (
    CannotUndo,
    NotThisTime,
    RedactionUnavailable,
    RunUnknown,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.events import ChangesSettled, CommitsTold, RunStarted
from kagura_kernel.domain.events.run import changes_after
from kagura_kernel.domain.outcome import ChangeStatus, FileChange
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import MAX_DIFF_INPUT, is_text, unified_diff
from kagura_kernel.membrane.commit_apply import Project, apply_commits, take_back
from kagura_kernel.membrane.git import repository_of
from kagura_kernel.runs.git_places import GitPlaces, environment_of_git

E = TypeVar("E", ChangesSettled, CommitsTold)

_KINDS = ("run.started", "commits.told", "changes.collected", "changes.settled", "run.finished")


def about_commits(given: Mapping[str, Any]) -> bool:
    """Whether the values of a command say that it is about commits. Raises `UsageError` where they say both."""
    if given["commits"] and (given.get("hunk") or given.get("conflict")):
        raise UsageError("`--hunk` and `--conflict` are about files: leave `--commits` out.")
    if given.get("branch") and not given["commits"]:
        raise UsageError("`--branch` is for commits: add `--commits`.")
    return bool(given["commits"])


class CommitDesk:
    """Applies, gives up and takes back what runs committed."""

    def __init__(self, journal: Journal, blobs: BlobStore, clock: Clock) -> None:
        self._journal = journal
        self._blobs = blobs
        self._clock = clock

    def branches(self, run_id: str) -> dict[str, CommittedBranch]:
        """A run's branches with their commits, by name. Raises `RunUnknown`."""
        return self._read(run_id)[1]

    def settle(self, act: str, run_id: str, names: Iterable[str] = (), *, by: str, as_branch: str = "") -> CommitsTold:
        """Do what a person asked for, `apply`, `discard` or `undo`, with all branches that it fits, or those named.

        What is done is recorded branch by branch.

        Raises:
            RunUnknown: there is no such run.
            UnknownName: it committed to no such branch.
            UsageError: a name is given for several branches.
            NotThisTime: nothing of it waits, or can be taken back.
            CommitsRefused: they cannot be applied; nothing was written.
            CannotUndo: they cannot be taken back; nothing was written.
        """
        started, branches, _ = self._read(run_id)
        for name in (names := list(names)):
            if name not in branches:
                raise UnknownName("branch with commits", name, tuple(branches))
        state: CommitState = "applied" if act == "undo" else "proposed"
        fitting = [one for one in branches.values() if one.state == state and one.name in (names or branches)]
        if not fitting:
            raise NotThisTime(f"No commits of {run_id} {'were applied' if act == 'undo' else 'wait'} there.")
        if as_branch and len(fitting) > 1:
            raise UsageError("The run committed to several branches: name one of them too.")
        done = [self._one(act, started, one, by, as_branch) for one in fitting]
        return done[-1].model_copy(update={"branches": tuple(one for event in done for one in event.branches)})

    def _one(self, act: str, started: RunStarted, branch: CommittedBranch, by: str, as_branch: str) -> CommitsTold:
        moved: Moved | None = None
        state: CommitState = "discarded"
        paths: Collection[str] = ()
        there: dict[str, str] = {}
        if act == "apply":
            moved, state = apply_commits(self._project(started), branch, started.run_id, as_branch=as_branch), "applied"
            there = {one.path: one.after_sha256 for one in moved.written}
        elif act == "undo":
            if branch.moved is None:
                raise CannotUndo(branch.name, "nothing is known of what was written")
            paths = take_back(self._project(started), branch.name, branch.moved, started.run_id)
            there = {one.path: one.before_sha256 for one in branch.moved.written if one.path in paths}
            state = "proposed"
        told = replace(branch, commits=(), state=state, moved=moved)
        further = tuple(self._from_there(started, there))
        event = self._tell(started, CommitsTold, branches=(told,), changes=further, by=by)
        known = self._read(started.run_id)[2]
        if moved is not None:
            after = {one.path: one.new_sha256 for one in known if one.state == "proposed"}
            came = tuple(one for one in moved.written if after.get(one.path) == one.after_sha256)
            if came:
                self._tell(started, ChangesSettled, applied=tuple(one.path for one in came), written=came, by=by)
        elif went := tuple(one.path for one in known if one.path in paths and one.written):
            self._tell(started, ChangesSettled, undone=went, by=by)
        return event

    def _from_there(self, started: RunStarted, there: Mapping[str, str]) -> Iterator[FileChange]:
        """What the run changed further after it had committed, as changes of what the project has by now."""
        for change in self._read(started.run_id)[2]:
            now = there.get(change.path, change.new_sha256)
            if change.state == "proposed" and now not in (change.old_sha256, change.new_sha256):
                with suppress(OSError, RedactionUnavailable):
                    old, new = (self._blobs.get(one) if one else b"" for one in (now, change.new_sha256))
                    is_shown = is_text(old) and is_text(new) and max(len(old), len(new)) <= MAX_DIFF_INPUT
                    diff = without_secrets(unified_diff(change.path, old, new)) if is_shown else ""
                    status: ChangeStatus = "deleted" if not change.new_sha256 else "modified" if now else "added"
                    yield replace(change, old_sha256=now, status=status, diff=diff)

    def _tell(self, started: RunStarted, kind: type[E], **fields: Any) -> E:
        at = self._clock.now()
        event = kind(run_id=started.run_id, session_id=started.session_id, at=at, **fields)
        self._journal.append(event)
        return event

    def _project(self, started: RunStarted) -> Project:
        root = Path(started.project)
        repository = repository_of(root, environment_of_git(os.environ, root))
        if repository is None:
            raise NotThisTime(f"{root} has no repository of its own, by now, that git on this machine reads.")
        # What git runs may be other files by now than when the run began.
        return Project(root, repository, self._blobs, (*started.protected, *GitPlaces(root, os.environ).held))

    def _read(self, run_id: str) -> tuple[RunStarted, dict[str, CommittedBranch], list[FileChange]]:
        started: RunStarted | None = None
        branches: dict[str, CommittedBranch] = {}
        changes: dict[str, FileChange] = {}
        for row in self._journal.events(run_id=run_id, kinds=_KINDS):
            if isinstance(row.event, RunStarted):
                started = row.event
            elif isinstance(row.event, CommitsTold):
                branches = branches_after(branches, row.event.branches)
            changes = dict(changes_after(changes, row.event))
        if started is None:
            raise RunUnknown(run_id)
        return started, branches, list(changes.values())
