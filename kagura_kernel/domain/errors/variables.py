"""A variable could not cross the wall of a box."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


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
