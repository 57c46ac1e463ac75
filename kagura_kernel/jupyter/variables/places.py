"""Where a path leads on the other side of the wall: only what lies in the project is the same file in both."""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath

from kagura_kernel.runs.box_runner.crossing import CannotCross
from kagura_kernel.sandbox.backend import WORKSPACE


def path_in_box(path: PurePath, root: Path) -> str:
    """A path of the project as the box has it.

    Raises:
        CannotCross: there is nothing there, or it lies outside of the project.
    """
    there = Path(path).resolve()
    if not there.exists():
        raise CannotCross(f"there is no file {path}")
    if not there.is_relative_to(root):
        raise CannotCross(
            f"{path} lies outside of the project, and a box sees the project alone. Copy the file into the project, or "
            "pass what it holds: `-i NAME=Path(…).read_bytes()`"
        )
    return str(PurePosixPath(WORKSPACE, *there.relative_to(root).parts))


def path_from_box(path: str, root: Path) -> Path:
    """A path of a box's workspace as the project has it; a relative one stays relative to the project.

    Raises:
        CannotCross: it leads out of the workspace.
    """
    place = PurePosixPath(path)
    if "\0" in path or ".." in place.parts:
        raise CannotCross("it is a path that leads out of the workspace")
    if not place.is_absolute():
        return Path(*place.parts)
    if not place.is_relative_to(WORKSPACE):
        raise CannotCross(f"it is a path outside of {WORKSPACE}, which is gone with the box: write the file there")
    return root.joinpath(*place.relative_to(WORKSPACE).parts)
