"""Runs that are over, to learn from: what they were asked, how they ended, what they used, and what had been expected.

Parts of other runs' work, cells' own code and audits are no precedents, nor is a run that only went on from another,
nor one that never began: whoever said no to a plan has said nothing of how such a task goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, func, not_, or_, select

from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.encoding import moment
from kagura_kernel.journal.rows import CostRow, made_of
from kagura_kernel.journal.schema import runs
from kagura_kernel.journal.spending import Below, Span, below, with_children
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import RUNS, cost_row

MOST_LOOKED_AT = 3_000
"""How many of the newest runs are looked at, so that a long journal costs no more than a short one."""

_COLUMNS = (
    *(runs.c.run_id, runs.c.task, runs.c.project, runs.c.brain, runs.c.model, runs.c.status, runs.c.started_at),
    *(runs.c.duration, runs.c.reported_usd, runs.c.computed_usd, runs.c.verified),
)
_NEVER_BEGAN = and_(runs.c.status.in_(("denied", "killed", "lost")), runs.c.turns == 0, runs.c.tool_calls == 0)
"""It ended before it had thought or done anything. One that failed then may have failed at what its task needs."""

_OVER = (
    select(*_COLUMNS)
    .where(runs.c.flavour == "agent", runs.c.lineage == "", runs.c.resumes == "", runs.c.status != "running")
    .where(not_(_NEVER_BEGAN))
    .order_by(runs.c.first_seq.desc())
)


@dataclass(frozen=True, slots=True)
class Precedent:
    """A run that is over."""

    run_id: str
    task: str  # What was asked, its first 500 characters
    project: str  # The project root on the host
    brain: str  # Who thought
    model: str  # The model that answered
    status: str  # How it ended
    started_at: datetime  # UTC
    # How long it took; as `whole` has it without the time in which it waited for a person's answer. None when unknown.
    seconds: float | None = None
    usd: float | None = None  # What it cost; as `whole` has it with all that it handed on. None when unknown.
    # What of it counts against a budget: what the price list says; None where it says nothing, and no budget can be
    # kept
    counted_usd: float | None = None
    verified: bool | None = None  # Whether its work passed its verification; None where there was none

    @property
    def went_well(self) -> bool:
        """Whether it came to its end, and nothing said that its work is not good."""
        return self.status == "done" and self.verified is not False


def precedents(journal: Journal, *, brain: str, project: str = "", limit: int) -> list[Precedent]:
    """The newest runs of one brain that are over, the newest first; with `project`, those of that project alone."""
    newest = select(runs.c.first_seq).order_by(runs.c.first_seq.desc()).limit(MOST_LOOKED_AT).subquery()
    since = select(func.min(newest.c.first_seq)).scalar_subquery()
    query = _OVER.where(runs.c.brain == brain, runs.c.first_seq >= since)
    if project:
        query = query.where(runs.c.project == project)
    return [_precedent(row) for row in journal.read(query.limit(limit))]


def precedents_of(journal: Journal, run_ids: Sequence[str], *, brain: str) -> list[Precedent]:
    """These runs, as far as they are precedents of one brain, however long ago they were."""
    if not run_ids:
        return []
    query = _OVER.where(runs.c.brain == brain, runs.c.run_id.in_(run_ids))
    return [_precedent(row) for row in journal.read(query)]


def whole(journal: Journal, rows: Sequence[Precedent]) -> tuple[Precedent, ...]:
    """The same runs, with what their children cost and without the time in which they waited for a person.

    It is looked up for those that were chosen: among many runs that takes longer than to find them.
    """
    found = below(journal, [Span(row.run_id, row.started_at, row.seconds) for row in rows])
    return tuple(_whole(row, found[row.run_id]) for row in rows)


def estimated(journal: Journal, *, limit: int = 1000, run_ids: Sequence[str] | None = None) -> list[CostRow]:
    """The latest runs that are over and had an estimate, or those of these, the newest first, with their children."""
    had_one = or_(runs.c.estimated_usd.is_not(None), runs.c.estimated_seconds.is_not(None))
    query = RUNS.where(runs.c.status != "running", had_one).limit(limit)
    if run_ids is not None:
        query = query.where(runs.c.run_id.in_(run_ids))
    return with_children(journal, journal.readable(journal.read(query), cost_row))


def _whole(row: Precedent, found: Below) -> Precedent:
    return replace(
        row,
        seconds=None if row.seconds is None else max(0.0, row.seconds - found.waited),
        usd=_plus(row.usd, found.usd),
        counted_usd=_plus(row.counted_usd, found.counted_usd),
    )


def _precedent(row: Row[Any]) -> Precedent:
    return made_of(
        Precedent,
        row,
        started_at=moment(row.started_at),
        seconds=row.duration,
        usd=Cost(row.reported_usd, row.computed_usd).usd,
        counted_usd=row.computed_usd,
        verified=None if row.verified is None else bool(row.verified),
    )


def _plus(own: float | None, theirs: float | None) -> float | None:
    """A sum with an unknown part is unknown."""
    return None if own is None or theirs is None else own + theirs
