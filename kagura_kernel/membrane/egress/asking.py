"""A person's word on hosts that nothing grants: one question per target, remembered as they said.

Without somebody who can be asked the answer is no. A program must not wear a person down until they say yes: what was
refused is not asked again in the same run, a run puts only so many questions, at once and in all, and after some
refusals in a row it puts no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Patience, Verdict
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, EgressBusy, EgressDenied
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.membrane.egress.names import HOST_SETS, HTTP, HTTPS, HostSets, Target
from kagura_kernel.membrane.egress.policy import advice

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Once(Generic[Key, Result]):
    """Shares work that is under way. What is finished is forgotten: this is no cache.

    Cancelling one who waits leaves the work to the others; cancelling the last one cancels the work.
    """

    def __init__(self) -> None:
        self._under_way: dict[Key, asyncio.Task[Result]] = {}
        self._waiting: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def __contains__(self, key: Key) -> bool:
        return key in self._under_way

    async def share(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the work under way for this key, started here if there is none; its error too."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(work())
            self._under_way[key] = task
            self._waiting[key] = 0
            task.add_done_callback(lambda done: self._forget(key, done))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            # The entry may be that of later work by now.
            if self._under_way.get(key) is task:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    self._forget(key, task)
                    task.cancel()

    def _forget(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key], self._waiting[key]
        if task.done() and not task.cancelled():
            # Whoever waited has the error; when all have left nobody asks, and the loop shall not complain about it.
            task.exception()


THIS_RUN = "this run"
THIS_SESSION = "this session"
NEVER = "never"
OPTIONS = (THIS_RUN, THIS_SESSION, NEVER)
"""What a display offers. `allow` with the answer `this session` lasts as long as the session, any other `allow` as
long as the run; `deny` with the answer `never` lasts as long as the session, any other denial as long as the run."""

MAX_QUESTIONS = 8
"""Open at once."""

MAX_ASKED = 20
"""In one run, those that were withdrawn included."""


@dataclass(slots=True)
class Answers:
    """What a person has said, target by target; shared by all runs that it holds for."""

    # Whether the target may be reached, with who said so
    said: dict[Target, tuple[bool, str]] = field(default_factory=dict)


class Asking:
    """The questions of one run about where it may connect to.

    Args:
        approver: Who is asked; None when nobody can be.
        run_id: The run that asks.
        session_id: Its session.
        session: What was said for the whole session; hand the same one to all its runs.
        clock: Where the time of asking comes from.
        deadline: Seconds until no answer is a denial.
    """

    def __init__(
        self,
        approver: Approver | None,
        *,
        run_id: str = "",
        session_id: str = "",
        session: Answers | None = None,
        clock: Clock | None = None,
        deadline: float = DEFAULTS.approval_deadline,
    ) -> None:
        self._approver = approver
        self._run_id = run_id
        self._session_id = session_id
        self._clock: Clock = clock or SystemClock()
        self._deadline = deadline
        self._run = Answers()
        self._session = session or Answers()
        self._open: Once[Target, tuple[bool, str]] = Once()
        self._asked = 0
        self._patience = Patience()

    async def require(self, target: Target, sets: HostSets = HOST_SETS) -> str:
        """Who allowed it, as `name, for this run`; waits for an answer if there is none yet.

        Args:
            target: Host and port.
            sets: The sets of hosts that a person may grant by name.

        Raises:
            EgressDenied: somebody, a policy or the deadline said no, or nobody can be asked, or not any more.
            EgressBusy: too many other questions wait for an answer.
            ApprovalAborted: the person called the run off.
        """
        how = advice(target, sets)
        said = self._run.said.get(target) or self._session.said.get(target)
        if said is None:
            if self._approver is None:
                raise EgressDenied(target.host, target.port, "is not granted and nobody can be asked", how)
            if target not in self._open:
                self._require_patience(target, how)
            approver = self._approver
            said = await self._open.share(target, lambda: self._ask(approver, target))
        allowed, by = said
        if not allowed:
            raise EgressDenied(target.host, target.port, f"was not approved: {by}", how)
        return by

    def _require_patience(self, target: Target, how: str) -> None:
        if refused := self._patience.refused(ApprovalKind.NETWORK):
            why = f"is not granted, and {refused} hosts in a row were refused: no more questions in this run"
            raise EgressDenied(target.host, target.port, why, how)
        if self._asked >= MAX_ASKED:
            why = f"is not granted, and this run has asked {MAX_ASKED} questions: no more of them"
            raise EgressDenied(target.host, target.port, why, how)
        if len(self._open) >= MAX_QUESTIONS:
            why = f"is not granted and {MAX_QUESTIONS} questions are open already: answer one and try again"
            raise EgressBusy(target.host, target.port, why)

    async def _ask(self, approver: Approver, target: Target) -> tuple[bool, str]:
        self._asked += 1
        request = self._request(target)
        decision = await approver.approve(request)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        # An answer to another question must never open this door.
        allowed = decision.allowed and decision.approval_id == request.id
        for_session = decision.answer == (THIS_SESSION if allowed else NEVER)
        self._patience.heard(ApprovalKind.NETWORK, decision)
        said = (allowed, _who(decision, allowed=allowed, for_session=for_session))
        (self._session if for_session else self._run).said[target] = said
        return said

    def _request(self, target: Target) -> ApprovalRequest:
        scheme = {HTTPS: " (HTTPS)", HTTP: " (plain HTTP)"}.get(target.port, "")
        return ApprovalRequest(
            id=new_approval_id(),
            run_id=self._run_id,
            session_id=self._session_id,
            kind=ApprovalKind.NETWORK,
            title=f"Let the box connect to {target}",
            detail=f"TCP connections from the box to {target}{scheme}. What the box knows can be sent there.",
            reason="A program in the box asks for a host that is not granted.",
            arguments={"host": target.host, "port": target.port},
            requested_at=self._clock.now(),
            deadline=self._deadline,
            options=OPTIONS,
        )


def _who(decision: Decision, *, allowed: bool, for_session: bool) -> str:
    if allowed:
        return f"{decision.by}, for {THIS_SESSION if for_session else THIS_RUN}"
    if decision.verdict is Verdict.TIMEOUT:
        return "nobody answered in time"
    if decision.allowed:
        return f"the answer belongs to {decision.approval_id}"
    remark = f" ({decision.answer})" if decision.answer and not for_session else ""
    return f"{decision.by} said {NEVER if for_session else 'no'}{remark}"
