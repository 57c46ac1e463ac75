"""Which paths of a project no change from a box may touch, judged from the path, the project and its other changes.

Protected is what makes a program of the host run something: what git, direnv and others read before they act, whole
environments of Python, and whatever a policy names. So is a path that cannot be shown on one line.

What is not protected reaches the project here: each file whole or not at all, and never over something newer.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kagura_kernel.domain.errors import WorkspaceUnreadable
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.names import folded, folded_path, has_control, is_below, is_protected_name
from kagura_kernel.membrane.project import Changed, ProjectFiles, UnsafePath, split_path

_MAX_LINKS = 40
_MAX_DEPTH = 64
_MAX_TARGET = 4096


def landing(path: str, target: str) -> list[str] | None:
    """The components, from the project's root, that a link points to; None when it may lead out.

    Only a relative target is accepted whose `..` all stand at its beginning and are no more than there are directories
    above the link. Then the way is the same whether a component turns out to be a directory or a link that is itself
    accepted, and it cannot lead out in either case.
    """
    if not target or target.startswith("/") or len(target) > _MAX_TARGET or "\0" in target or has_control(target):
        return None
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    above = path.split("/")[:-1]
    if ups > len(above) or ".." in steps[ups:]:
        return None
    return above[: len(above) - ups] + steps[ups:]


def stays_inside(path: str, target: str, links_at: Callable[[str], Iterable[str]]) -> bool:
    """Whether a link leads to a place in the project by way of directories only.

    Args:
        path: Where the link is to stand.
        target: Where it points.
        links_at: The targets of the links that stand, or are to stand, at a path; none for everything else.
    """
    waiting = [(path, target)]
    known = set(waiting)
    while waiting:
        where, points_to = waiting.pop()
        parts = landing(where, points_to)
        if parts is None or len(parts) > _MAX_DEPTH or len(known) > _MAX_LINKS:
            return False
        for depth in range(1, len(parts)):
            if any(True for _ in links_at("/".join(parts[:depth]))):
                return False
        end = "/".join(parts)
        further = [(end, onward) for onward in (links_at(end) if end else ()) if (end, onward) not in known]
        known.update(further)
        waiting.extend(further)
    return True


# An environment says so itself: the first is venv's file, the second conda's directory.
_ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})
# Where the project's root is itself an environment, these are the environment's and the rest is the project's.
_OF_ENVIRONMENT = frozenset({"bin", "conda-meta", "etc", "include", "lib", "lib64", "pyvenv.cfg", "scripts", "share"})
# A directory that holds the file and one of the others is a repository to git, without any `.git`.
_HEAD = "HEAD"
_OF_REPOSITORY = frozenset({"objects", "refs", "commondir"})
_FILES = frozenset({"pyvenv.cfg", _HEAD})
_MARKERS = _ENVIRONMENT | _OF_REPOSITORY | {_HEAD}
_FOLDED = {folded(name): name for name in _MARKERS}


class _Change(Protocol):
    """As much of a change as matters here; a box tells it in one type, the journal in another."""

    @property
    def path(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...


class GitRules(Protocol):
    """What git reads and runs of a project, by itself or for somebody who works there."""

    @property
    def held(self) -> tuple[str, ...]:
        """Paths below the project's root that stay as they are, each as a whole."""
        ...

    @property
    def starter(self) -> str:
        """What may run any other file of the project, in a few words; empty where nothing does."""
        ...

    @property
    def packages(self) -> frozenset[str]:
        """Folders below the root that are packages by what git follows."""
        ...

    def finish(self) -> None:
        """Make all of it known, where only what a start needs was looked for; may block."""
        ...

    def held_in(self, folder: str) -> tuple[str, ...]:
        """Further paths that stay as they are, for a repository in a folder below the root; may block."""
        ...


class Protection:
    """Answers for one project and one list of changes.

    Args:
        project: The project on the host.
        present: The paths that the changes leave in place, with the target of each that is a link.
        subpaths: Paths below the root that a policy protects, with everything below them.
        held_in: A folder that is a repository of its own to further such paths; is asked when a change lies below it.
    """

    def __init__(
        self,
        project: ProjectFiles,
        present: Mapping[str, str],
        subpaths: Iterable[str] = (),
        held_in: Callable[[str], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self._project = project
        self._subpaths = tuple(subpaths)
        self._held_in = held_in
        self._links: dict[str, list[str]] = {}
        self._proposed: dict[str, set[str]] = {}
        self._found: dict[str, frozenset[str]] = {}
        for path, target in present.items():
            self._propose(path)
            if target:
                self._links.setdefault(folded_path(path), []).append(target)

    def covers(self, path: str) -> bool:
        """Whether the path may not be changed at all."""
        if has_control(path) or is_protected_name(path) or self._look(path):
            return True
        if any(is_below(path, root) for root in self._subpaths):
            return True
        parts = path.split("/")
        return any(self._guards("/".join(parts[:depth]), parts[0]) for depth in range(len(parts)))

    def refuses_link(self, path: str, target: str) -> bool:
        """Whether a link may not stand there, because it could lead out of the project or to what is protected.

        Nor may it where it would bring something else to a protected path below it.
        """
        hides = any(is_below(root, path) for root in self._subpaths)
        return hides or is_protected_name(target) or not stays_inside(path, target, self._links_at)

    def _links_at(self, path: str) -> Iterator[str]:
        yield from self._links.get(folded_path(path), ())
        standing = self._project.target(path)
        if standing is not None:
            yield standing

    def _propose(self, path: str) -> None:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            name = _FOLDED.get(folded(part), "")
            if name and (name not in _FILES or depth == len(parts) - 1):
                self._proposed.setdefault(folded_path("/".join(parts[:depth])), set()).add(name)

    def _look(self, path: str) -> bool:
        """Note what the directories on the way hold; whether the way ends at a link to an environment, or at one."""
        parts = path.split("/")
        for directory, handle in self._project.directories(path):
            if directory not in self._found:
                self._found[directory] = frozenset(name for name in _MARKERS if _is_there(handle, name))
                if directory and _is_there(handle, ".git"):
                    self._subpaths += self._held_in(directory)
            following = parts[directory.count("/") + 1 if directory else 0]
            if any(_leads_to(handle, f"{following}/{name}") for name in _ENVIRONMENT):
                return True
        return False

    def _guards(self, directory: str, first: str) -> bool:
        names = self._found.get(directory, frozenset()) | self._proposed.get(folded_path(directory), set())
        if _HEAD in names and names & _OF_REPOSITORY:
            return True
        return bool(names & _ENVIRONMENT) and (directory != "" or folded(first) in _OF_ENVIRONMENT)


def _is_there(directory: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return name not in _FILES or not stat.S_ISDIR(found.st_mode)


def _leads_to(directory: int, path: str) -> bool:
    # Followed on purpose: the project's own link to an environment elsewhere is the way programs take to it.
    try:
        os.stat(path, dir_fd=directory)
    except OSError:
        return False
    return True


def present(changes: Iterable[_Change]) -> dict[str, str]:
    """What changes leave in place, as `Protection` takes it."""
    return {c.path: c.target if c.kind == "link" else "" for c in changes if c.status != "deleted"}


NEW_FILE = 0o644
EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True)
class WrittenBack:
    """What became of some changes, by path."""

    applied: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def apply_changes(
    project: ProjectFiles, blobs: BlobStore, changes: Sequence[FileChange], *, protected: Sequence[str] = ()
) -> WrittenBack:
    """Put changes into the project, file by file, in the order given.

    A file that no longer is what the change was collected against, that is protected, or that cannot be reached
    without following a link, is left alone and told as a conflict. So is one whose new content is gone, and a link that
    could lead out of the project. What is protected is judged anew, from the project as it is now.

    Args:
        project: The project on the host.
        blobs: Where the new contents are.
        changes: What to apply.
        protected: Paths below the root that a policy protects, beside those that are always protected.

    Raises:
        WorkspaceUnreadable: the disk is full or read-only; what was applied before stays.
    """
    applied: list[str] = []
    conflicts: list[str] = []
    protection = Protection(project, present(changes), protected)
    for change in changes:
        (applied if _apply_one(project, blobs, change, protection) else conflicts).append(change.path)
    return WrittenBack(tuple(applied), tuple(conflicts))


def _apply_one(project: ProjectFiles, blobs: BlobStore, change: FileChange, protection: Protection) -> bool:
    if change.state in ("protected", "conflict"):
        return False
    try:
        split_path(change.path)
        if protection.covers(change.path):
            return False
        is_link = change.kind == "link" and change.status != "deleted"
        if is_link and protection.refuses_link(change.path, change.target):
            return False
        return _bring(project, blobs, change)
    except (Changed, UnsafePath, FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise WorkspaceUnreadable(change.path, error.strerror or "it cannot be written") from error


def _bring(project: ProjectFiles, blobs: BlobStore, change: FileChange) -> bool:
    now = project.state(change.path)
    if now.kind == "other" or now.sha256 != change.old_sha256:
        return False
    if change.status == "deleted":
        project.remove(change.path, expected=now.sha256)
    elif change.kind == "link":
        project.link(change.path, change.target, expected=now.sha256)
    else:
        content = blobs.get(change.new_sha256)
        base = now.mode if now.kind == "file" else NEW_FILE
        mode = base | EXECUTABLE if change.mode & 0o100 else base & ~EXECUTABLE
        project.replace(change.path, content, mode, expected=now.sha256)
    return True
