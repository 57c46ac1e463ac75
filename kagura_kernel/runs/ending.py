"""How a run ended, from whatever ended it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    ApprovalRequired,
    BudgetExhausted,
    KaguraError,
    PluginRefused,
    RunKilled,
    TurnsExhausted,
)

Status = Literal["done", "failed", "stopped", "killed", "denied", "lost"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The last word about a run.

    Attributes:
        status: As in `RunFinished`.
        text: The final answer, or what a cell's program printed.
        error: What ended it early, if anything did.
        exit_code: Of a cell's own program.
        brain_session: What the brain needs to go on.
    """

    status: Status
    text: str = ""
    error: BaseException | None = None
    exit_code: int | None = None
    brain_session: str = ""

    @property
    def error_code(self) -> str:
        """Stable code; empty for a run that is done."""
        if self.error is None:
            return ""
        return self.error.code if isinstance(self.error, KaguraError) else "ERR_INTERNAL"

    @property
    def error_text(self) -> str:
        """For reading; an unforeseen error is named by its type, since its text might hold anything."""
        if self.error is None:
            return ""
        if isinstance(self.error, KaguraError):
            return self.error.message
        return f"{type(self.error).__name__} inside kagura-kernel: this is a fault of ours; the log has the details."


def ending_of(error: BaseException) -> Ending:
    """The ending that an error means."""
    match error:
        case ApprovalAborted() | RunKilled():
            return Ending("killed", error=error)
        case BudgetExhausted() | TurnsExhausted():
            return Ending("stopped", error=error)
        case ApprovalDenied() | ApprovalRequired() | PluginRefused():
            return Ending("denied", error=error)
        case _:
            return Ending("failed", error=error)
