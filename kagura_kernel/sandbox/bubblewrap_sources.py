"""What a bubblewrap box is made of on the host: whether it can be shown, and whether it is still what was shown."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from kagura_kernel.domain.errors import WorkspaceUnreadable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.further import identities
from kagura_kernel.sandbox.pythonenv import PythonView


def check_workspace(workspace: Path | None) -> None:
    """Say no to a project that cannot be shown, before anything is started.

    Raises:
        WorkspaceUnreadable: it is missing, no directory, or may not be read.
    """
    if workspace is None:
        return
    if not workspace.is_dir():
        raise WorkspaceUnreadable(
            str(workspace), "it is not a directory" if workspace.exists() else "it does not exist"
        )
    if not os.access(workspace, os.R_OK | os.X_OK):
        raise WorkspaceUnreadable(str(workspace), "it may not be read")


def as_it_is(spec: BoxSpec, view: PythonView) -> Callable[[], bool]:
    """What tells later whether a box that is made now would still be made of the same.

    Of the project's directory with its protected parts, of further directories, and of the packages below a layer.
    """
    now = _fingerprint(spec, view)
    return lambda: _fingerprint(spec, view) == now


def _fingerprint(spec: BoxSpec, view: PythonView) -> tuple[object, ...]:
    found: list[object] = [*identities(spec)]
    if spec.policy.network_access:
        # What lies below a layer must not change; an installation on the host would.
        for place in view.packages:
            with contextlib.suppress(OSError):
                found.append((place, os.stat(place).st_mtime_ns))  # noqa: PTH116 - a path of the view is text
    if spec.workspace is None:
        return tuple(found)
    for path in (spec.workspace, *(spec.workspace / part for part in spec.policy.read_only_subpaths)):
        try:
            status = path.lstat()
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
