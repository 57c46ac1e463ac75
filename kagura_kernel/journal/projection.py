"""What each event changes in the tables that views read. Runs inside the transaction that stores the event."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Text, bindparam, case, func, insert, select, update

from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    BoxStarted,
    ChangesCollected,
    Event,
    RunFinished,
    RunPlanned,
    RunStarted,
    ToolCalled,
    TurnCounted,
)
from kagura_kernel.journal.chain import Number
from kagura_kernel.journal.encoding import as_text, decode, stamp
from kagura_kernel.journal.schema import DECISION, approvals, runs
from kagura_kernel.journal.statements import Statement, given

if TYPE_CHECKING:
    from kagura_kernel.domain.approvals import ApprovalRequest

TASK_LENGTH = 500

UNDECIDED = dict.fromkeys(DECISION.split())
"""The columns of a question that a decision sets, before there is one."""

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_HAS_RUN = Statement(select(runs.c.run_id).where(runs.c.run_id == bindparam("key")))
_HAS_APPROVAL = Statement(select(approvals.c.id).where(approvals.c.id == bindparam("key")))
_OWNER = Statement(select(runs.c.owner).where(runs.c.run_id == bindparam("key")))
_THIS_RUN = update(runs).where(runs.c.run_id == bindparam("key"))
_CALLED = Statement(_THIS_RUN.values(tool_calls=runs.c.tool_calls + 1))
_AGREED = Statement(_THIS_RUN.values(budget_usd=bindparam("agreed")))
_BOXED = Statement(_THIS_RUN.values(box=bindparam("box")))
_CHANGED = Statement(_THIS_RUN.values(changed_files=runs.c.changed_files + bindparam("more")))
# Unknown stays unknown: a sum with one turn of unknown price is NULL, as SQL has it.
_COUNTED = Statement(
    _THIS_RUN.values(
        model=case((bindparam("model") == "", runs.c.model), else_=bindparam("model")),
        turns=runs.c.turns + 1,
        computed_usd=case(
            (runs.c.turns == 0, bindparam("computed_usd")), else_=runs.c.computed_usd + bindparam("computed_usd")
        ),
        cost_source=bindparam("cost_source"),
        **{name: runs.c[name] + bindparam(name) for name in TOKENS},
    )
)
_FINISHED = Statement(
    _THIS_RUN.values(
        brain=case((bindparam("brain") == "", runs.c.brain), else_=bindparam("brain")),
        model=case((bindparam("model") == "", runs.c.model), else_=bindparam("model")),
        changed_files=func.coalesce(bindparam("changed_files"), runs.c.changed_files),
        **given("status duration turns tool_calls input_tokens output_tokens cache_read_tokens cache_write_tokens"),
        **given("reported_usd computed_usd cost_source error_code brain_session"),
        **given("estimated_usd estimated_seconds verified untrusted"),
    )
)
_DECIDED = Statement(
    update(approvals)
    .where(approvals.c.id == bindparam("key"), approvals.c.run_id == bindparam("run"))
    .values(given(DECISION))
)
_NEW_RUN = Statement(insert(runs))
_NEW_APPROVAL = Statement(insert(approvals))


_SHOWN = (
    RunStarted,
    RunPlanned,
    RunFinished,
    BoxStarted,
    ChangesCollected,
    TurnCounted,
    ApprovalRequested,
    ApprovalDecided,
)


def as_stored(event: Event, body: str) -> Event:
    """The event as its stored text gives it back, if a view shows what stands in it.

    So the tables hold what can be counted anew from the rows, to the last character.
    """
    if not isinstance(event, _SHOWN):
        return event
    try:
        stored = decode(body)
    except ValueError:
        return event  # stored all the same; whoever reads the row is told
    return stored if isinstance(stored, _SHOWN) else event


def project(connection: Connection, number: Number, event: Event) -> None:
    """Bring the tables up to date with the event of one row; an event that no view shows changes nothing."""
    key = event.run_id
    match event:
        case ToolCalled():
            _CALLED.run(connection, {"key": key})
        case TurnCounted():
            _COUNTED.run(connection, {"key": key, **turn_values(event)})
        case BoxStarted():
            _BOXED.run(connection, {"key": key, "box": event.backend})
        case ChangesCollected():
            _CHANGED.run(connection, {"key": key, "more": len(event.changes)})
        case RunStarted():
            _open_run(connection, event.run_id, lambda: new_run(number(), event))
        case RunPlanned() if event.by:
            _AGREED.run(connection, {"key": key, "agreed": event.agreed_usd})
        case RunFinished():
            _open_run(connection, event.run_id, lambda: blank_run(number(), event))
            _FINISHED.run(connection, {"key": key, **ledger_values(event)})
        case ApprovalRequested():
            open_approval(connection, question_values(event))
        case ApprovalDecided():
            # A run answers for its own questions alone.
            _DECIDED.run(connection, {"key": event.approval_id, "run": event.run_id, **answer_values(event)})


def open_approval(connection: Connection, values: dict[str, Any]) -> None:
    """A question's row, unless it is there: the desk's mail and the run's event may come in either order."""
    if _HAS_APPROVAL.run(connection, {"key": values["id"]}).fetchone() is None:
        found = _OWNER.run(connection, {"key": values["run_id"]}).fetchone()
        _NEW_APPROVAL.run(connection, {**values, "owner": found[0] if found else "", **UNDECIDED})


def new_run(seq: int, event: RunStarted) -> dict[str, Any]:
    """The row of a run that has just started."""
    return blank_run(seq, event) | {
        "flavour": event.flavour,
        "task": as_text(event.task[:TASK_LENGTH]),
        "brain": as_text(event.brain),
        "model": as_text(event.model),
        "project": as_text(event.project),
        "owner": event.owner,
        "user_name": as_text(event.started_by or event.user),
        "notebook": as_text(event.notebook),
        "kernel_id": as_text(event.kernel_id),
        "cell_id": as_text(event.cell_id),
        "budget_usd": event.budget_usd,
        "lineage": " ".join(event.lineage),
        "resumes": event.resumes,
    }


_BLANK = {one.name: None if one.nullable else "" if isinstance(one.type, Text) else 0 for one in runs.c}


def blank_run(seq: int, event: Event) -> dict[str, Any]:
    """The row of a run of which nothing is known yet."""
    return _BLANK | {
        "run_id": event.run_id,
        "first_seq": seq,
        "session_id": event.session_id,
        "flavour": "agent",
        "status": "running",
        "started_at": stamp(event.at),
    }


def _open_run(connection: Connection, run_id: str, values: Callable[[], dict[str, Any]]) -> None:
    if _HAS_RUN.run(connection, {"key": run_id}).fetchone() is None:
        _NEW_RUN.run(connection, values())


def turn_values(event: TurnCounted) -> dict[str, Any]:
    """What a turn adds."""
    counted = {name: getattr(event, name) for name in (*TOKENS, "computed_usd")}
    return counted | {"model": as_text(event.model), "cost_source": event.source}


def ledger_values(event: RunFinished) -> dict[str, Any]:
    """What the end of a run sets."""
    row = event.model_dump(exclude={"kind", "run_id", "session_id", "at", "text", "error", "exit_code"})
    told = {name: as_text(value) if isinstance(value, str) else value for name, value in row.items()}
    return told | {
        "verified": None if event.verified is None else int(event.verified),
        "untrusted": int(event.untrusted),
    }


def question_values(event: ApprovalRequested) -> dict[str, Any]:
    """A question's row, but for its owner and its decision."""
    return asked_values(event, event.approval_id, event.subject, event.at)


def asked_values(
    asked: ApprovalRequested | ApprovalRequest, approval_id: str, kind: str, at: datetime
) -> dict[str, Any]:
    """The same of a question that lies on somebody's desk."""
    return {
        "id": approval_id,
        "run_id": asked.run_id,
        "session_id": asked.session_id,
        "kind": kind,
        "title": as_text(asked.title),
        # What is decided on is kept as JSON in ASCII, so that it comes back exactly, odd bytes included.
        "detail": json.dumps(asked.detail),
        "reason": as_text(asked.reason),
        "arguments": json.dumps(dict(asked.arguments), default=str),
        "options": json.dumps(asked.options),
        "lineage": json.dumps(asked.lineage),
        "call_id": asked.call_id,
        "content_hash": asked.content_hash,
        "requested_at": stamp(at),
        "deadline": asked.deadline,
        "deadline_at": stamp(at + timedelta(seconds=asked.deadline)),
    }


_SMALL = frozenset({"turns", "tool_calls", "changed_files"})
_MOST_SMALL, MOST = 10**9, 10**12
"""What a number in an event may be: so many of them overflow no column that they are added to."""


def check_values(event: Event) -> None:
    """Raise `ValueError` for an event that the tables cannot hold, nor sums over as many as there ever are.

    None of ours is so; in a journal that is shared anybody may write one.
    """
    try:
        values = _values(event)
    except OverflowError as error:
        raise ValueError("it is of no time that there is") from error
    for name, value in values.items():
        if isinstance(value, str):
            fits = as_text(value) == value
        else:
            fits = value is None or abs(value) <= (_MOST_SMALL if name in _SMALL else MOST)
        if not fits:
            raise ValueError(f"its {name} fits no table")


def _values(event: Event) -> dict[str, Any]:
    """What an event sets in the tables."""
    found: dict[str, Any] = {}
    match event:
        case RunStarted():
            found = new_run(0, event)
        case RunFinished():
            found = blank_run(0, event) | ledger_values(event)
        case RunPlanned():
            found = {"budget_usd": event.agreed_usd}
        case BoxStarted():
            found = {"box": event.backend}
        case TurnCounted():
            found = turn_values(event)
        case ApprovalRequested():
            found = question_values(event)
        case ApprovalDecided():
            found = {"id": event.approval_id, **answer_values(event)}
    return found


def answer_values(event: ApprovalDecided) -> dict[str, Any]:
    """The five columns that a decision sets."""
    return {
        "verdict": event.verdict,
        "decided_by": as_text(event.by),
        "via": as_text(event.via),
        "decided_at": stamp(event.at),
        "answer": as_text(event.answer),
    }
