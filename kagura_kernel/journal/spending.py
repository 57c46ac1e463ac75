"""What runs have cost: by day, of one notebook or session, and against a budget. Days are those of UTC.

Unknown is never 0. A run whose price is unknown is counted beside the sum, and a sum of nothing but such runs is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, func, select

from kagura_kernel.journal.schema import runs
from kagura_kernel.journal.store import Journal

_USD = func.coalesce(runs.c.reported_usd, runs.c.computed_usd)
# Neither a cell's own code nor a replay pays anybody; and a run that has just begun has used nothing yet.
_UNPRICED = and_(
    _USD.is_(None), runs.c.brain.not_in(("", "replay")), ~and_(runs.c.status == "running", runs.c.turns == 0)
)
_SUMS = (
    func.sum(_USD).label("usd"),
    func.count().label("many"),
    func.sum(case((_UNPRICED, 1), else_=0)).label("unpriced"),
)
_DAY = func.substr(runs.c.started_at, 1, 10).label("day")


@dataclass(frozen=True, slots=True)
class Spending:
    """What some runs cost."""

    usd: float | None  # The sum of what is known; None when nothing is known of runs that did cost something
    runs: int  # How many runs there were
    unpriced_runs: int  # How many of them have an unknown price


@dataclass(frozen=True, slots=True)
class DaySpending:
    """What the runs of one brain and model cost that began on one day."""

    day: date  # The day in UTC
    brain: str  # Name of the brain; empty for cells' own code
    model: str  # The model that answered
    spending: Spending  # What they cost


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How much of its budget the newest run that goes on has spent."""

    run_id: str
    usd_limit: float
    usd_spent: float | None  # What is known of its cost; None while nothing is


def spent(journal: Journal, *, day: date | None = None, notebook: str = "", session_id: str = "") -> Spending:
    """What runs cost: those that began on one day, of one notebook, of one session; together or all."""
    query = select(*_SUMS).where(*_of(notebook, session_id))
    if day is not None:
        query = query.where(*_between(day, day))
    (row,) = journal.read(query)
    return _spending(row)


def spent_by_day(journal: Journal, first: date, last: date) -> list[DaySpending]:
    """What runs cost by day, brain and model, the oldest day first; days without runs are left out."""
    query = (
        select(_DAY, runs.c.brain, runs.c.model, *_SUMS)
        .where(*_between(first, last))
        .group_by(_DAY, runs.c.brain, runs.c.model)
        .order_by(_DAY, runs.c.brain, runs.c.model)
    )
    return [
        DaySpending(date.fromisoformat(row.day), row.brain, row.model, _spending(row)) for row in journal.read(query)
    ]


def budget_in_use(journal: Journal, *, notebook: str = "", session_id: str = "") -> BudgetUse | None:
    """The newest run that goes on under a budget, of this notebook and session or of all; None when there is none."""
    query = (
        select(runs.c.run_id, runs.c.budget_usd, _USD.label("usd"))
        .where(runs.c.status == "running", runs.c.budget_usd.is_not(None), *_of(notebook, session_id))
        .order_by(runs.c.first_seq.desc())
        .limit(1)
    )
    found = journal.read(query)
    return BudgetUse(found[0].run_id, found[0].budget_usd, found[0].usd) if found else None


def _between(first: date, last: date) -> tuple[ColumnElement[bool], ...]:
    """Stamps sort as text, so a day is everything from its name to the name of the next one."""
    behind = (last + timedelta(days=1)).isoformat()
    return runs.c.started_at >= first.isoformat(), runs.c.started_at < behind


def _of(notebook: str, session_id: str) -> list[ColumnElement[bool]]:
    wanted = ((runs.c.notebook, notebook), (runs.c.session_id, session_id))
    return [column == value for column, value in wanted if value]


def _spending(row: Row[Any]) -> Spending:
    unpriced = int(row.unpriced or 0)
    usd = None if row.usd is None and unpriced else float(row.usd or 0.0)
    return Spending(usd, row.many, unpriced)
