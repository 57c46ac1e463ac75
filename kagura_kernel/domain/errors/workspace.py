"""The project cannot be read, shown or written."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.errors.base import KaguraError


class WorkspaceError(KaguraError):
    """The project cannot be shown to a box, or changed from one."""

    code = "ERR_WORKSPACE"


class WorkspaceUnreadable(WorkspaceError):
    """The project root is missing, is no directory, or may not be read."""

    code = "ERR_WORKSPACE_UNREADABLE"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"The project {path} cannot be used: {why}.")
        self.path = path
        self.why = why


class PathNotShown(WorkspaceError):
    """A file or directory of this machine cannot be shown to a box as it is."""

    code = "ERR_PATH_NOT_SHOWN"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be shown to a box: {why}.")
        self.path = path
        self.why = why


class WorkspaceRefused(WorkspaceError):
    """The project root is a place that is never shown to a box."""

    code = "ERR_WORKSPACE_REFUSED"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"The project {path} is not shown to a box: {why}. Start the kernel in the project's own folder."
        )
        self.path = path
        self.why = why


class WorkspaceTooLarge(WorkspaceError):
    """The project does not fit into this back-end's workspace."""

    code = "ERR_WORKSPACE_TOO_LARGE"

    def __init__(self, path: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{path} is more than the {limit_bytes / 2**20:.0f} MiB that this back-end copies for a run. "
            "Use `--box bubblewrap`, which copies nothing of the project, or start from a smaller folder."
        )
        self.path = path
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ChangesIncomplete(WorkspaceError):
    """Not all that a run changed could be brought out of its box, which is gone by now."""

    code = "ERR_CHANGES_INCOMPLETE"

    def __init__(self, run_id: str, taken: int, left: int, why: str) -> None:
        counted = (
            f"{left:,} of {taken + left:,} changed files were left in it"
            if left
            else "what it had not handed over is lost"
        )
        super().__init__(
            f"Not all that {run_id} changed could be brought out of its box: {why.rstrip('.')}. The box is gone, and "
            f"{counted}. `kagura-kernel changes {run_id}` names them, and keeps those that were brought out."
        )
        self.run_id = run_id
        self.taken = taken
        self.left = left
        self.why = why


class ChangeConflict(WorkspaceError):
    """Files of the project changed while the run went on; nothing of theirs was overwritten."""

    code = "ERR_CHANGE_CONFLICT"

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"{len(paths)} file(s) changed in the project since the run began and were left alone: {', '.join(paths)}. "
            "Look at the diff and apply by hand, or run the cell again."
        )
        self.paths = tuple(paths)
