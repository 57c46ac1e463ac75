"""`%kagura kit plan` for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kagura_kernel.cockpit.kits import AgentPlan


class PlanText:
    """The plan as the value of a cell: text to read, with the plan behind it."""

    def __init__(self, plan: AgentPlan) -> None:
        self.plan = plan  # What a run would be given

    def __repr__(self) -> str:
        from kagura_kernel.cockpit.kit_words import plan_lines
        from kagura_kernel.domain.visible import visible

        return "\n".join(map(visible, plan_lines(self.plan)))
