"""The cost panel: today, this notebook, the budget in use. What is not known is said, and never taken for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.render.blocks import Blocks, Cell, Group, Meter, Span, Table, head
from kagura_kernel.render.figures import counted, money

LABEL = "Costs"


@dataclass(frozen=True, slots=True)
class Sum:
    """What some runs cost."""

    label: str  # which runs
    usd: float | None  # the sum of what is known; None when nothing is
    unpriced: int  # how many runs have no known price
    runs: int


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget in use, in USD."""

    run_id: str  # the run that spends it
    limit: float
    spent: float | None  # None while nothing is known

    @property
    def part(self) -> float:
        """How much of it is spent, from 0 to 1."""
        return min(1.0, (self.spent or 0.0) / self.limit) if self.limit > 0 else 1.0


def costs_blocks(sums: Sequence[Sum], budget: BudgetLine | None) -> Blocks:
    """The panel; in text a line for each."""
    rows: list[list[Cell]] = [[(one.label,), (_known(one.usd),), (_rest(one),)] for one in sums]
    lines = [f"{one.label}: {_known(one.usd)} ({_rest(one)})" for one in sums]
    if budget is not None:
        percent = f"{100 * budget.part:.0f} %"
        spent = f"{_known(budget.spent)} of {money(budget.limit)}"
        meter = Meter(budget.part, f"{percent} of the budget spent")
        rows.append([("Budget in use",), (spent,), (Span((meter, f"{percent}, {budget.run_id}"), look="count"),)])
        lines.append(f"Budget in use: {spent} by {budget.run_id}")
    table = Table(rows, has_names=True, plain="\n".join(lines))
    return (head(LABEL, plain="[costs]"), Group((table,), "body"))


def _known(usd: float | None) -> str:
    return "unknown" if usd is None else money(usd)


def _rest(one: Sum) -> str:
    words = [counted(one.runs, "run")]
    if one.unpriced:
        words.append(f"{one.unpriced:,} of unknown price, not in the sum")
    return ", ".join(words)
