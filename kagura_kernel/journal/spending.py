"""What runs and their children have cost: by day, of a notebook or session, against a budget. Days are those of UTC.

Unknown is never 0. A run whose price is unknown is counted beside the sum, and a sum of nothing but such runs is None.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, exists, func, select

from kagura_kernel.domain.clock import covered
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.errors import QuotaReached
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.moves import of_notebook
from kagura_kernel.journal.rows import CostRow
from kagura_kernel.journal.schema import approvals, events, runs
from kagura_kernel.journal.store import Journal

_USD = func.coalesce(runs.c.reported_usd, runs.c.computed_usd)
_NOBODY_PAID = frozenset({"", "replay"})
"""Brains of runs that pay nobody: a cell's own code, and a replay."""
# A run that has just begun has used nothing yet.
_UNPRICED = and_(
    _USD.is_(None), runs.c.brain.not_in(_NOBODY_PAID), ~and_(runs.c.status == "running", runs.c.turns == 0)
)
_SUMS = (
    # What cost nothing, since its brain was asked nothing, makes no sum known.
    func.sum(func.nullif(_USD, 0)).label("usd"),
    func.count().label("many"),
    func.sum(case((_UNPRICED, 1), else_=0)).label("unpriced"),
)
_DEAREST = 3
# No price is finer; what lies behind it is how numbers are added up here.
_NANODOLLARS = 9
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


@dataclass(frozen=True, slots=True)
class DayBudget:
    """What the runs of one person may cost in a day of UTC, in all processes together.

    Those count that began on this day, and those that still go on and have done anything on it: one that goes on past
    midnight counts for both days while it does. One whose process is gone where nobody sees it does nothing more.
    """

    journal: Journal
    usd: float  # The whole
    user: str = ""  # Whose; empty for all that the journal shows

    @property
    def left_usd(self) -> float:
        """What remains of it now."""
        return max(0.0, self.usd - self.spent_usd)

    @property
    def spent_usd(self) -> float:
        """What counts now."""
        return sum(usd for _, usd in self._costs())

    def check(self) -> None:
        """Raises `QuotaReached` once it is spent."""
        costs = self._costs()
        if (spent_usd := sum(usd for _, usd in costs)) >= self.usd:
            dearest = sorted(costs, key=lambda one: -one[1])[:_DEAREST]
            raise QuotaReached.of_day(self.usd, spent_usd, dearest)

    def _costs(self) -> list[tuple[str, float]]:
        midnight = self.journal.clock.now().date().isoformat()
        does = exists().where(events.c.run_id == runs.c.run_id, events.c.at >= midnight)
        counts = (runs.c.started_at >= midnight) | ((runs.c.status == "running") & does)
        query = select(runs.c.run_id, _USD.label("usd")).where(counts, _USD > 0)
        if self.user:
            query = query.where((runs.c.user_name == as_text(self.user)) | _asked_for_at(self.user))
        return [(row.run_id, float(row.usd)) for row in self.journal.read(query)]


def _asked_for_at(user: str) -> ColumnElement[bool]:
    """Whether somebody has asked for a run in a chat, or another place, that a person's own server has open.

    The tables say then who asked, as in `slack:U123`, and the first event whose server it was.
    """
    begun = select(events.c.body).where(events.c.seq == runs.c.first_seq).scalar_subquery()
    # Within a text of the event its quotes would be escaped.
    said = json.dumps({"user": as_text(user)}, ensure_ascii=False, separators=(",", ":"))[1:-1]
    return runs.c.user_name.contains(":") & begun.contains(said, autoescape=True)


def is_unpriced(row: CostRow) -> bool:
    """Whether a run did cost something that is not known: of one row what `Spending.unpriced_runs` counts."""
    has_just_begun = row.seconds is None and not row.input_tokens
    return row.usd is None and row.brain not in _NOBODY_PAID and not has_just_begun


def spent(journal: Journal, *, day: date | None = None, notebook: str = "", session_id: str = "") -> Spending:
    """What runs cost: those that began on one day, of one notebook, of one session; together or all."""
    query = select(*_SUMS).where(*_of(journal, notebook, session_id))
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
        .where(runs.c.status == "running", runs.c.budget_usd.is_not(None), *_of(journal, notebook, session_id))
        .order_by(runs.c.first_seq.desc())
        .limit(1)
    )
    found = journal.read(query)
    return BudgetUse(found[0].run_id, found[0].budget_usd, found[0].usd) if found else None


def _between(first: date, last: date) -> tuple[ColumnElement[bool], ...]:
    """Stamps sort as text, so a day is everything from its name to the name of the next one."""
    behind = (last + timedelta(days=1)).isoformat()
    return runs.c.started_at >= first.isoformat(), runs.c.started_at < behind


def _of(journal: Journal, notebook: str, session_id: str) -> list[ColumnElement[bool]]:
    wanted = [of_notebook(journal, notebook)] if notebook else []
    return [*wanted, runs.c.session_id == session_id] if session_id else wanted


def _spending(row: Row[Any]) -> Spending:
    unpriced = int(row.unpriced or 0)
    usd = None if row.usd is None and unpriced else round(float(row.usd or 0.0), _NANODOLLARS)
    return Spending(usd, row.many, unpriced)


_AT_ONCE = 500
"""How many ids one query names."""
_SINGLY = 20
"""Up to how many runs are looked after one by one: they may lie far apart."""
_OTHER_CLOCKS = timedelta(minutes=10)
"""How far the clock of another machine may be off that carries a child out."""
_CHILD = select(
    *(runs.c.run_id, runs.c.lineage, runs.c.brain, runs.c.reported_usd, runs.c.computed_usd),
).where(runs.c.lineage != "")
_ANSWERED = select(approvals.c.run_id, approvals.c.requested_at, approvals.c.decided_at).where(
    approvals.c.decided_at.is_not(None)
)


@dataclass(frozen=True, slots=True)
class Span:
    """A run, and when it went on."""

    run_id: str
    started_at: datetime  # UTC
    seconds: float | None  # How long it took; None while it goes on

    @property
    def end(self) -> datetime | None:
        """When it was over; None while it goes on."""
        return None if self.seconds is None else self.started_at + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Below:
    """What stands below a run."""

    children: int = 0  # How many runs worked for it, those that worked for these included
    usd: float | None = 0.0  # What they cost in all; None when that of one of them is unknown
    # What of it counts against a budget; None where no price list says so of one of them
    counted_usd: float | None = 0.0
    waited: float = 0.0  # How many seconds of the run it or one of them waited for a person's answer


def below(journal: Journal, spans: Sequence[Span]) -> Mapping[str, Below]:
    """What stands below each of these runs, by id.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    wanted = {one.run_id for one in spans}
    children: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in _children(journal, spans):
        for above in row.lineage.split():
            if above in wanted:
                children[above].append(row)
    asked = _asked(journal, {*wanted, *(row.run_id for rows in children.values() for row in rows)})
    return {one.run_id: _below(one, children[one.run_id], asked) for one in spans}


def with_children(journal: Journal, rows: Sequence[CostRow]) -> list[CostRow]:
    """The same rows, with what their children cost and how long they waited for a person."""
    found = below(journal, [Span(row.run_id, row.at, row.seconds) for row in rows])
    return [_with(row, found[row.run_id]) for row in rows]


def _with(row: CostRow, one: Below) -> CostRow:
    return replace(row, children=one.children, children_usd=one.usd, waited_seconds=one.waited)


def _children(journal: Journal, spans: Sequence[Span]) -> Iterator[Row[Any]]:
    """Runs that work for others, in the time of these: nothing begins before the run that it works for."""
    groups: Iterable[Sequence[Span]] = [[one] for one in spans] if len(spans) <= _SINGLY else [spans]
    seen: set[str] = set()
    for group in groups:
        since = min(one.started_at for one in group) - _OTHER_CLOCKS
        query = _CHILD.where(runs.c.started_at >= stamp(since))
        ends = [one.end for one in group]
        if None not in ends:
            until = max(end for end in ends if end is not None) + _OTHER_CLOCKS
            query = query.where(runs.c.started_at <= stamp(until))
        for row in journal.read(query):
            if row.run_id not in seen:
                seen.add(row.run_id)
                yield row


def _asked(journal: Journal, ids: Iterable[str]) -> Mapping[str, list[tuple[datetime, datetime]]]:
    """From when to when these waited for an answer, by run."""
    found: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    named = sorted(ids)
    for start in range(0, len(named), _AT_ONCE):
        some = named[start : start + _AT_ONCE]
        rows = journal.read(_ANSWERED.where(approvals.c.run_id.in_(some)))
        for run_id, since, until in journal.readable(rows, _answered):
            found[run_id].append((since, until))
    return found


def _answered(row: Row[Any]) -> tuple[str, datetime, datetime]:
    return row.run_id, moment(row.requested_at), moment(row.decided_at)


def _below(span: Span, rows: Sequence[Row[Any]], asked: Mapping[str, list[tuple[datetime, datetime]]]) -> Below:
    times = [pair for run_id in (span.run_id, *(row.run_id for row in rows)) for pair in asked.get(run_id, ())]
    # Two questions at once are waited for once, and what lies beyond the run not at all.
    within = ((max(since, span.started_at), min(until, span.end or until)) for since, until in times)
    return Below(
        children=len(rows),
        usd=_sum([_paid(row, Cost(row.reported_usd, row.computed_usd).usd) for row in rows]),
        counted_usd=_sum([_paid(row, row.computed_usd) for row in rows]),
        waited=covered(within),
    )


def _paid(row: Row[Any], usd: float | None) -> float | None:
    return 0.0 if usd is None and row.brain in _NOBODY_PAID else usd


def _sum(parts: Sequence[float | None]) -> float | None:
    """A sum with unknown parts is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known, 0.0) if len(known) == len(parts) else None
