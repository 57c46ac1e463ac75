"""What a session has left open: how its last run ended, and what that left in the memory."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, select

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.journal.checkpoints import latest
from kagura_kernel.journal.encoding import moment
from kagura_kernel.journal.schema import events, runs
from kagura_kernel.journal.store import Journal

_MOST_LOOKED_AT = 20
"""How many of a session's newest runs are looked at."""
_BEFORE_IT_BEGAN = frozenset({"denied", "killed", "lost"})
"""How a run ends that ends before it has thought or done anything."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of an agent in a session that is over.

    Attributes:
        run_id: Which.
        status: How it ended.
        ended_at: When, aware, UTC.
        changed_files: How many files it changed.
        verified: What its verification said; None where it has none.
        outcome: Id of the memory with its summary; empty where it left none.
        pending: How many steps of its plan were left, where it did not end well; None where nobody knows.
    """

    run_id: str
    status: str
    ended_at: datetime
    changed_files: int
    verified: bool | None
    outcome: str = ""
    pending: int | None = None


def last_run(journal: Journal, session_id: str) -> LastRun | None:
    """The last one that began; None where there is none. Nothing of it is anybody's text. Blocks.

    What a person said no to before it began has left nothing, and does not hide what the session had done before.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    over = (runs.c.session_id == session_id) & (runs.c.brain != "") & (runs.c.status != "running")
    for row in journal.read(select(runs).where(over).order_by(runs.c.first_seq.desc()).limit(_MOST_LOOKED_AT)):
        last = _last(journal, row)
        began = row.turns or row.tool_calls or last.outcome or last.pending is not None
        if began or row.status not in _BEFORE_IT_BEGAN:
            return last
    return None


def _last(journal: Journal, row: Row[Any]) -> LastRun:
    checkpoint = None
    # What cannot be read is of no use to the next run, and does not keep it from starting.
    with suppress(JournalUnreadable):
        checkpoint = latest(journal, row.run_id) if row.status != "done" else None
    return LastRun(
        run_id=row.run_id,
        status=row.status,
        ended_at=moment(row.started_at) + timedelta(seconds=row.duration or 0.0),
        changed_files=row.changed_files,
        verified=None if row.verified is None else bool(row.verified),
        outcome=_outcome(journal, row.run_id),
        pending=len(checkpoint.pending) if checkpoint is not None and checkpoint.plan else None,
    )


def read_untrusted(journal: Journal, session_id: str, brain_session: str) -> bool:
    """Whether a brain that goes on from its own earlier words had read, back then, what nobody has checked. Blocks.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    before = (runs.c.session_id == session_id) & (runs.c.brain_session == brain_session) & (runs.c.untrusted != 0)
    return bool(journal.read(select(runs.c.run_id).where(before).limit(1)))


def _outcome(journal: Journal, run_id: str) -> str:
    written = (events.c.run_id == run_id) & (events.c.kind == "memory.written")
    for row in journal.read(select(events.c.body).where(written).order_by(events.c.seq.desc()).limit(100)):
        body = json.loads(row.body)
        if (body.get("how"), body.get("type")) == ("outcome", "outcome"):
            return str(body.get("memory_id", ""))
    return ""
