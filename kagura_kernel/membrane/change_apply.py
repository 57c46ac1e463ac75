"""Changes on their last step into the project, and back out of it: each file whole or not at all, never over newer."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from kagura_kernel.domain.errors import CannotUndo, JournalUnwritable, WorkspaceUnreadable
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.outcome import FileChange, Written
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import Changed, HostState, ProjectFiles, UnsafePath, split_path
from kagura_kernel.membrane.protection import Protection, present

OLD_HOLDS_LEASED = "… no diff is shown: the project's own file holds a leased credential\n"
"""The diff of a change to a file of the project that holds a live secret."""

MAX_KEPT = 64 * 2**20
"""Bytes of a file beyond which its old content is not kept when another takes its place."""

CHANGED_SINCE = "it has changed since it was applied"

_NEW_FILE = 0o666
"""Before the umask of this process, as for anything that a person makes."""
_EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True)
class WrittenBack:
    """What became of some changes, by path."""

    applied: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    error: WorkspaceUnreadable | None = None  # What ended it early: the disk is full or read-only
    written: tuple[Written, ...] = field(default=(), compare=False)  # What of it can be taken back


def apply_changes(
    project: ProjectFiles, blobs: BlobStore, changes: Sequence[FileChange], *, protected: Sequence[str] = ()
) -> WrittenBack:
    """Put changes into the project, file by file, in the order given.

    A file that no longer is what the change was collected against, that is protected, or that cannot be reached without
    following a link, is left alone and told as a conflict. So is one whose new content is gone, and a link that could
    lead out of the project. What is protected is judged anew, from the project as it is now. `protected` are paths
    below the root that a policy protects, beside those that are always protected. An error of the disk ends it, and is
    told beside what was applied before, which stays. What stood there before is kept, unless it is very large, or its
    difference was not shown since it holds a leased credential.
    """
    applied: list[str] = []
    conflicts: list[str] = []
    written: list[Written] = []
    error: WorkspaceUnreadable | None = None
    protection = Protection(project, present(changes), protected)
    for change in changes:
        try:
            before = _apply_one(project, blobs, change, protection)
        except WorkspaceUnreadable as found:
            error = found
            break
        (conflicts if before is None else applied).append(change.path)
        if before is not None and (one := _taken_note_of(blobs, change, before)) is not None:
            written.append(one)
    return WrittenBack(tuple(applied), tuple(conflicts), error, tuple(written))


def _taken_note_of(blobs: BlobStore, change: FileChange, before: HostState) -> Written | None:
    """What can be taken back; None where the content from before is not kept."""
    if before.kind == "file":
        if before.content is None or change.diff == OLD_HOLDS_LEASED:
            return None
        try:
            blobs.hold(before.content)
        except JournalUnwritable:
            return None
    target = os.fsdecode(before.content or b"") if before.kind == "link" else ""
    kind: Literal["", "file", "link"] = "link" if before.kind == "link" else "file" if before.kind else ""
    return Written(change.path, before.sha256, change.new_sha256, kind, before.mode, target, was=change.state)


def _apply_one(project: ProjectFiles, blobs: BlobStore, change: FileChange, protection: Protection) -> HostState | None:
    """What stood there before; None for a conflict."""
    if change.state in ("protected", "conflict"):
        return None
    try:
        split_path(change.path)
        if protection.covers(change.path):
            return None
        is_link = change.kind == "link" and change.status != "deleted"
        if is_link and protection.refuses_link(change.path, change.target):
            return None
        return _bring(project, blobs, change)
    except (Changed, UnsafePath, OSError) as error:
        _raise_disk_trouble(change.path, error)
        return None


def _raise_disk_trouble(path: str, error: Exception) -> None:
    """Return where the path is only other than expected; `WorkspaceUnreadable` for what is the disk's."""
    others = (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError)
    if isinstance(error, OSError) and not isinstance(error, others) and error.errno != errno.ELOOP:
        raise WorkspaceUnreadable(path, error.strerror or "it cannot be written", writing=True) from error


def _bring(project: ProjectFiles, blobs: BlobStore, change: FileChange) -> HostState | None:
    now = project.state(change.path, keep=MAX_KEPT)
    if now.kind == "other" or now.sha256 != change.old_sha256:
        return None
    if change.status == "deleted":
        project.remove(change.path, expected=now.sha256)
    elif change.kind == "link":
        project.link(change.path, change.target, expected=now.sha256)
    else:
        content = blobs.get(change.new_sha256)
        is_new = now.kind != "file"
        base = _NEW_FILE if is_new else now.mode
        mode = base | _EXECUTABLE if change.mode & 0o100 else base & ~_EXECUTABLE
        project.replace(change.path, content, mode, expected=now.sha256, is_masked=is_new)
    return now


def put_back(project: ProjectFiles, blobs: BlobStore, one: Written, *, protected: Sequence[str] = ()) -> None:
    """Bring back what the project had before a write, while it still has what was written.

    Raises:
        CannotUndo: it has something else by now, the path is protected, or the content is kept no more. Nothing was
            written.
        WorkspaceUnreadable: the disk is full or read-only.
    """
    try:
        why = _why_not_back(project, blobs, one, protected)
        if why:
            raise CannotUndo(one.path, why)
        if not one.kind:
            project.remove(one.path, expected=one.after_sha256)
        elif one.kind == "link":
            project.link(one.path, one.target, expected=one.after_sha256)
        else:
            project.replace(one.path, blobs.get(one.before_sha256), one.mode, expected=one.after_sha256)
    except (Changed, UnsafePath, OSError) as error:
        _raise_disk_trouble(one.path, error)
        raise CannotUndo(one.path, CHANGED_SINCE) from error


def in_order_back(writes: Iterable[Written]) -> list[Written]:
    """Writes in the order in which they are taken back: a file returns where a folder stood once that is empty."""
    return sorted(writes, key=lambda one: one.kind != "")


def stuck(
    project: ProjectFiles, blobs: BlobStore, writes: Sequence[Written], *, protected: Sequence[str] = ()
) -> dict[str, str]:
    """Of writes that are taken back together those that cannot be, by path, each with the reason in half a sentence."""
    going = {one.path for one in writes if not one.kind}
    reasons = {one.path: _why_not_back(project, blobs, one, protected, going) for one in writes}
    return {path: why for path, why in reasons.items() if why}


def _why_not_back(
    project: ProjectFiles, blobs: BlobStore, one: Written, protected: Sequence[str], going: Collection[str] = ()
) -> str:
    """Why a write cannot be taken back; empty where it can. `going` are paths of files that are removed before it."""
    try:
        split_path(one.path)
        if Protection(project, {one.path: one.target if one.kind == "link" else ""}, protected).covers(one.path):
            return "the path is protected"
        if one.kind and not one.after_sha256:
            blocking = next((path for path in project.in_the_way(one.path) if path not in going), "")
            if blocking:
                return CHANGED_SINCE if blocking == one.path else f"{blocking} stands there by now"
        else:
            now = project.state(one.path)
            if now.kind == "other" or now.sha256 != one.after_sha256:
                return CHANGED_SINCE
    except (OSError, UnsafePath):
        return CHANGED_SINCE
    if one.kind == "file" and not blobs.has(one.before_sha256):
        return "what it was before is kept no more"
    return ""
