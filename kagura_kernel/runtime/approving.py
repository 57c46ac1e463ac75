"""Who can be asked, injected by context, and how a question to them is put.

The approver is a context variable, so that a run's tasks and threads started with its context see it and nobody else's.
Without one every question ends in `ApprovalRequired`: nobody is there is not the same as somebody said no.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.domain.approvals import LIMIT, ApprovalKind, ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, ApprovalDenied, ApprovalRequired
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.settings import DEFAULTS

_APPROVER: ContextVar[Approver | None] = ContextVar("kagura_approver", default=None)


@contextmanager
def use_approver(approver: Approver | None) -> Iterator[None]:
    """Everything inside the block, and every task started there, asks this approver; None takes it away."""
    token = _APPROVER.set(approver)
    try:
        yield
    finally:
        _APPROVER.reset(token)


def current_approver() -> Approver | None:
    """Who can be asked here; None when nobody can."""
    return _APPROVER.get()


@dataclass(frozen=True, slots=True)
class Asker:
    """Puts the questions of one run."""

    run_id: str = ""  # The run that asks
    session_id: str = ""
    clock: Clock = field(default_factory=SystemClock)  # Where the time of asking comes from
    deadline: float = DEFAULTS.approval_deadline  # Seconds until no answer is a denial

    async def ask(
        self,
        kind: ApprovalKind,
        title: str,
        detail: str,
        *,
        subject: str = "",
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        call_id: str = "",
        options: tuple[str, ...] = (),
    ) -> Decision:
        """The answer, whatever it is, timeouts included; `subject` names the thing in errors, `title` if left out.

        Raises:
            ApprovalRequired: nobody can be asked here.
            ApprovalAborted: the person called the run off.
        """
        approver = current_approver()
        if approver is None:
            raise ApprovalRequired(subject or title, reason or "it is a person's decision")
        request = ApprovalRequest(
            id=new_approval_id(),
            run_id=self.run_id,
            session_id=self.session_id,
            kind=kind,
            title=title,
            detail=detail,
            requested_at=self.clock.now(),
            reason=reason,
            arguments=dict(arguments or {}),
            call_id=call_id,
            deadline=self.deadline,
            options=options,
        )
        decision = await approver.approve(request)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(subject or title)
        if decision.approval_id != request.id:
            # An answer to another question must never open this door.
            raise ApprovalDenied(subject or title, f"the answer belongs to {decision.approval_id}")
        return decision


def require_allowed(decision: Decision, subject: str) -> Decision:
    """The decision itself when it allows.

    Raises:
        ApprovalDenied: it does not; the text says who said no, and the remark they left.
    """
    if decision.allowed:
        return decision
    if decision.verdict is Verdict.TIMEOUT:
        raise ApprovalDenied(subject, "nobody answered in time")
    if decision.by == LIMIT:
        raise ApprovalDenied(subject, decision.answer)
    remark = f" ({decision.answer})" if decision.answer else ""
    raise ApprovalDenied(subject, f"{decision.by} said no{remark}")
