"""The projections as values: how a row of the tables becomes one that anybody may hold."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, case, exists, select

from kagura_kernel.domain.cost import Cost
from kagura_kernel.journal.encoding import as_text, moment
from kagura_kernel.journal.rows import ApprovalRow, CostRow, RunRow
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
    return RunRow(
        run_id=row.run_id,
        session_id=row.session_id,
        flavour=row.flavour,
        status=row.status_now,
        task=row.task,
        brain=row.brain,
        model=row.model,
        box=row.box,
        started_at=_began(row),
        duration=row.duration,
        tool_calls=row.tool_calls,
        cost_usd=Cost(row.reported_usd, row.computed_usd).usd,
        changed_files=row.changed_files,
        error_code=row.error_code,
        user=row.user_name,
        owner=row.owner,
        project=row.project,
        notebook=row.notebook,
        kernel_id=row.kernel_id,
        cell_id=row.cell_id,
        budget_usd=row.budget_usd,
        lineage=tuple(row.lineage.split()),
        resumes=row.resumes,
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
    return ApprovalRow(
        id=row.id,
        run_id=row.run_id,
        session_id=row.session_id,
        kind=row.kind,
        title=row.title,
        detail=as_text(json.loads(row.detail)),
        reason=row.reason,
        content_hash=row.content_hash,
        requested_at=moment(row.requested_at),
        deadline_at=moment(row.deadline_at),
        verdict=row.verdict,
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
    return CostRow(
        run_id=row.run_id,
        session_id=row.session_id,
        at=_began(row),
        brain=row.brain,
        model=row.model,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cache_read_tokens=row.cache_read_tokens,
        cache_write_tokens=row.cache_write_tokens,
        reported_usd=row.reported_usd,
        computed_usd=row.computed_usd,
        source=row.cost_source,
        status=row.status_now,
        seconds=row.duration,
        estimated_usd=row.estimated_usd,
        estimated_seconds=row.estimated_seconds,
        verified=None if row.verified is None else bool(row.verified),
    )
