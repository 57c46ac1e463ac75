"""How a brain says what it is going to do, and how far it has come: `plan`. It changes nothing and grants nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.tools import schema
from kagura_kernel.tools.toolbox import CallContext

MOST_STEPS = 50
LONGEST_STEP = 300
"""Characters."""


class PlanTool:
    """Keeps a run's plan.

    Args:
        keep: Takes the plan, and how many of its steps are done.
    """

    spec = ToolSpec(
        "plan",
        "Say in which steps you will do a task of several steps, before you begin, and again whenever a step is done "
        "or the plan has changed. It is kept, so that the work can be taken up from there if it is interrupted.",
        schema.arguments(
            "steps",
            steps=schema.texts(f"All steps in their order, the finished ones too; at most {MOST_STEPS}, a line each."),
            done=schema.whole("How many of them, from the first on, are finished.", minimum=0),
        ),
    )

    def __init__(self, keep: Callable[[Sequence[str], int], Awaitable[None]]) -> None:
        self._keep = keep

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Keep it."""
        steps = [" ".join(step.split())[:LONGEST_STEP] for step in arguments["steps"] if step.strip()][:MOST_STEPS]
        done = min(int(arguments.get("done", 0)), len(steps))
        await self._keep(steps, done)
        return ToolResult(f"Kept: {len(steps)} steps, {done} of them done.", route="")
