"""A box could not do what was asked."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError, shorten


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
    """A running box ended although nobody closed it."""

    code = "ERR_SANDBOX_DIED"

    def __init__(self, box_id: str, why: str) -> None:
        KaguraError.__init__(self, f"Box {box_id} died: {why}. Its commands were stopped with it.")
        self.reason = why
        self.install = None
        self.box_id = box_id


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
            "Choose a back-end of that class, or unset the shared deployment setting on a machine of your own."
        )
        self.backend = backend
        self.has = has
        self.needs = needs


class CommandTimeout(SandboxError):
    """Shared text of the four limits; never raised itself."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} {self.what_happened(seconds)} and was stopped with all its children.")
        self.command = command
        self.seconds = seconds

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
