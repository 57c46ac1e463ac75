"""A brain's plan: kept as it says it, bounded."""

from collections.abc import Sequence
from typing import Any

import pytest

from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.tools.standard import LONGEST_STEP, MOST_STEPS, PlanTool
from kagura_kernel.tools.toolbox import Toolbox


async def kept(arguments: dict[str, Any]) -> tuple[list[str], int, bool]:
    found: list[tuple[list[str], int]] = []

    async def keep(steps: Sequence[str], done: int) -> None:
        found.append((list(steps), done))

    result = await Toolbox([PlanTool(keep)]).call(ToolCall("call-1", "plan", arguments))
    return (*found[0], result.is_error) if found else ([], -1, result.is_error)


@pytest.mark.parametrize(
    ("steps", "done", "expected"),
    [
        (["look", "mend"], 1, (["look", "mend"], 1)),
        (["look\n  twice", "  ", "mend"], 9, (["look twice", "mend"], 2)),
        ([], 0, ([], 0)),
    ],
)
async def test_a_plan_is_kept_a_line_each(steps: list[str], done: int, expected: tuple[list[str], int]) -> None:
    assert (await kept({"steps": steps, "done": done}))[:2] == expected


async def test_a_long_plan_is_cut() -> None:
    steps, _, _ = await kept({"steps": ["x" * 10_000] * 1000})
    assert (len(steps), len(steps[0])) == (MOST_STEPS, LONGEST_STEP)


@pytest.mark.parametrize("arguments", [{}, {"steps": "look"}, {"steps": ["look"], "done": -1}])
async def test_what_is_no_plan_is_told_and_nothing_is_kept(arguments: dict[str, Any]) -> None:
    assert await kept(arguments) == ([], -1, True)
