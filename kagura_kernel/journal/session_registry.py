"""The sessions that the journal knows: threads of runs, whichever process and front door they were in.

There is no table of them: a session is what its runs are. The sessions of children, which end with them, are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.schema import approvals, runs
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import runs as run_rows

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One thread of runs.

    Attributes:
        session_id: Its id, or the name that a person gave it.
        runs: How many there were.
        last: The newest.
        waiting: How many approvals of its runs wait for a person.
        first_at: When its first run began, UTC.
    """

    session_id: str
    runs: int
    last: RunRow
    waiting: int
    first_at: datetime

    @property
    def last_run(self) -> str:
        """The id of its newest run."""
        return self.last.run_id

    @property
    def last_at(self) -> datetime:
        """When that one began, UTC."""
        return self.last.started_at

    @property
    def task(self) -> str:
        """What it was asked."""
        return self.last.task

    @property
    def notebook(self) -> str:
        """The notebook that asked; empty elsewhere."""
        return self.last.notebook

    @property
    def state(self) -> str:
        """How it stands: `waiting` for a person, `running`, or how its last run ended."""
        return "waiting" if self.waiting else self.last.status.replace("_", " ")


def sessions(journal: Journal, *, limit: int = 100, names: Sequence[str] = ()) -> list[SessionRow]:
    """The sessions with the newest runs first; or only those named, as far as there are any.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    newest = func.max(runs.c.first_seq)
    query = (
        select(runs.c.session_id, func.count().label("count"), newest.label("newest"), func.min(runs.c.started_at))
        .where(runs.c.lineage == "")
        .group_by(runs.c.session_id)
        .order_by(newest.desc())
        .limit(limit)
    )
    if names:
        query = query.where(runs.c.session_id.in_(list(names)))
    found = journal.read(query)
    last = _last_runs(journal, [row.newest for row in found])
    waits = _waiting(journal)
    return [_row(one, last[one.session_id], waits[one.session_id]) for one in found if one.session_id in last]


def _row(found: Any, last: RunRow, waiting: int) -> SessionRow:
    session_id, count, _, first_at = found
    return SessionRow(session_id, count, last, waiting, datetime.fromisoformat(first_at))


def _last_runs(journal: Journal, numbers: Sequence[int]) -> dict[str, RunRow]:
    named = []
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        named += [row.run_id for row in journal.read(select(runs.c.run_id).where(runs.c.first_seq.in_(some)))]
    rows: list[RunRow] = []
    for start in range(0, len(named), _AT_ONCE):
        some_ids = named[start : start + _AT_ONCE]
        rows += run_rows(journal, limit=len(some_ids), run_ids=some_ids)
    return {row.session_id: row for row in rows}


def _waiting(journal: Journal) -> Counter[str]:
    query = select(approvals.c.session_id).where(approvals.c.verdict.is_(None))
    return Counter(row.session_id for row in journal.read(query))
