"""Graduation in a run: what was earned answers for itself, what happens is evidence, and nothing is granted here."""

from __future__ import annotations

from collections.abc import Callable

from kagura_kernel.domain.approvals import ApprovalRequest, Approver, Decision
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.order import RunOrder


class Trusting:
    """One run's; an approver in front of another one, and the evidence that the run gives.

    Args:
        order: The run's.
        inner: Who is asked about what was not earned.
        journal: Where evidence is kept.
        clock: The time.
        untrusted: Whether the run has been shown memories that are not trusted.
    """

    def __init__(
        self, order: RunOrder, inner: Approver, journal: Journal, clock: Clock, untrusted: Callable[[], bool]
    ) -> None:
        self._order = order
        self._inner = inner
        self._journal = journal
        self._clock = clock
        self._untrusted = untrusted

    async def approve(self, request: ApprovalRequest) -> Decision:
        """The answer that was earned, or a person's; see `Approver.approve`."""
        return await self._inner.approve(request)

    def used(self, call: ToolCall, result: ToolResult) -> None:
        """A tool answered."""

    def decided(self, request: ApprovalRequest, decision: Decision) -> None:
        """An approval ended."""

    async def settle(
        self, ending: Ending, verified: RunVerified | None, approver: Approver, record: RecordFact
    ) -> None:
        """Store the evidence of the run, demote what failed, and propose what has been earned."""
