"""A command on the host could not do what was asked."""

from __future__ import annotations

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
