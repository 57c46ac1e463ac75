"""Where another process (the sidebar's server, a terminal, a second kernel) leaves a decision or a word for a run.

The mailbox only carries. The run that asked takes the decision out, acts on it, and stores it as an event; a decision
that nobody takes has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided, ApprovalExpired, ApprovalUnknown, RunUnknown
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.glance import Glance
from kagura_kernel.journal.projection import approval_times, open_approval
from kagura_kernel.journal.rows import Message, Word
from kagura_kernel.journal.schema import approvals, messages, runs
from kagura_kernel.journal.store import Journal

_DECISION = select(
    approvals.c.id,
    approvals.c.verdict,
    approvals.c.decided_by,
    approvals.c.via,
    approvals.c.decided_at,
    approvals.c.answer,
)
_ONE = _DECISION.where(approvals.c.id == bindparam("key"))
_DECIDE = (
    update(approvals)
    .where(approvals.c.id == bindparam("key"), approvals.c.verdict.is_(None))
    .values(
        verdict=bindparam("verdict"),
        decided_by=bindparam("decided_by"),
        via=bindparam("via"),
        decided_at=bindparam("decided_at"),
        answer=bindparam("answer"),
    )
)
_DECIDE_IN_TIME = _DECIDE.where(approvals.c.deadline_at >= bindparam("decided_at"))
_PENDING = select(approvals).where(approvals.c.verdict.is_(None)).order_by(approvals.c.requested_at, approvals.c.id)
_ASKED = select(approvals).where(approvals.c.id == bindparam("key"))
_HAS_RUN = select(runs.c.run_id).where(runs.c.run_id == bindparam("key"))


class Mailbox:
    """The mailbox of one journal. Any thread may use it, any number of processes share it.

    Every method raises `JournalUnwritable` or `JournalUnreadable` when the journal says no.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def glance(self) -> Glance:
        """Says whether a look into this mailbox is worth it."""
        return Glance(self._journal)

    def post(self, request: ApprovalRequest) -> None:
        """Make a question visible to others; may be called twice, the first text stands."""
        values = {
            "id": request.id,
            "run_id": request.run_id,
            "session_id": request.session_id,
            "kind": str(request.kind),
            "title": as_text(request.title),
            "detail": json.dumps(request.detail),
            "reason": as_text(request.reason),
            "arguments": json.dumps(dict(request.arguments), default=str),
            "options": json.dumps(request.options),
            "lineage": json.dumps(request.lineage),
            "call_id": request.call_id,
            "content_hash": request.content_hash,
            **approval_times(request.requested_at, request.deadline),
        }
        with self._journal.writing() as writing:
            open_approval(writing.connection, values)

    def decide(
        self, approval_id: str, verdict: Verdict, *, by: str, via: str, answer: str = "", in_time: bool = False
    ) -> Decision:
        """Leave a decision; the first one stands, whoever comes from wherever.

        Args:
            approval_id: Which question.
            verdict: The decision.
            by: Who decides.
            via: Where.
            answer: Answer to a question, or a remark.
            in_time: Whether it must come before the deadline that stands beside the question. Whoever holds the run
                keeps its deadline without that.

        Raises:
            ApprovalUnknown: nothing was asked under this id.
            ApprovalAlreadyDecided: somebody was faster.
            ApprovalExpired: it had to come in time, and did not.
        """
        at = self._journal.clock.now()
        values = {
            "key": approval_id,
            "verdict": str(verdict),
            "decided_by": as_text(by),
            "via": as_text(via),
            "decided_at": stamp(at),
            "answer": as_text(answer),
        }
        with self._journal.writing(flush=True) as writing:
            statement = _DECIDE_IN_TIME if in_time else _DECIDE
            if writing.connection.execute(statement, values).rowcount == 1:
                return Decision(approval_id, verdict, by, via, at, answer)
            found = writing.connection.execute(_ONE, {"key": approval_id}).first()
        if found is None:
            raise ApprovalUnknown(approval_id)
        if found.verdict is None:
            raise ApprovalExpired(approval_id)
        raise ApprovalAlreadyDecided(approval_id, found.verdict, found.decided_by)

    def decision(self, approval_id: str) -> Decision | None:
        """How one approval was decided; None while it waits.

        Raises:
            ApprovalUnknown: nothing was asked under this id.
        """
        found = self._journal.read(_ONE, {"key": approval_id})
        if not found:
            raise ApprovalUnknown(approval_id)
        return _decision(found[0]) if found[0].verdict is not None else None

    def decisions(self, ids: Sequence[str]) -> dict[str, Decision]:
        """Those of these approvals that are decided, by id; ids that nobody knows are left out."""
        if not ids:
            return {}
        query = _DECISION.where(approvals.c.id.in_(ids), approvals.c.verdict.is_not(None))
        return {row.id: _decision(row) for row in self._journal.read(query)}

    def pending(self) -> list[ApprovalRequest]:
        """What waits for a person, the oldest first, of all runs in all processes."""
        return [_request(row) for row in self._journal.read(_PENDING)]

    def asked(self, approval_id: str) -> ApprovalRequest | None:
        """What was asked under this id, answered or not; None where nothing was."""
        found = self._journal.read(_ASKED, {"key": approval_id})
        return _request(found[0]) if found else None

    def send(self, run_id: str, word: Word, *, by: str) -> None:
        """Leave a word for a run; a run that is over never takes it.

        Raises:
            RunUnknown: no run bears this id.
        """
        with self._journal.writing() as writing:
            if writing.connection.execute(_HAS_RUN, {"key": run_id}).first() is None:
                raise RunUnknown(run_id)
            left = {"run_id": run_id, "word": word, "by_whom": as_text(by), "at": stamp(self._journal.clock.now())}
            writing.connection.execute(insert(messages), left)

    def take(self, run_ids: Sequence[str], words: Sequence[Word] = ("kill",)) -> list[Message]:
        """These words left for these runs, the oldest first; each is given out once, to whoever asks first.

        A word that the reader does not name stays where it is: what it does not know, it must not act on.
        """
        ours = messages.c.run_id.in_(run_ids) & messages.c.word.in_(words) & messages.c.taken_at.is_(None)
        # Almost always there is none, and then nobody needs the write lock.
        if not run_ids or not self._journal.read(select(messages.c.id).where(ours).limit(1)):
            return []
        with self._journal.writing() as writing:
            rows = writing.connection.execute(select(messages).where(ours).order_by(messages.c.id)).fetchall()
            taken = update(messages).where(messages.c.id.in_([row.id for row in rows]))
            writing.connection.execute(taken.values(taken_at=stamp(self._journal.clock.now())))
        return [Message(row.run_id, row.word, row.by_whom, moment(row.at)) for row in rows]


def _decision(row: Row[Any]) -> Decision:
    at = moment(row.decided_at)
    return Decision(row.id, Verdict(row.verdict), row.decided_by, row.via, at, row.answer)


def _request(row: Row[Any]) -> ApprovalRequest:
    return ApprovalRequest(
        id=row.id,
        run_id=row.run_id,
        session_id=row.session_id,
        kind=ApprovalKind(row.kind),
        title=row.title,
        detail=json.loads(row.detail),
        requested_at=moment(row.requested_at),
        reason=row.reason,
        arguments=json.loads(row.arguments),
        call_id=row.call_id,
        deadline=row.deadline,
        options=tuple(json.loads(row.options)),
        lineage=tuple(json.loads(row.lineage)),
    )
