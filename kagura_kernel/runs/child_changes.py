"""What a child changed, brought into the box of the run that it works for; the project is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.laying import lay_changes
from kagura_kernel.sandbox.backend import Box


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What became of a child's changes.

    Attributes:
        files: Paths that are in the parent's workspace now.
        conflicts: Paths that the parent, or another child, had changed meanwhile; left as they were there.
    """

    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def to_lay(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """Those changes that can be laid into another box: not what is protected, nor what was never taken."""
    return tuple(one for one in changes if one.state != "protected" and (_is_without_content(one) or one.new_sha256))


def _is_without_content(change: FileChange) -> bool:
    return change.status == "deleted" or change.kind == "link"


def child_delta(before: Sequence[FileChange], after: Sequence[FileChange]) -> tuple[list[FileChange], list[str]]:
    """What a child did beyond what it began with: its changes, and paths that it brought back to the project's state.

    Args:
        before: What its workspace began with beside the project.
        after: How its workspace differed from the project at its end.
    """
    began, ended = _by_path(before), _by_path(after)
    changed = [one for path, one in ended.items() if not _same(began.get(path), one)]
    return changed, [path for path in began if path not in ended]


async def take_over(
    box: Box,
    now: Sequence[FileChange],
    before: Sequence[FileChange],
    after: Sequence[FileChange],
    project: ProjectFiles,
    blobs: BlobStore,
) -> TakenOver:
    """Bring what a child did into its parent's box, but for what was changed there meanwhile.

    Args:
        box: The parent's.
        now: How the parent's workspace differs from the project now.
        before: How it did when the child began.
        after: How the child's did at its end.
        project: The project, for what the child has undone.
        blobs: Where contents are.

    Raises:
        BoxFileError: the box did not take a file.
        WorkspaceError: a content is not kept any more.
    """
    changed, undone = child_delta(before, to_lay(after))
    # What its end does not tell because it may not be shown was not undone.
    hidden = {one.path for one in after} - {one.path for one in to_lay(after)}
    wanted = [*changed, *[await _of_project(project, blobs, path) for path in undone if path not in hidden]]
    here, then = _by_path(now), _by_path(before)
    lying = [one for one in wanted if not _same(here.get(one.path), one)]
    free = [one for one in lying if _same(here.get(one.path), then.get(one.path))]
    await lay_changes(box, free, blobs)
    taken = {one.path for one in free}
    conflicts = tuple(sorted(one.path for one in lying if one.path not in taken))
    return TakenOver(tuple(sorted(one.path for one in wanted if one.path not in conflicts)), conflicts)


async def _of_project(project: ProjectFiles, blobs: BlobStore, path: str) -> FileChange:
    """The project's own state of a path, as a change that brings it back."""
    state = await asyncio.to_thread(project.state, path)
    if state.kind == "link":
        return FileChange(path, "modified", "link", target=project.target(path) or "", new_sha256=state.sha256)
    if state.kind != "file":
        return FileChange(path, "deleted")
    whole = await asyncio.to_thread(lambda: project.state(path, keep=state.size))
    sha256, size = await blobs.put(_once(whole.content or b""))
    return FileChange(path, "modified", size=size, mode=whole.mode & 0o777, new_sha256=sha256)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _by_path(changes: Iterable[FileChange]) -> Mapping[str, FileChange]:
    return {one.path: one for one in changes}


def _same(one: FileChange | None, other: FileChange | None) -> bool:
    """Whether two changes of a path come to the same; None is the project's own state."""
    if one is None or other is None:
        return one is other
    if "deleted" in (one.status, other.status):
        return one.status == other.status
    executable = bool(one.mode & 0o100), bool(other.mode & 0o100)
    return (one.kind, one.new_sha256, one.target) == (other.kind, other.new_sha256, other.target) and (
        one.kind == "link" or executable[0] == executable[1]
    )
