"""The projections as values: how a row of the tables becomes one that anybody may hold."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, case, exists, select

from kagura_kernel.domain.cost import Cost
from kagura_kernel.journal.encoding import as_text, moment
from kagura_kernel.journal.rows import ApprovalRow, CostRow, RunRow, made_of
from kagura_kernel.journal.schema import approvals, runs

_DAY = timedelta(days=1)
_waits = exists().where(approvals.c.run_id == runs.c.run_id, approvals.c.verdict.is_(None))
_STATUS = case(((runs.c.status == "running") & _waits, "awaiting_approval"), else_=runs.c.status).label("status_now")

RUNS = select(runs, _STATUS).order_by(runs.c.first_seq.desc())
"""Runs, the newest first, with the status as it is now."""

APPROVALS = (
    select(approvals, runs.c.notebook, runs.c.kernel_id, runs.c.cell_id)
    .join(runs, runs.c.run_id == approvals.c.run_id, isouter=True)
    .order_by(approvals.c.requested_at.desc(), approvals.c.id.desc())
)
"""Approvals, the newest first, with the place of the run that asks; a question may be here before its run."""


def run_row(row: Row[Any]) -> RunRow:
    """A row of `RUNS`."""
    return made_of(
        RunRow,
        row,
        status=row.status_now,
        started_at=_began(row),
        cost_usd=Cost(row.reported_usd, row.computed_usd).usd,
        user=row.user_name,
        lineage=tuple(row.lineage.split()),
        verified=None if row.verified is None else bool(row.verified),
        untrusted=bool(row.untrusted),
    )


def _began(row: Row[Any]) -> datetime:
    """When a run began; raises `ValueError` or `OverflowError` where a day around it, or its end, is no time."""
    began = moment(row.started_at)
    _ = began - _DAY, began + timedelta(seconds=row.duration or 0.0) + _DAY
    return began


def approval_row(row: Row[Any]) -> ApprovalRow:
    """A row of `APPROVALS`."""
    return made_of(
        ApprovalRow,
        row,
        detail=as_text(json.loads(row.detail)),
        requested_at=moment(row.requested_at),
        deadline_at=moment(row.deadline_at),
        by=row.decided_by or "",
        via=row.via or "",
        decided_at=moment(row.decided_at) if row.decided_at else None,
        answer=row.answer or "",
        arguments=json.loads(row.arguments),
        options=tuple(as_text(option) for option in json.loads(row.options)),
        notebook=row.notebook or "",
        kernel_id=row.kernel_id or "",
        cell_id=row.cell_id or "",
        lineage=tuple(json.loads(row.lineage)),
    )


def cost_row(row: Row[Any]) -> CostRow:
    """What a row of `RUNS` says about money."""
    return made_of(
        CostRow,
        row,
        at=_began(row),
        source=row.cost_source,
        status=row.status_now,
        seconds=row.duration,
        verified=None if row.verified is None else bool(row.verified),
    )
