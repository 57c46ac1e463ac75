"""A person's word on hosts that nothing grants: one question per target, remembered as they said.

Without somebody who can be asked the answer is no. What was refused is not asked again in the same run, so that a
program that tries again and again does not wear a person down, and only so many questions are open at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, EgressDenied
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.membrane.egress.hostsets import HOST_SETS, HostSets
from kagura_kernel.membrane.egress.names import HTTP, HTTPS, Target
from kagura_kernel.membrane.egress.once import Once
from kagura_kernel.membrane.egress.policy import advice

THIS_RUN = "this run"
THIS_SESSION = "this session"
NEVER = "never"
OPTIONS = (THIS_RUN, THIS_SESSION, NEVER)
"""What a display offers. `allow` with the answer `this session` lasts as long as the session, any other `allow` as
long as the run; `deny` with the answer `never` lasts as long as the session, any other denial as long as the run."""

MAX_QUESTIONS = 8


@dataclass(slots=True)
class Answers:
    """What a person has said, target by target; shared by all runs that it holds for.

    Attributes:
        said: Whether the target may be reached, with who said so.
    """

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
        deadline: float = 300.0,
    ) -> None:
        self._approver = approver
        self._run_id = run_id
        self._session_id = session_id
        self._clock: Clock = clock or SystemClock()
        self._deadline = deadline
        self._run = Answers()
        self._session = session or Answers()
        self._open: Once[Target, tuple[bool, str]] = Once()

    async def require(self, target: Target, sets: HostSets = HOST_SETS) -> str:
        """Who allowed it, as `name, for this run`; waits for an answer if there is none yet.

        Args:
            target: Host and port.
            sets: The sets of hosts that a person may grant by name.

        Raises:
            EgressDenied: somebody, a policy or the deadline said no, or nobody can be asked.
            ApprovalAborted: the person called the run off.
        """
        how = advice(target, sets)
        said = self._run.said.get(target) or self._session.said.get(target)
        if said is None:
            if self._approver is None:
                raise EgressDenied(target.host, target.port, "is not granted and nobody can be asked", how)
            if target not in self._open and len(self._open) >= MAX_QUESTIONS:
                raise EgressDenied(target.host, target.port, f"is not granted and {MAX_QUESTIONS} questions are open")
            approver = self._approver
            said = await self._open.share(target, lambda: self._ask(approver, target))
        allowed, by = said
        if not allowed:
            raise EgressDenied(target.host, target.port, f"was not approved: {by}", how)
        return by

    async def _ask(self, approver: Approver, target: Target) -> tuple[bool, str]:
        request = self._request(target)
        decision = await approver.approve(request)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        # An answer to another question must never open this door.
        allowed = decision.allowed and decision.approval_id == request.id
        for_session = decision.answer == (THIS_SESSION if allowed else NEVER)
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
