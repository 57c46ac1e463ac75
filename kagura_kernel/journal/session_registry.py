"""The sessions that the journal knows: threads of runs, whichever process and front door they were in.

There is no table of them: a session is what its runs are. The sessions of children, which end with them, are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select

from kagura_kernel.domain.errors import JournalUnreadable, SessionBusy
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.checkpoints import latest
from kagura_kernel.journal.encoding import moment
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.schema import approvals, events, runs
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import runs as run_rows

_MOST_LOOKED_AT = 20
"""How many of a session's newest runs are looked at."""
_BEFORE_IT_BEGAN = frozenset({"denied", "killed", "lost"})
"""How a run ends that ends before it has thought or done anything."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of an agent in a session that is over."""

    run_id: str
    status: str  # How it ended
    ended_at: datetime  # When, aware, UTC
    changed_files: int  # How many files it changed
    verified: bool | None  # What its verification said; None where it has none
    outcome: str = ""  # Id of the memory with its summary; empty where it left none
    # How many steps of its plan were left, where it did not end well; None where nobody knows
    pending: int | None = None


def last_run(journal: Journal, session_id: str) -> LastRun | None:
    """The last one that began; None where there is none. Nothing of it is anybody's text. Blocks.

    What a person said no to before it began has left nothing, and does not hide what the session had done before.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    over = _over(session_id) & (runs.c.error_code != SessionBusy.code)
    for row in journal.read(select(runs).where(over).order_by(runs.c.first_seq.desc()).limit(_MOST_LOOKED_AT)):
        last = next(iter(journal.readable([row], partial(_last, journal))), None)
        if last is None:
            continue
        began = row.turns or row.tool_calls or last.outcome or last.pending is not None
        if began or row.status not in _BEFORE_IT_BEGAN:
            return last
    return None


def _over(session_id: str) -> ColumnElement[bool]:
    """Which rows are runs of a session's agents that go on no more."""
    return (runs.c.session_id == session_id) & (runs.c.brain != "") & (runs.c.status != "running")


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


def read_untrusted(journal: Journal, session_id: str, brain_session: str, brain: str) -> bool:
    """Whether a brain that goes on from its own earlier words had read, back then, what nobody has checked. Blocks.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    ours = (runs.c.session_id == session_id) & (runs.c.brain == brain)
    # What follows a `$` is what the conversation had cost by then, so each of its runs has a word of its own.
    conversation = brain_session.partition("$")[0]
    same = runs.c.brain_session.startswith(f"{conversation}$", autoescape=True)
    same |= runs.c.brain_session.in_((brain_session, conversation))
    began = select(func.min(runs.c.first_seq)).where(ours & same).scalar_subquery()
    # A run that was cut leaves no word, and its brain has kept what it had read by then.
    cut = (runs.c.brain_session == "") & (runs.c.first_seq > began)
    before = ours & (runs.c.untrusted != 0) & (same | cut)
    return bool(journal.read(select(runs.c.run_id).where(before).limit(1)))


def known_memories(journal: Journal, session_id: str) -> list[str]:
    """Ids of memories that a brain which goes on in a session may know from its earlier runs. Blocks.

    They are the newest summary of the session, and what runs after that one had seen: one that was cut leaves none.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    newest = select(runs.c.run_id).where(_over(session_id)).order_by(runs.c.first_seq.desc()).limit(_MOST_LOOKED_AT)
    known: list[str] = []
    for (run_id,) in journal.read(newest):
        if outcome := _outcome(journal, run_id):
            return [*known, outcome]
        told = journal.events(run_id=run_id, kinds=("memory.seen", "memory.written"))
        known += [one for row in told for one in memories_named(row.event)]
    return known


def memories_named(event: object) -> list[str]:
    """Ids of the memories that an event says were shown or written."""
    from kagura_kernel.domain.events.memory import MemoriesSeen, MemoryWritten

    match event:
        case MemoriesSeen():
            return [one.id for one in event.memories]
        case MemoryWritten():
            return [event.memory_id]
        case _:
            return []


def _outcome(journal: Journal, run_id: str) -> str:
    written = (events.c.run_id == run_id) & (events.c.kind == "memory.written")
    for row in journal.read(select(events.c.body).where(written).order_by(events.c.seq.desc()).limit(100)):
        body = json.loads(row.body)
        if (body.get("how"), body.get("type")) == ("outcome", "outcome"):
            return str(body.get("memory_id", ""))
    return ""


_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One thread of runs."""

    session_id: str  # Its id, or the name that a person gave it
    runs: int  # How many there were
    last: RunRow  # The newest
    waiting: int  # How many approvals of its runs wait for a person
    first_at: datetime  # When its first run began, UTC

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
