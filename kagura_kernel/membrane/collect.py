"""From a box's workspace to a list of changes that a person can read and decide on.

What a box says about its files is the box's word: paths are checked, contents are taken as they come and named by
their hash here, sizes are bounded here. Nothing of the project is touched.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from kagura_kernel.domain.changes import ChangeState, ChangeStatus, FileChange
from kagura_kernel.domain.errors import BoxFileError, WorkspaceTooLarge
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.difference import MAX_DIFF_INPUT, is_text, unified_diff
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath, link_hash, split_path
from kagura_kernel.sandbox.backend import Box, BoxChange

_PIECE = 1 << 20


class Collector:
    """Collects one run's changes; may be asked again as the run goes on.

    Args:
        project: The project on the host.
        blobs: Where new contents go.
        since: When the run began, seconds since 1970: what changed in the project later than that is a conflict.
        protected: Relative paths that never change.
        limit_bytes: How much all new contents may weigh together.
    """

    def __init__(
        self, project: ProjectFiles, blobs: BlobStore, *, since: float, protected: tuple[str, ...], limit_bytes: int
    ) -> None:
        self._project = project
        self._blobs = blobs
        self._since = since
        self._protected = protected
        self._limit = limit_bytes

    async def collect(self, box: Box, ours: Mapping[str, str]) -> list[FileChange]:
        """What differs now, sorted by path.

        Args:
            box: A box that is still running.
            ours: Hash of each path that this run has already put into the project, so that it is no conflict.

        Raises:
            WorkspaceTooLarge: the new contents weigh more than the limit.
            SandboxUnavailable: the box is gone, and its workspace with it.
        """
        changes: list[FileChange] = []
        weight = 0
        for told in await box.changes():
            try:
                split_path(told.path)
            except UnsafePath:
                continue
            weight += told.size if told.status != "deleted" else 0
            if weight > self._limit:
                raise WorkspaceTooLarge(told.path, weight, self._limit)
            change = await self._one(box, told, ours)
            if change is not None:
                changes.append(change)
        return changes

    async def _one(self, box: Box, told: BoxChange, ours: Mapping[str, str]) -> FileChange | None:
        old = await asyncio.to_thread(self._old_state, told.path)
        if told.status == "deleted":
            if not old.kind:
                return None
            change = FileChange(told.path, "deleted", "link" if old.kind == "link" else "file", old_sha256=old.sha256)
            new: bytes | None = b""
        else:
            sha256, size, new = await self._take(box, told)
            mode = told.mode & 0o777
            if sha256 == old.sha256 and (told.kind == "link" or _executable(mode) == _executable(old.mode)):
                return None
            status: ChangeStatus = "modified" if old.kind else "added"
            change = FileChange(told.path, status, told.kind, size, mode, old.sha256, sha256, target=told.target)
        change = replace(change, state=self._verdict(told, old, ours))
        return _with_diff(change, old, new)

    def _old_state(self, path: str) -> HostState:
        try:
            return self._project.state(path, keep=MAX_DIFF_INPUT)
        except OSError:
            # Something unreadable or unwalkable stands there; it is in the way, and that is all we need to know.
            return HostState(kind="other", changed=float("inf"))

    async def _take(self, box: Box, told: BoxChange) -> tuple[str, int, bytes | None]:
        if told.kind == "link":
            return link_hash(told.target), len(told.target), os.fsencode(told.target)
        kept = bytearray()

        async def pieces() -> AsyncIterator[bytes]:
            offset = 0
            while offset <= self._limit:
                piece = await box.files.read(told.path, offset=offset, limit=_PIECE)
                if not piece:
                    return
                if len(kept) <= MAX_DIFF_INPUT:
                    kept.extend(piece[: MAX_DIFF_INPUT + 1 - len(kept)])
                offset += len(piece)
                yield piece
            raise BoxFileError(told.path, "EFBIG", "it grew while it was read")

        sha256, size = await self._blobs.put(pieces())
        return sha256, size, bytes(kept) if len(kept) <= MAX_DIFF_INPUT else None

    def _verdict(self, told: BoxChange, old: HostState, ours: Mapping[str, str]) -> ChangeState:
        if self._is_protected(told) or old.kind == "other":
            return "protected"
        if old.kind and old.changed > self._since and ours.get(told.path) != old.sha256:
            return "conflict"
        return "proposed"

    def _is_protected(self, told: BoxChange) -> bool:
        if any(told.path == root or told.path.startswith(f"{root}/") for root in self._protected):
            return True
        return told.kind == "link" and told.status != "deleted" and not _stays_inside(told.path, told.target)


def _executable(mode: int) -> bool:
    # Like git: of a file's permissions only this one is content; the rest follows the host's umask.
    return bool(mode & 0o100)


def _stays_inside(path: str, target: str) -> bool:
    if not target or target.startswith("/"):
        return False
    landed = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return landed != ".." and not landed.startswith("../")


def _with_diff(change: FileChange, old: HostState, new: bytes | None) -> FileChange:
    before = old.content if old.kind else b""
    if before is None or new is None or not is_text(before) or not is_text(new):
        return replace(change, binary=True)
    if change.kind == "link" or old.kind == "link":
        before, new = before + b"\n" if before else b"", new + b"\n" if new else b""
    return replace(change, diff=unified_diff(change.path, before, new))
