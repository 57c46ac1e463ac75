"""The changes of a run as a chat looks at them, decides about them, and offers to by buttons; all of it blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.commit_desk import about_commits
from kagura_kernel.cockpit.lines.parser import parse_line
from kagura_kernel.cockpit.transports.transport import Button
from kagura_kernel.domain.errors import ChangeConflict, NotThisTime, UnknownName
from kagura_kernel.domain.events import ChangesSettled
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.views.changes import numbered, sides_text, unseen
from kagura_kernel.views.commits import commits_text, settled_text

BUTTONS = {"undo": "Undo", "mine": "Keep mine", "theirs": "Take theirs"}
"""What buttons about changes do, with what stands on them."""


class Offer(NamedTuple):
    """Buttons below what became of a run's changes."""

    run_id: str
    undo: bool = False  # Whether anything can be taken back
    seen: str = ""  # What the project has of the only file in conflict; empty where there is no such one

    def buttons(self, token: str) -> tuple[Button, ...]:
        """The buttons, each bearing this token."""
        verbs = (["undo"] if self.undo else []) + (["mine", "theirs"] if self.seen else [])
        tail = {"theirs": f":{self.seen}"}
        return tuple(Button(BUTTONS[verb], f"{verb}:{self.run_id}:{token}{tail.get(verb, '')}") for verb in verbs)


def states(cockpit: Cockpit, run_id: str) -> list[str]:
    """A line for each change, with how it is looked at and decided where it is more than one thing."""
    return [_line(change) for change in cockpit.changes(run_id)]


def commits(cockpit: Cockpit, run_id: str) -> list[str]:
    """The lines that tell what a run committed, by branch, with how that is decided."""
    branches = cockpit.commits_desk.branches(run_id).values()
    how = ["/apply --commits, /discard --commits"] if any(one.waits for one in branches) else []
    return [*commits_text(branches).splitlines(), *how]


def difference(cockpit: Cockpit, run_id: str, path: str) -> str:
    """One change in full, with the numbers of its hunks, or both sides of a conflict.

    Raises:
        UnknownName: the run changed no such file.
    """
    changes = {change.path: change for change in cockpit.changes(run_id)}
    if path not in changes:
        raise UnknownName("changed file", path, tuple(changes))
    both = cockpit.changes_desk.both_sides(run_id).get(path)
    return sides_text(changes[path], both) if both is not None else numbered(changes[path])


def settle(cockpit: Cockpit, verb: str, line: str, run_id: str, by: str) -> tuple[list[str], Offer]:
    """Do what a command says, with the options that it has everywhere: what is in which state now.

    Raises:
        KaguraError: as `ChangeDesk.settle` and `CommitDesk.settle`.
    """
    values = parse_line(f"{verb} {run_id} {line}", Surface.NOTEBOOK, prefix="/").values
    if about_commits(values):
        branch = values.get("branch", "")
        told = cockpit.commits_desk.settle(verb, run_id, values["paths"], by=by, as_branch=branch)
        return settled_text(told, "").splitlines(), _offer(cockpit, run_id)
    hunks, conflict = values.get("hunk", ()), values.get("conflict")
    try:
        done = cockpit.changes_desk.settle(
            verb, run_id, list(values["paths"]) or None, by=by, hunks=hunks, conflict=conflict
        )
    except ChangeConflict as error:
        return [f"{path}: left alone" for path in error.paths], _offer(cockpit, run_id)
    return _settled(done), _offer(cockpit, run_id)


def press(cockpit: Cockpit, verb: str, run_id: str, seen: str, by: str) -> tuple[list[str], Offer]:
    """Do what a button says; raises likewise."""
    desk = cockpit.changes_desk
    if verb == "undo":
        done = desk.undo(run_id, None, by=by)
    else:
        path, _ = _conflict(cockpit, run_id)
        if not path:
            raise NotThisTime("There is no longer exactly one file in conflict: /changes tells which there are.")
        keeps = verb == "mine"
        done = desk.discard(run_id, [path], by=by) if keeps else desk.resolve(run_id, path, "theirs", by=by, seen=seen)
    return _settled(done), _offer(cockpit, run_id)


def _offer(cockpit: Cockpit, run_id: str) -> Offer:
    """What can be done by a button now."""
    written = [change.path for change in cockpit.changes(run_id) if change.written]
    undo = bool(written) and not cockpit.changes_desk.stuck(run_id)
    return Offer(run_id, undo, _conflict(cockpit, run_id)[1])


def _conflict(cockpit: Cockpit, run_id: str) -> tuple[str, str]:
    """The only file in conflict and what stands for the project's; both empty where there is not exactly one."""
    sides = cockpit.changes_desk.both_sides(run_id)
    return next(((path, both.seen) for path, both in sides.items()), ("", "")) if len(sides) == 1 else ("", "")


def _line(change: FileChange) -> str:
    runs = f": runs by itself: {change.runs}" if change.runs else ""
    how = ""
    if change.state == "conflict" and not change.is_cell:
        how = f" · /changes {change.path} shows both sides; /apply {change.path} --conflict theirs, merge or markers"
    elif change.open_hunks and change.state == "proposed":
        how = f" · {len(change.hunks)} hunks: /changes {change.path}, /apply {change.path} --hunk N"
    marks = f" · {said}" if (said := unseen(change.diff)) else ""
    return f"{change.status} {change.path} ({change.state}){runs}{marks}{how}"


def _settled(done: ChangesSettled) -> list[str]:
    named: dict[str, Sequence[str]] = {
        "in the project": done.applied,
        "given up": done.discarded,
        "left alone": done.conflicts,
        "taken back, and waits again": done.undone,
    }
    states = [f"{path}: {state}" for state, found in named.items() for path in found]
    states += [
        f"{one.path}, hunk {', '.join(map(str, one.hunks))}: in the project" for one in done.written if one.hunks
    ]
    states += [f"{one.path}, hunk {', '.join(map(str, one.numbers))}: given up" for one in done.discarded_hunks]
    return states
