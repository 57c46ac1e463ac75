"""Which paths file tools take. Pure."""

from __future__ import annotations

import posixpath

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.kit import KIT_DIR

SCRATCH = "/tmp"  # noqa: S108 - the box's own, private scratch space


def workspace_path(root: str, path: str) -> str:
    """A path as the box's files take it: relative to the workspace, or absolute below its scratch space.

    Raises:
        BoxFileError: it lies outside of both.
    """
    if "\0" in path:
        raise BoxFileError(path.replace("\0", "\\0"), "EINVAL", "a path cannot hold NUL")
    absolute = posixpath.normpath(posixpath.join(root, path))
    if absolute.startswith("//"):
        absolute = absolute[1:]
    if absolute == root:
        return "."
    if absolute.startswith(root.rstrip("/") + "/"):
        return absolute[len(root.rstrip("/")) + 1 :]
    if absolute == SCRATCH or absolute.startswith(SCRATCH + "/"):
        return absolute
    raise BoxFileError(path, "EACCES", f"lies outside of the workspace; file tools see {root} and {SCRATCH}")


def readable_path(root: str, path: str) -> str:
    """A path as the box's files take it for reading: like `workspace_path`, or absolute in the kit.

    Raises:
        BoxFileError: it lies outside of all three.
    """
    absolute = posixpath.normpath(posixpath.join(root, path)) if "\0" not in path else ""
    if absolute == KIT_DIR or absolute.startswith(KIT_DIR + "/"):
        return absolute
    return workspace_path(root, path)
