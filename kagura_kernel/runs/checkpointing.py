"""Where a run stands, stored after each step, and how another run goes on from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.remembering import RunMemory
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.tools.toolbox import Tool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of a run is stored, and how.

    Attributes:
        order: What was asked for.
        parts: What carries it out.
        record: Stores its facts.
        changes: What it has changed so far.
        account: Its money.
        memory: What it knows of earlier runs.
        membrane: What crosses the wall of its box.
        approver: Who is asked for more.
        redacting: Takes secrets out of what is kept.
    """

    order: RunOrder
    parts: RunParts
    record: RecordFact
    changes: RunChanges
    account: Account
    memory: RunMemory
    membrane: Membrane
    approver: Approver
    redacting: Redacting


class Checkpointing:
    """One run's; on its loop."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._box: Box | None = None

    def tools(self) -> Sequence[Tool]:
        """How the brain says what its plan is, and what of it is done."""
        return ()

    def briefing(self) -> str:
        """What the brain of a run that goes on from another one is told; empty for a fresh run."""
        return ""

    async def begin(self, box: Box) -> None:
        """Take the fresh box, and bring it to where the other run left its own, if this one goes on from another.

        A person is asked for what the budget no longer covers.

        Raises:
            ApprovalDenied: a person does not want it to go on.
            JournalError: it could not be stored that the run goes on.
        """
        self._box = box

    async def finished(self, call: ToolCall, result: ToolResult) -> None:
        """A step is over: store where the run stands.

        Raises:
            JournalError: it could not be stored, so that the run must end.
        """

    def brain_session(self, session: str) -> None:
        """What the brain needs to go on from here, as soon as it says so."""

    async def ended(self, ending: Ending) -> None:
        """The run is over; one that did not end well can be resumed."""
