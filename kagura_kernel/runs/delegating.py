"""Handing parts of a run's work on: children with a memory, a smaller grant and a share of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.tools.toolbox import Tool

if TYPE_CHECKING:
    from kagura_kernel.runs.stage import Stage


def delegation_tools(stage: Stage) -> Sequence[Tool]:
    """The tool `delegate`, for a run that may hand work on."""
    _ = stage
    return ()
