"""The desk: where approvals wait for a person, and what happens when nobody comes.

A question lies in the journal's mailbox, so that any process can answer it; the first answer wins, wherever it comes
from. No answer by the deadline is a denial. A run that ends takes its open questions with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from kagura_kernel.domain.approvals import ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalAborted, ApprovalAlreadyDecided
from kagura_kernel.journal.mailbox import Mailbox


class Desk:
    """An `Approver` with people at it.

    Args:
        mailbox: Where questions and answers lie.
        clock: For deadlines.
        redact: Takes secrets out of what a person answers, before it is stored.
    """

    def __init__(self, mailbox: Mailbox, clock: Clock, redact: Callable[[str], str] = str) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._redact = redact
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Future[Decision]]] = {}

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Wait for the first answer, from here or from another process, or for the deadline.

        Raises:
            ApprovalAborted: a person called the run off.
            JournalError: the question could not be put where others see it.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Decision] = loop.create_future()
        with self._lock:
            self._waiting[request.id] = (loop, answer)
        try:
            self._mailbox.post(request)
            decision = await self._first(request, answer)
        except asyncio.CancelledError:
            # Nobody waits any more: the question must not stay open for somebody to answer in vain.
            self._claim(request.id, Verdict.ABORTED, "run", "run", request.withdrawn)
            raise
        finally:
            with self._lock:
                self._waiting.pop(request.id, None)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        return decision

    def pending(self) -> list[ApprovalRequest]:
        """Open questions of every process on this journal, oldest first."""
        return self._mailbox.pending()

    def decide(self, approval_id: str, verdict: Verdict, *, by: str, via: str, answer: str = "") -> Decision:
        """Answer a question; from any thread.

        Raises:
            ApprovalUnknown: there is no such question.
            ApprovalAlreadyDecided: somebody, or the deadline, was faster.
            ApprovalExpired: another process asked, and its deadline is over.
            RedactionUnavailable: secrets cannot be looked for in the answer.
            UsageError: it is a question to be answered in words, and there are none.
        """
        answer = self._redact(answer)
        with self._lock:
            waiting = self._waiting.get(approval_id)
        # Of our own questions we keep the deadline; another process may be asleep and see this answer long after it.
        in_time = waiting is None
        decision = self._mailbox.decide(approval_id, verdict, by=by, via=via, answer=answer, in_time=in_time)
        if waiting is not None:
            loop, future = waiting
            # A loop that has just been closed has nobody waiting on it any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future, decision)
        return decision

    async def _first(self, request: ApprovalRequest, answer: asyncio.Future[Decision]) -> Decision:
        deadline = self._clock.monotonic() + request.deadline
        glance = self._mailbox.glance()
        while not answer.done():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return self._claim(request.id, Verdict.TIMEOUT, "deadline", "deadline", "nobody answered in time")
            pause = asyncio.ensure_future(self._clock.sleep(min(glance.pause, left)))
            both: set[asyncio.Future[Any]] = {pause, answer}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            if answer.done() or (news := glance.news()) is None:
                continue
            if (elsewhere := self._mailbox.decision(request.id)) is not None:
                return elsewhere
            glance.seen(news)
        return answer.result()

    def _claim(self, approval_id: str, verdict: Verdict, by: str, via: str, remark: str) -> Decision:
        try:
            return self._mailbox.decide(approval_id, verdict, by=by, via=via, answer=remark)
        except ApprovalAlreadyDecided:
            found = self._mailbox.decision(approval_id)
            if found is None:
                raise
            return found


def _resolve(future: asyncio.Future[Decision], decision: Decision) -> None:
    if not future.done():
        future.set_result(decision)


class PolicyApprover:
    """Nobody is there: every question is answered at once, with no."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def approve(self, request: ApprovalRequest) -> Decision:
        """A denial by policy."""
        why = "nobody can be asked here, so the policy says no"
        return Decision(request.id, Verdict.DENY, "policy", "policy", self._clock.now(), why)
