"""An approver whose answers are written down beforehand."""

from __future__ import annotations

from datetime import UTC, datetime

from kagura_kernel.domain.approvals import ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAborted


class ScriptedApprover:
    """Answers in order, then denies; `requests` keeps what it was asked."""

    def __init__(self, *verdicts: Verdict, answer: str = "", via: str = "test") -> None:
        self.requests: list[ApprovalRequest] = []
        self._verdicts = list(verdicts)
        self._answer = answer
        self._via = via

    async def approve(self, request: ApprovalRequest) -> Decision:
        """The next verdict of the script.

        Raises:
            ApprovalAborted: the script says so.
        """
        self.requests.append(request)
        verdict = self._verdicts.pop(0) if self._verdicts else Verdict.DENY
        if verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        return Decision(request.id, verdict, "script", self._via, datetime.now(UTC), self._answer)
