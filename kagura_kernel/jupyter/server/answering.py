"""Rows of the journal as the fields of an answer: plain JSON, times in UTC, never a lease's handle."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from kagura_kernel.domain.approvals import Decision
from kagura_kernel.domain.asked import asked
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.lease_views import LeaseView
from kagura_kernel.journal.pages import StoredText
from kagura_kernel.journal.rows import ApprovalRow, RunRow
from kagura_kernel.journal.spending import BudgetUse, DaySpending, Spending


def run_fields(row: RunRow) -> dict[str, Any]:
    """A run."""
    return _fields(row) | {"started_at": stamp(row.started_at), "live": row.live}


def event_fields(row: StoredText) -> dict[str, Any]:
    """A row of the journal with its event, as it was stored.

    Raises:
        ValueError: it is no JSON.
    """
    return {"seq": row.seq, "event": plain(row.body)}


def approval_fields(row: ApprovalRow) -> dict[str, Any]:
    """An approval, decided or waiting."""
    return _fields(row) | {
        "arguments": plain(json.dumps(row.arguments)),
        "options": list(row.options),
        "requested_at": stamp(row.requested_at),
        "deadline_at": stamp(row.deadline_at),
        "decided_at": _moment(row.decided_at),
        "shown": _shown(row) if row.verdict is None else None,
    }


def decision_fields(decision: Decision) -> dict[str, Any]:
    """How an approval was decided."""
    return {
        "approval_id": decision.approval_id,
        "verdict": str(decision.verdict),
        "by": decision.by,
        "via": decision.via,
        "decided_at": stamp(decision.at),
        "answer": decision.answer,
    }


def lease_fields(view: LeaseView) -> dict[str, Any]:
    """A lease."""
    return {
        "lease_id": view.lease_id,
        "run_id": view.run_id,
        "session_id": view.session_id,
        "provider": view.provider,
        "scope": view.scope,
        "state": view.state,
        "expires_at": _moment(view.expires_at),
        "budget_left_seconds": view.budget_left,
        "renewals_left": view.renewals_left,
        "way": view.way,
        "place": view.place,
        "why": view.why,
        "revocable": view.revocable,
    }


def spending_fields(spending: Spending) -> dict[str, Any]:
    """What some runs cost."""
    return {"usd": spending.usd, "runs": spending.runs, "unpriced_runs": spending.unpriced_runs}


def day_fields(row: DaySpending) -> dict[str, Any]:
    """What one day's runs of a model cost."""
    return {
        "day": row.day.isoformat(),
        "brain": row.brain,
        "model": row.model,
        **spending_fields(row.spending),
    }


def budget_fields(use: BudgetUse) -> dict[str, Any]:
    """How much of a budget is spent."""
    return {"run_id": use.run_id, "usd_limit": use.usd_limit, "usd_spent": use.usd_spent}


def plain(text: str) -> Any:
    """What is in a text of ours that is nearly JSON: Python writes NaN and Infinity, which browsers refuse."""
    return json.loads(text, parse_constant=str)


def _shown(row: ApprovalRow) -> dict[str, Any]:
    """What is to be read before it is answered, as every display shows it."""
    what = asked(row.kind, row.title, row.detail, row.arguments)
    return {
        "title": what.title,
        "target": what.target,
        "blocks": [{"label": one.label, "text": one.text, "size": one.size} for one in what.blocks],
        "place": what.place,
        "means": what.means,
    }


def _fields(row: RunRow | ApprovalRow) -> dict[str, Any]:
    # Not `asdict`, which copies every text: of five hundred rows that is most of the time.
    return {field.name: getattr(row, field.name) for field in fields(row)}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)
