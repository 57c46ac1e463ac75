"""How a run ended, from whatever ended it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    ApprovalRequired,
    BudgetExhausted,
    JournalError,
    KaguraError,
    PluginRefused,
    QuotaReached,
    RunKilled,
    SandboxDied,
    TurnsExhausted,
)
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.outcome import EndStatus


@dataclass(frozen=True, slots=True)
class Ending:
    """The last word about a run."""

    status: EndStatus
    text: str = ""  # The final answer, or what a cell's program printed
    error: BaseException | None = None  # What ended it early, if anything did
    exit_code: int | None = None  # Of a cell's own program
    brain_session: str = ""  # What the brain needs to go on

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
        case BudgetExhausted() | TurnsExhausted() | QuotaReached(setting="quota_usd_per_day"):
            return Ending("stopped", error=error)
        case ApprovalDenied() | ApprovalRequired() | PluginRefused():
            return Ending("denied", error=error)
        case SandboxDied(lost=True):
            return Ending("lost", error=error)
        case _:
            return Ending("failed", error=error)


log = logging.getLogger(__name__)


class Work:
    """One run's; on its loop.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._task: asyncio.Task[Ending] | None = None
        self._cause: BaseException | None = None

    def stop(self, cause: BaseException) -> bool:
        """End it, now or before it has begun; False when it is over or was stopped before.

        The first cause stands: what follows from stopping must not hide why it was stopped.
        """
        if self._cause is not None or (self._task is not None and self._task.done()):
            return False
        self._cause = cause
        if self._task is not None:
            self._task.cancel()
        return True

    async def to_the_end(self, doing: Coroutine[Any, Any, Ending]) -> Ending:
        """Do it, and say how it ended. Cancelling this ends it too, before it returns.

        Raises:
            JournalError: its facts could not be stored.
        """
        self._task = asyncio.create_task(doing, name=f"work {self._run_id}")
        if self._cause is not None:
            self._task.cancel()
        try:
            await asyncio.wait({self._task})
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
        # Asked for in any case: one that was stopped may have failed by itself in that moment.
        own = None if self._task.cancelled() else self._task.exception()
        error = self._cause or own
        if error is None:
            return self._task.result()
        if isinstance(error, JournalError):
            raise error
        if not isinstance(error, KaguraError):
            # A fault of ours must still close the box and leave a row that says so.
            log.error("%s failed", self._run_id, exc_info=error)
        return ending_of(error)
