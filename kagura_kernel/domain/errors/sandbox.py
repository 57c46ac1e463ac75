"""A box could not do what was asked."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.errors.base import KaguraError, shorten


class HostError(KaguraError):
    """A command on the host, approved by a person, went wrong."""

    code = "ERR_HOST"


class HostCommandTimeout(HostError):
    """A host command ran longer than its limit; its whole process group is gone."""

    code = "ERR_HOST_COMMAND_TIMEOUT"

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} ran longer than {seconds:g} s and was stopped with all its children.")
        self.command = command
        self.seconds = seconds


class HostIdleTimeout(HostError):
    """A host command printed nothing for longer than the idle limit."""

    code = "ERR_HOST_IDLE_TIMEOUT"

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} printed nothing for {seconds:g} s and was stopped with all its children.")
        self.command = command
        self.seconds = seconds


class VariableError(KaguraError):
    """A variable did not cross."""

    code = "ERR_VARIABLE"

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class VariableRefused(VariableError):
    """It is of a kind, or of a size, that does not travel."""

    code = "ERR_VARIABLE_REFUSED"


class VariableMissing(VariableError):
    """It was asked for and is not there."""

    code = "ERR_VARIABLE_MISSING"


class WorkspaceError(KaguraError):
    """The project cannot be shown to a box, or changed from one."""

    code = "ERR_WORKSPACE"


class WorkspaceUnreadable(WorkspaceError):
    """The project root is missing, is no directory, or may not be read, or one of its files cannot be written."""

    code = "ERR_WORKSPACE_UNREADABLE"

    def __init__(self, path: str, why: str, *, writing: bool = False) -> None:
        said = f"{path} cannot be written into the project: {why}. It is as it was; mend that, and do the same again."
        super().__init__(said if writing else f"The project {path} cannot be used: {why}.")
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
            f"The project {path} is not shown to a box: {why}. Start in the project's own folder, or go there before: "
            "`%cd ~/FOLDER` in a notebook, `cd ~/FOLDER` in a terminal."
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
        files = "1 file was" if len(paths) == 1 else f"{len(paths)} files were"
        super().__init__(
            f"{files} changed in the project since the run began and left alone: {', '.join(paths)}. "
            "`changes RUN` shows both sides. `discard RUN PATH` keeps the project's, and `apply RUN PATH` takes the "
            "run's with `--conflict theirs`, or both with `--conflict merge`."
        )
        self.paths = tuple(paths)


class MergeOverlaps(WorkspaceError):
    """A person and a run have changed the same lines; nothing was written."""

    code = "ERR_MERGE_OVERLAPS"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was changed at the same lines in the project and by the run; nothing was written. Take one side, "
            "or let both stand there between markers: `apply RUN PATH --conflict markers`."
        )
        self.path = path


class CommitsRefused(WorkspaceError):
    """The commits of a run cannot be brought into the project's repository; nothing was written."""

    code = "ERR_COMMITS"

    def __init__(self, name: str, why: str) -> None:
        what = f"The commits of branch {name}" if name else "The commits on no branch"
        super().__init__(
            f"{what} were not applied: {why}. Nothing was written. `apply RUN --commits --branch NEW` makes a branch "
            "of them and touches no file; `apply RUN` brings in the files without the commits."
        )
        self.name = name
        self.why = why


class CannotUndo(WorkspaceError):
    """What was applied cannot be taken back; nothing was written."""

    code = "ERR_CANNOT_UNDO"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} cannot be taken back: {why}. Nothing was written. Bring it to what you want by hand, or with your "
            "version control."
        )
        self.path = path
        self.why = why


class NotebookUnwritable(WorkspaceError):
    """A notebook cannot be changed, as its file or on screen."""

    code = "ERR_NOTEBOOK_UNWRITABLE"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"The notebook {path} cannot be changed: {why}. See to that and apply again; what it has already is not "
            "put in twice."
        )
        self.path = path
        self.why = why


class SandboxError(KaguraError):
    """A box could not do what was asked."""

    code = "ERR_SANDBOX"


class SandboxUnsupported(SandboxError):
    """This back-end cannot do that at all."""

    code = "ERR_SANDBOX_UNSUPPORTED"

    def __init__(self, backend: str, what: str) -> None:
        super().__init__(f"The {backend} back-end does not support {what}.")
        self.backend = backend
        self.what = what


class SandboxUnavailable(SandboxError):
    """No box can be had, or the one there was is gone. Never shown to a model as output."""

    code = "ERR_SANDBOX_UNAVAILABLE"

    def __init__(self, reason: str, install: str | None = None) -> None:
        super().__init__(f"No sandbox is available: {reason}." + (f" {install}" if install else ""))
        self.reason = reason
        self.install = install


class SandboxDied(SandboxUnavailable):
    """A running box ended although nobody closed it; `lost` where its machine, or the way there, is gone."""

    code = "ERR_SANDBOX_DIED"

    def __init__(self, box_id: str, why: str, *, lost: bool = False) -> None:
        KaguraError.__init__(self, f"Box {box_id} died: {why}. Its commands were stopped with it.")
        self.reason = why
        self.install = None
        self.box_id = box_id
        self.lost = lost


class SandboxProtocolError(SandboxError):
    """What came out of the box is not the protocol; the box was closed."""

    code = "ERR_SANDBOX_PROTOCOL"

    def __init__(self, box_id: str, why: str) -> None:
        super().__init__(f"Box {box_id} broke the protocol and was closed: {why}.")
        self.box_id = box_id
        self.why = why


class IsolationTooWeak(SandboxError):
    """A shared deployment asks for stronger walls than this back-end has."""

    code = "ERR_ISOLATION_TOO_WEAK"

    def __init__(self, backend: str, has: str, needs: str) -> None:
        super().__init__(
            f"This deployment is shared, so boxes need {needs} isolation; {backend} gives {has}. "
            "Choose a back-end of that class and no setting that goes past it, or unset the shared deployment setting "
            "on a machine of your own."
        )
        self.backend = backend
        self.has = has
        self.needs = needs


class CommandTimeout(SandboxError):
    """Shared text of the four limits; never raised itself."""

    def __init__(self, command: str, seconds: float, *, goes_on: bool = False, name: str = "") -> None:
        ended = "interrupted" if goes_on else "stopped with all its children"
        super().__init__(f"{name or shorten(command)} {self.what_happened(seconds)} and was {ended}.")
        self.command = command
        self.seconds = seconds
        self.goes_on = goes_on  # Whether the program that it was a call of is still there

    def what_happened(self, seconds: float) -> str:
        """The middle of the message."""
        return f"ran longer than {seconds:g} s"


class SandboxCommandTimeout(CommandTimeout):
    """A command in a box ran longer than its limit; its whole process group is gone."""

    code = "ERR_SANDBOX_COMMAND_TIMEOUT"


class SandboxIdleTimeout(CommandTimeout):
    """A command in a box printed nothing for longer than the idle limit."""

    code = "ERR_SANDBOX_IDLE_TIMEOUT"

    def what_happened(self, seconds: float) -> str:
        """The middle of the message."""
        return f"printed nothing for {seconds:g} s"


class BoxFileError(SandboxError):
    """A file in a box could not be read or written; `reason` is the system's word (`ENOENT`, …)."""

    code = "ERR_BOX_FILE"

    def __init__(self, path: str, reason: str, text: str) -> None:
        super().__init__(f"{path}: {text} ({reason}).")
        self.path = path
        self.reason = reason


class ImageBuildFailed(SandboxError):
    """An image could not be built; the name stays with the image that had it."""

    code = "ERR_IMAGE_BUILD"

    def __init__(self, image: str, reason: str, advice: str = "") -> None:
        super().__init__(f"The image {image!r} was not built: {reason}." + (f" {advice}" if advice else ""))
        self.image = image
        self.reason = reason
        self.advice = advice
