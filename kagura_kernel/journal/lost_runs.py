"""What becomes of the runs of a process that is gone: they are finished as `lost`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import RunLost
from kagura_kernel.journal.encoding import moment
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.schema import approvals, claims, events, runs
from kagura_kernel.journal.views import unfinished

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal, Writing

_SYSTEM = SystemClock()
_KEPT = (
    *("brain", "model", "brain_session", "turns", "tool_calls", "reported_usd", "computed_usd", "cost_source"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
)
"""What the end of a run that was lost repeats of what was counted so far."""


def mark_lost(journal: Journal, clock: Clock = _SYSTEM) -> list[str]:
    """Finish, as `lost`, every run whose process is gone, and call off what it was asking; the ids of those runs.

    Several processes may do it at once: each run is marked by one of them.

    Raises:
        JournalUnwritable: the runs so far are marked, the others are left for the next time.
    """
    lost = []
    for run in unfinished(journal):
        if owner_alive(run.owner):
            continue
        with journal.writing(flush=True) as writing:
            if _finish_lost(writing, run.run_id, clock):
                lost.append(run.run_id)
    return lost


def lose(journal: Journal, run_id: str, why: str, clock: Clock = _SYSTEM) -> bool:
    """Finish one run as `lost` on somebody's word that its process is gone; False when it is over already.

    For runs of other machines, whose processes cannot be seen from here.

    Args:
        journal: Where it is recorded.
        run_id: Which.
        why: Half a sentence.
        clock: The time.

    Raises:
        JournalUnwritable: it was not marked.
    """
    with journal.writing(flush=True) as writing:
        return _finish_lost(writing, run_id, clock, why)


def _finish_lost(writing: Writing, run_id: str, clock: Clock, why: str = "") -> bool:
    from kagura_kernel.domain.events import ApprovalDecided, RunFinished

    row = writing.connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
    if row is None or row.status != "running":
        return False
    now = clock.now()
    ours = (approvals.c.run_id == run_id) & approvals.c.verdict.is_(None)
    for asked in writing.connection.execute(select(approvals).where(ours)).fetchall():
        writing.append(
            ApprovalDecided(
                run_id=run_id,
                session_id=row.session_id,
                at=now,
                approval_id=asked.id,
                verdict="aborted",
                by="kagura-kernel",
                via="lost",
                content_hash=asked.content_hash,
                waited=max(0.0, (now - moment(asked.requested_at)).total_seconds()),
            )
        )
    writing.connection.execute(delete(claims).where(claims.c.run_id == run_id))
    error = RunLost(run_id, why or f"its process ({row.owner}) is gone")
    writing.append(
        RunFinished(
            run_id=run_id,
            session_id=row.session_id,
            at=now,
            status="lost",
            error_code=error.code,
            error=error.message,
            duration=max(0.0, (now - moment(row.started_at)).total_seconds()),
            untrusted=_has_seen_untrusted(writing, run_id),
            **{name: getattr(row, name) for name in _KEPT},
        )
    )
    return True


def _has_seen_untrusted(writing: Writing, run_id: str) -> bool:
    """Whether it had been shown memories that are not trusted; what cannot be read may say so."""
    seen = select(events.c.body).where((events.c.run_id == run_id) & (events.c.kind == "memory.seen"))
    return any(_is_mark(body) for (body,) in writing.connection.execute(seen).fetchall())


def _is_mark(body: str) -> bool:
    try:
        return json.loads(body)["untrusted"] is not False
    except (ValueError, LookupError, TypeError):
        return True
