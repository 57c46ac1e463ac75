"""The commits of a run in its change card: by branch, each with its difference folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kagura_kernel.domain.approval_content import marked
from kagura_kernel.domain.commits import Commit, CommittedBranch
from kagura_kernel.domain.events import CommitsTold
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.diff import counts
from kagura_kernel.render.escape import shown_path
from kagura_kernel.render.figures import counted
from kagura_kernel.views.changes import RUNS, path_word, plus_minus, unseen

_ID_SHOWN = 8
_TONES = {"applied": "good", "discarded": "soft"}
_NO_TEXT = "Not shown: no text, or too long."
_BACK = "The branch is again where it was, with its files, and the commits wait again"


class CommitRow(NamedTuple):
    """One commit in a table."""

    branch: str
    commit: str
    subject: str
    author: str
    files: int
    added: int
    removed: int
    state: str


def commit_rows(branches: Mapping[str, CommittedBranch]) -> list[CommitRow]:
    """One for each commit that is told, the first one of a branch first."""
    return [
        CommitRow(_name(branch), one.id[:_ID_SHOWN], one.subject, one.author, _files(one), *_lines(one), branch.state)
        for branch in branches.values()
        for one in branch.commits
    ]


def commits_blocks(branches: Mapping[str, CommittedBranch], *, live: bool) -> ui.Blocks:
    """A part of the change card for each branch; a live one can be applied, given up and taken back."""
    return tuple(_branch(one, live=live) for one in branches.values())


def commits_text(branches: Collection[CommittedBranch]) -> str:
    """The same in text; empty where there are none."""
    return "\n".join(line for branch in branches for line in _told(branch))


def diffs_text(commit: Commit) -> str:
    """A commit's message and differences."""
    files = (f"{file.diff or f'{file.status} {shown_path(file.path)}: {_NO_TEXT}'}".rstrip() for file in commit.files)
    return marked("\n".join((f"commit {commit.id}", f"{commit.author}", "", commit.message, "", *files)))


def _told(branch: CommittedBranch) -> Iterator[str]:
    state = "" if branch.state == "proposed" else f", {branch.state}"
    why = f": {visible(branch.reason)}" if branch.reason else ""
    yield f"[{_count(branch)} on {_name(branch)}{state}{why}]"
    for one in branch.commits:
        added, removed = _lines(one)
        figures = f"{counted(_files(one), 'file')}  +{added} -{removed}"
        badge = f"  [{RUNS}]" if any(file.runs for file in one.files) else ""
        badge += f"  [{said}]" if (said := unseen(*(file.diff for file in one.files))) else ""
        yield f"{one.id[:_ID_SHOWN]} {visible(one.subject)}  ({visible(one.author)}, {figures}){badge}"
    if branch.left:
        yield f"… and {counted(branch.left, 'more commit')}"
    if branch.runs:
        yield f"Not shown, and {RUNS}: {', '.join(map(shown_path, branch.runs))}"


def settled_text(told: CommitsTold, run: str) -> str:
    """What became of commits, a line for each branch; the run and its project first, where they are given."""
    lines = [f"{run}:"] if run else []
    for one in told.branches:
        word = "taken back, and wait again" if one.state == "proposed" else one.state
        moved = one.moved
        ref = shown_path(moved.ref.removeprefix("refs/heads/")) if moved is not None else ""
        where = f" ({ref} is at {moved.after[:_ID_SHOWN]})" if moved is not None else ""
        lines.append(f"{word}: the commits on {_name(one)}{where}")
    return "\n".join(lines)


def can_settle(branches: Mapping[str, CommittedBranch]) -> bool:
    """Whether anything can be decided about them, or be taken back."""
    return any(one.waits or one.moved is not None for one in branches.values())


def _name(branch: CommittedBranch) -> str:
    return shown_path(branch.name) if branch.name else "no branch"


def _count(branch: CommittedBranch) -> str:
    return counted(len(branch.commits) + branch.left, "commit")


def _files(commit: Commit) -> int:
    return len(commit.files) + commit.files_left


def _lines(commit: Commit) -> tuple[int, int]:
    each = [counts(file.diff) for file in commit.files]
    return sum(plus for plus, _ in each), sum(minus for _, minus in each)


def _branch(branch: CommittedBranch, *, live: bool) -> ui.Group:
    tone = _TONES.get(branch.state, "")
    words: ui.Words = (
        ui.code(_name(branch), "path"),
        *([ui.soft(_count(branch))] if branch.commits else []),
        *([ui.chip(branch.state, tone)] if tone else []),
        *([ui.chip(visible(branch.reason), "warn")] if branch.reason else []),
    )
    folds: list[ui.Block] = [ui.Group((_commit(one, branch),), "file") for one in branch.commits]
    if branch.left:
        too = ", which the buttons are about too" if live and _buttons(branch) else ""
        folds.append(ui.label(f"… and {counted(branch.left, 'more commit')}{too}."))
    if branch.runs:
        paths = [ui.code(shown_path(path), "path") for path in branch.runs]
        folds.append(ui.label(ui.chip(RUNS, "warn"), "Not shown, and among what is applied:", *paths))
    head = ui.Line((*words, ui.SPRING, *(_buttons(branch) if live else ())), "piece-head")
    inside: ui.Blocks = (head, ui.Group(tuple(folds), "files")) if folds else (head,)
    return ui.Group(inside, "piece", f"Commits on {_name(branch)}")


def _buttons(branch: CommittedBranch) -> ui.Words:
    about, of = {"id": path_word(branch.name)}, f"commits on {_name(branch)}"
    if branch.waits:
        return (
            ui.Button("Apply commits", "apply-commits", about, "small", f"Apply {of}"),
            ui.Button("Discard", "discard-commits", about, "quiet small", f"Discard {of}"),
        )
    if branch.moved is not None:
        return (ui.Button("Undo", "undo-commits", about, "quiet small", f"Undo {of}", _BACK),)
    return ()


def _commit(commit: Commit, branch: CommittedBranch) -> ui.Block:
    runs = next((file.runs for file in commit.files if file.runs), "")
    line: ui.Words = (
        ui.code(commit.id[:_ID_SHOWN]),
        visible(commit.subject),
        plus_minus(*_lines(commit)),
        ui.soft(f"{counted(_files(commit), 'file')}, {visible(commit.author)}"),
        *([ui.chip(RUNS, "warn", runs)] if runs else []),
        *([ui.chip("merge")] if commit.merges else []),
    )
    inside: list[ui.Block] = []
    if rest := commit.message.partition("\n")[2].strip():
        inside.append(ui.Pre(rest))
    for file in commit.files:
        inside += _file(file)
    if commit.files_left:
        inside.append(ui.label(f"… and {counted(commit.files_left, 'more file')}."))
    return ui.Fold(line, tuple(inside), f"commit:{path_word(branch.name)}:{commit.id}", is_bare=True)


def _file(file: FileChange) -> list[ui.Block]:
    why = file.runs or file.reason
    line = ui.label(
        ui.soft(file.status), ui.code(shown_path(file.path), "path"), *([ui.chip(visible(why), "warn")] if why else [])
    )
    if file.diff:
        remarks = [ui.label(f"{said}.")] if (said := unseen(file.diff)) else []
        return [line, *remarks, ui.Diff(file.diff)]
    return [line, *([ui.label(_NO_TEXT)] if file.binary else [])]
