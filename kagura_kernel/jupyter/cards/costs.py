"""The cost panel: today, this notebook, the budget in use. What is not known is said, and never taken for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.render.escape import escaped
from kagura_kernel.render.figures import counted, money
from kagura_kernel.render.style import framed

LABEL = "Costs"


@dataclass(frozen=True, slots=True)
class Sum:
    """What some runs cost.

    Attributes:
        label: Which runs.
        usd: The sum of what is known; None when nothing is.
        unpriced: How many runs have no known price.
        runs: How many there were.
    """

    label: str
    usd: float | None
    unpriced: int
    runs: int


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget in use.

    Attributes:
        run_id: The run that spends it.
        limit: USD.
        spent: USD; None while nothing is known.
    """

    run_id: str
    limit: float
    spent: float | None

    @property
    def part(self) -> float:
        """How much of it is spent, from 0 to 1."""
        return min(1.0, (self.spent or 0.0) / self.limit) if self.limit > 0 else 1.0


def costs_html(sums: Sequence[Sum], budget: BudgetLine | None) -> str:
    """The panel, complete in itself."""
    cells = "".join(
        f"<tr><th>{escaped(one.label)}</th><td>{_known(one)}</td><td>{_rest(one)}</td></tr>" for one in sums
    )
    if budget is not None:
        percent = f"{100 * budget.part:.0f} %"
        spent = money(budget.spent) if budget.spent is not None else "unknown"
        bar = (
            f'<span class="kg-bar" role="img" aria-label="{percent} of the budget spent">'
            f'<i style="width: {100 * budget.part:.1f}%"></i></span>'
        )
        cells += (
            f"<tr><th>Budget in use</th><td>{spent} of {money(budget.limit)}</td>"
            f'<td><span class="kg-count">{bar} {percent}, {escaped(budget.run_id)}</span></td></tr>'
        )
    head = f'<div class="kg-head"><div class="kg-top"><strong class="kg-name">{LABEL}</strong></div></div>'
    return framed(f'{head}<div class="kg-body"><table class="kg-table"><tbody>{cells}</tbody></table></div>', LABEL)


def costs_text(sums: Sequence[Sum], budget: BudgetLine | None) -> str:
    """The same, a line for each."""
    rows = [f"{one.label}: {_known(one)}{f' ({rest})' if (rest := _rest(one)) else ''}" for one in sums]
    if budget is not None:
        spent = money(budget.spent) if budget.spent is not None else "unknown"
        rows.append(f"Budget in use: {spent} of {money(budget.limit)} by {budget.run_id}")
    return "\n".join(["[costs]", *rows])


def _known(one: Sum) -> str:
    return "unknown" if one.usd is None else money(one.usd)


def _rest(one: Sum) -> str:
    words = [counted(one.runs, "run")]
    if one.unpriced:
        words.append(f"{one.unpriced:,} of unknown price, not in the sum")
    return ", ".join(words)
