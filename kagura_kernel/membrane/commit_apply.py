"""Commits of a run on their last step into the project's repository, and back out of it.

What is written is objects, one ref (only where it still is what was looked at, with a line in its log), and where that
branch is checked out the files that differ, as changes are written, and their lines in the index. Commits that do not
follow on what the branch has by now are made anew on top of it, as patches. Git runs no hook meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kagura_kernel.domain.commits import CommittedBranch, Moved
from kagura_kernel.domain.errors import CannotUndo, CommitsRefused
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.outcome import ChangeStatus, FileChange, Written
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import CHANGED_SINCE, apply_changes, in_order_back, put_back, stuck
from kagura_kernel.membrane.commits import LINK, SUBMODULE, Quarantine, quarantine
from kagura_kernel.membrane.git import GitFailed, Repository, TreeChange
from kagura_kernel.membrane.project import ProjectFiles, UnsafePath, link_hash
from kagura_kernel.membrane.protection import Protection, present

_MIDST = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Project:
    """What commits go into."""

    root: Path
    repository: Repository
    blobs: BlobStore
    protected: Sequence[str] = ()  # Paths that nothing of the run may change

    @property
    def files(self) -> ProjectFiles:
        """The files in it."""
        return ProjectFiles(self.root)


def apply_commits(project: Project, branch: CommittedBranch, run_id: str, *, as_branch: str = "") -> Moved:
    """Bring a branch's commits in: under its own name, or as a new branch, which touches no file. Blocks.

    Raises:
        CommitsRefused: they cannot be, and nothing was written; the error says why.
    """
    try:
        bundle = project.blobs.get(branch.bundle)
    except OSError as error:
        raise CommitsRefused(branch.name, branch.reason or "what came out of the box is kept no more") from error
    try:
        with _turn(project.repository), quarantine(project.blobs, project.repository) as place:
            place.take(bundle)
            return _Applying(project, place, branch, run_id).done(as_branch)
    except GitFailed as error:
        raise CommitsRefused(branch.name, f"git says “{error}”") from error


_BESIDE = "the branch has commits that these do not build on"


class _Applying:
    """One branch on its way in."""

    def __init__(self, project: Project, place: Quarantine, branch: CommittedBranch, run_id: str) -> None:
        self._project, self._place, self._branch, self._run_id = project, place, branch, run_id
        self._git = project.repository.git

    def done(self, as_branch: str) -> Moved:
        ref = self._ref(as_branch)
        before, current = self._git.commit_at(ref), _current(self._project.repository)
        if as_branch and before:
            raise self._no(f"there is a branch {as_branch} already")
        head = self._branch.head
        commits = self._place.ahead(head, before)
        if before and len(commits) > len(self._branch.commits) + self._branch.left:
            raise self._no("they build on commits that the branch had when they were shown, and has no more")
        self._refuse_submodules(commits)
        if before and not self._place.git.is_ancestor(before, head):
            if self._place.git.is_ancestor(head, before):
                raise self._no("the project has them already")
            head = self._made_anew(commits, before)
        if before == head:
            raise self._no("the project has them already")
        moved = Moved(ref, before, head, checked_out=ref == current)
        if not moved.checked_out:
            self._refuse_checked_out(ref)
            self._take_objects(before, head)
            self._move(moved)
            return moved
        if any((self._project.repository.folder / name).exists() for name in _MIDST):
            raise self._no("the repository is in the midst of a merge, a rebase or the like")
        return self._with_files(moved, self._place.git.differs(before, head))

    def _no(self, why: str) -> CommitsRefused:
        return CommitsRefused(self._branch.name, why)

    def _ref(self, as_branch: str) -> str:
        name = as_branch or self._branch.name
        if not name:
            if _current(self._project.repository) != "HEAD":
                raise self._no("the box was on no branch, and the project is on one")
            return "HEAD"
        try:
            self._git.run("check-ref-format", "--branch", name)
            self._git.run("check-ref-format", f"refs/heads/{name}")
        except GitFailed as error:
            raise self._no(f"{name} is no name of a branch") from error
        return f"refs/heads/{name}"

    def _refuse_submodules(self, commits: Sequence[Sequence[str]]) -> None:
        for commit, *parents in commits:
            changes = self._place.changed(commit, parents)
            if any(SUBMODULE in (one.old_mode, one.new_mode) for one in changes):
                raise self._no("they change a submodule, whose own commits stay in the box")

    def _refuse_checked_out(self, ref: str) -> None:
        if f"branch {ref}" in self._git.said("worktree", "list", "--porcelain").splitlines():
            raise self._no("the branch is checked out in another folder")

    def _made_anew(self, commits: Sequence[Sequence[str]], tip: str) -> str:
        """The last of the same commits on top of `tip`, each with its author, committer and message."""
        git, index = self._place.git, {"GIT_INDEX_FILE": str(self._place.git.directory / "index")}
        if any(len(parents) != 1 for _, *parents in commits):
            raise self._no(f"{_BESIDE}, and what has merges cannot be put on top")
        for commit, parent in commits:
            patch = git.run("diff-tree", "-p", "--binary", "--full-index", "--no-renames", parent, commit)
            git.run("read-tree", tip, env=index)
            if patch:
                try:
                    git.run("apply", "--cached", "--3way", "--whitespace=nowarn", stdin=patch, env=index)
                except GitFailed as error:
                    why = f"{_BESIDE}, and {commit[:10]} does not fit on top of them"
                    raise self._no(why) from error
            tree = git.said("write-tree", env=index)
            if patch and tree == git.said("rev-parse", f"{tip}^{{tree}}"):
                # The branch has what it changes already.
                continue
            told = git.run("cat-file", "commit", commit)
            tip = git.said("hash-object", "-t", "commit", "-w", "--stdin", stdin=_on_top(told, tree, tip))
        return tip

    def _take_objects(self, before: str, head: str) -> None:
        wanted = "\n".join([head, *(f"^{tip}" for tip in (before, *self._project.repository.tips()) if tip)])
        pack = self._place.git.run("pack-objects", "--revs", "--stdout", "-q", stdin=f"{wanted}\n".encode())
        self._git.run("unpack-objects", "-q", "--strict", stdin=pack)

    def _move(self, moved: Moved) -> None:
        count = len(self._place.ahead(moved.after, moved.before)) or len(self._branch.commits)
        _move(
            self._project.repository,
            moved.ref,
            moved.before,
            moved.after,
            f"{self._run_id} applied, {count} {'commit' if count == 1 else 'commits'}",
        )

    def _with_files(self, moved: Moved, changes: Sequence[TreeChange]) -> Moved:
        project = self._project
        files = list(self._as_files(changes))
        self._refuse_unclean(files, changes)
        self._take_objects(moved.before, moved.after)
        missing = [one for one in (_still_to_write(project.files, one) for one in files) if one is not None]
        done = apply_changes(project.files, project.blobs, missing, protected=project.protected)
        try:
            if done.error is not None:
                raise self._no(done.error.message.rstrip("."))
            if done.conflicts:
                raise self._no(f"{_some(done.conflicts)} changed just now, or cannot be written")
            _put_in_index(project.repository, [(one.path, one.new_mode, one.new) for one in changes])
            try:
                self._move(moved)
            except GitFailed:
                # Where somebody else has done the same just now, the index is as it is to be.
                if self._git.commit_at(moved.ref) != moved.after:
                    _put_in_index(project.repository, [(one.path, one.old_mode, one.old) for one in changes])
                raise
        except (CommitsRefused, GitFailed):
            for one in in_order_back(done.written):
                put_back(project.files, project.blobs, one, protected=project.protected)
            raise
        return replace(moved, written=done.written)

    def _as_files(self, changes: Sequence[TreeChange]) -> Iterator[FileChange]:
        ids = {name for one in changes for name, mode in ((one.old, one.old_mode), (one.new, one.new_mode)) if mode}
        git, hashes = self._place.git, dict[str, tuple[str, bytes]]()
        kept = {one.new for one in changes if one.new_mode}
        for name, content in git.contents(git.sizes(sorted(ids))):
            is_new = name in kept
            hashes[name] = (self._project.blobs.hold(content) if is_new else _sha256(content), content[:4096])
        nothing = ("", b"")
        for one in changes:
            old = hashes.get(one.old, nothing) if one.old_mode else nothing
            new = hashes.get(one.new, nothing) if one.new_mode else nothing
            status: ChangeStatus = "deleted" if not one.new_mode else "modified" if one.old_mode else "added"
            target = os.fsdecode(new[1]) if one.new_mode == LINK else ""
            yield FileChange(
                one.path,
                status,
                "link" if one.new_mode == LINK else "file",
                mode=one.new_mode & 0o777,
                old_sha256=link_hash(os.fsdecode(old[1])) if one.old_mode == LINK else old[0],
                new_sha256=link_hash(target) if target else new[0],
                target=target,
            )

    def _refuse_unclean(self, files: Sequence[FileChange], changes: Sequence[TreeChange]) -> None:
        """Say no where a file, or its line in the index, is neither what it was nor what it is to be."""
        project = self._project
        protection = Protection(project.files, present(files), project.protected)
        if never := [one.path for one in files if _is_never_written(protection, one)]:
            raise self._no(f"they change {_some(never)}, which no run ever changes in the project")
        index = _index(project.repository)
        unclean = [
            one.path
            for one, change in zip(files, changes, strict=True)
            if _now(project.files, one.path) not in (one.old_sha256, one.new_sha256)
            or index.get(one.path) not in (_line(change.old_mode, change.old), _line(change.new_mode, change.new))
        ]
        if unclean:
            raise self._no(f"{_some(unclean)} has changes of yours that are not committed")


def take_back(project: Project, name: str, moved: Moved, run_id: str) -> tuple[str, ...]:
    """Return the ref to where it was, with the files; the paths whose files are as they were. Blocks.

    Raises:
        CannotUndo: the ref or a file is not what applying left any more. Nothing was written.
    """
    with _turn(project.repository):
        return _taken_back(project, name, moved, run_id)


@contextmanager
def _turn(repository: Repository) -> Iterator[None]:
    """One at a time: two that write the same files would each take back what the other one has written."""
    descriptor = os.open(repository.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _taken_back(project: Project, name: str, moved: Moved, run_id: str) -> tuple[str, ...]:
    repository = project.repository
    current = _current(repository)
    try:
        if repository.git.commit_at(moved.ref) != moved.after:
            raise CannotUndo(name or "HEAD", "the branch has moved since")
        if not moved.checked_out and moved.ref == current:
            raise CannotUndo(name, "the branch is checked out by now")
        message = f"{run_id} taken back"
        if not moved.checked_out or moved.ref != current:
            _move(repository, moved.ref, moved.after, moved.before, message)
            return ()
        # One that a person has taken back by itself is as it was.
        wrote = [
            one
            for one in moved.written
            if one.before_sha256 == one.after_sha256 or _now(project.files, one.path) != one.before_sha256
        ]
        for path, why in stuck(project.files, project.blobs, wrote, protected=project.protected).items():
            raise CannotUndo(path, why)
        changes = repository.git.differs(moved.before, moved.after)
        index = _index(repository)
        if staged := [one.path for one in changes if index.get(one.path) != _line(one.new_mode, one.new)]:
            raise CannotUndo(staged[0], CHANGED_SINCE)
        _move(repository, moved.ref, moved.after, moved.before, message)
        _put_in_index(repository, [(one.path, one.old_mode, one.old) for one in changes])
    except GitFailed as error:
        raise CannotUndo(name or "HEAD", f"git says “{error}”") from error
    for one in in_order_back(wrote):
        put_back(project.files, project.blobs, one, protected=project.protected)
    return tuple(one.path for one in moved.written)


def _current(repository: Repository) -> str:
    """What is checked out: a branch, which may have no commit yet, or `HEAD`."""
    return repository.git.said("symbolic-ref", "-q", "HEAD") or "HEAD"


def _move(repository: Repository, ref: str, before: str, after: str, message: str) -> None:
    nothing = "0" * (64 if repository.hashes == "sha256" else 40)
    if not after:
        repository.git.run("update-ref", "--no-deref", "-d", ref, before)
        return
    how = ("--no-deref", "--create-reflog", "-m", f"kagura: {message}")
    repository.git.run("update-ref", *how, ref, after, before or nothing)


def _on_top(told: bytes, tree: str, parent: str) -> bytes:
    """A commit with another tree and parent, and without what signed it."""
    head, _, message = told.partition(b"\n\n")
    kept = [line for line in head.split(b"\n") if line.startswith((b"author ", b"committer ", b"encoding "))]
    return b"\n".join([f"tree {tree}".encode(), f"parent {parent}".encode(), *kept, b"", message])


def _put_in_index(repository: Repository, lines: Sequence[tuple[str, int, str]]) -> None:
    # What goes first makes room for a file where a folder was, and the other way round.
    told = (f"{mode:o} {name}\t{path}" for path, mode, name in sorted(lines, key=lambda line: line[1] != 0))
    repository.git.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(f"{one}\0" for one in told)))


def _index(repository: Repository) -> Mapping[str, str]:
    """The line of each file in the index, without its path."""
    found: dict[str, str] = {}
    for one in os.fsdecode(repository.git.run("ls-files", "-s", "-z")).split("\0"):
        line, _, path = one.partition("\t")
        found[path] = found[path] + line if path in found else line
    return found


def _line(mode: int, name: str) -> str | None:
    return f"{mode:o} {name} 0" if mode else None


def _now(files: ProjectFiles, path: str) -> str:
    try:
        state = files.state(path)
    except (OSError, UnsafePath):
        return "?"
    return "?" if state.kind == "other" else state.sha256


def _still_to_write(files: ProjectFiles, one: FileChange) -> FileChange | None:
    """The change; None where all of it is in the project, and what is left of it where only the mode differs."""
    now = files.state(one.path)
    if now.sha256 != one.new_sha256:
        return one
    is_so = now.kind != "file" or bool(now.mode & 0o100) == bool(one.mode & 0o100)
    return None if is_so else replace(one, old_sha256=now.sha256)


def _is_never_written(protection: Protection, one: FileChange) -> bool:
    if one.kind == "link" and one.status != "deleted" and protection.refuses_link(one.path, one.target):
        return True
    return protection.covers(one.path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"


__all__ = ["Project", "Written", "apply_commits", "take_back"]
