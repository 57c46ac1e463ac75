"""The tool with which a run that only plans asks to carry its plan out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import ApprovalRequired
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.router import Asker
from kagura_kernel.tools import schema
from kagura_kernel.tools.toolbox import CallContext

YES, NO = "Carry it out", "Keep planning"


class CarryOutTool:
    """`carry_out`: shows a person the plan, and leaves planning behind when they say so.

    Args:
        asker: Puts the question.
        leave: Told who said yes, and to which plan.
    """

    spec = ToolSpec(
        "carry_out",
        "Show the person your plan when it is whole, and ask to carry it out. Until they say so nothing that you do "
        "leaves the sandbox. They may answer with what to change in it.",
        schema.arguments("plan", plan=schema.text("The whole plan, in Markdown: what you will change, and how.")),
    )

    def __init__(self, asker: Asker, leave: Callable[[str, str], None]) -> None:
        self._asker = asker
        self._leave = leave

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Ask, and hand back what they say."""
        plan = arguments["plan"]
        try:
            decision = await self._asker.ask(
                ApprovalKind.QUESTION,
                "A plan: shall it be carried out?",
                plan,
                arguments={"question": plan, "options": [YES, NO]},
                call_id=context.call_id,
                options=(YES, NO),
            )
        except ApprovalRequired:
            return ToolResult("Nobody can be asked here: hand the plan back as your answer.", is_error=True, route="")
        if decision.allowed and decision.answer == YES:
            self._leave(decision.by, plan)
            return ToolResult("Carry the plan out now; what you change counts from here on.", route="")
        said = f" They say: {decision.answer}" if decision.answer not in ("", NO) else ""
        return ToolResult(f"Not yet: go on planning, or hand the plan back as your answer.{said}", route="")
