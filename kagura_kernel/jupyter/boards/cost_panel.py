"""Showing the cost panel below a cell: the sums, then the chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kagura_kernel.jupyter.charts.cost import cost_chart
from kagura_kernel.jupyter.slots import write_once
from kagura_kernel.render.bundle import drawn
from kagura_kernel.views.costs import LABEL, BudgetLine, Sum, costs_blocks

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.records import CostReport
    from kagura_kernel.journal.spending import Spending


def show_costs(cockpit: Cockpit) -> None:
    """Show what was spent.

    Raises:
        JournalError: the journal cannot be read.
    """
    report = cockpit.records.costs(cockpit.session_id)
    sums, budget = sums_of(report)
    write_once((drawn(costs_blocks(sums, budget), LABEL), {}))
    write_once(cost_chart(report).bundle())


def sums_of(report: CostReport) -> tuple[list[Sum], BudgetLine | None]:
    """The report as the panel takes it."""
    sums = [_sum("Today (UTC)", report.today), _sum("This notebook", report.session)]
    used = report.budget
    return sums, BudgetLine(used.run_id, used.usd_limit, used.usd_spent) if used is not None else None


def _sum(label: str, spent: Spending) -> Sum:
    return Sum(label, spent.usd, spent.unpriced_runs, spent.runs)
