"""Changes reach the project: each file whole or not at all, and never over something newer."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.errors import WorkspaceUnreadable
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import Changed, ProjectFiles, UnsafePath, split_path
from kagura_kernel.membrane.protection import Protection, present

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
