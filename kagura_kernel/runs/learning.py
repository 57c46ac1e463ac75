"""What goes wrong in a run becomes a lesson: what triggered it, and what mended it when that is found."""

from __future__ import annotations

from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.remembering import RunMemory


class Learning:
    """One run's; on its loop."""

    def __init__(self, order: RunOrder, memory: RunMemory, record: RecordFact, redacting: Redacting) -> None:
        self._order = order
        self._memory = memory
        self._record = record
        self._redacting = redacting

    def used(self, call: ToolCall, result: ToolResult) -> None:
        """A tool answered."""

    def decided(self, request: ApprovalRequest, decision: Decision) -> None:
        """An approval ended."""

    async def leave(self, ending: Ending, verified: RunVerified | None) -> tuple[str, ...]:
        """Keep the lessons of the run; ids of what was left."""
        return ()
