"""Something needs a person's word."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


class ApprovalError(KaguraError):
    """Something needs a person's word."""

    code = "ERR_APPROVAL"


class ApprovalRequired(ApprovalError):
    """An approval is needed and nobody is there who could give it."""

    code = "ERR_APPROVAL_REQUIRED"

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} needs an approval: {reason}.")
        self.subject = subject
        self.reason = reason


class ApprovalDenied(ApprovalError):
    """A person, a policy or the deadline said no."""

    code = "ERR_APPROVAL_DENIED"

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"{subject} was not approved: {why}.")
        self.subject = subject
        self.why = why


class ApprovalAborted(ApprovalError):
    """The person called the whole thing off while being asked."""

    code = "ERR_APPROVAL_ABORTED"

    def __init__(self, subject: str) -> None:
        super().__init__(f"The approval of {subject} was called off, and the run with it.")
        self.subject = subject


class ApprovalUnknown(ApprovalError):
    """No approval bears this id."""

    code = "ERR_APPROVAL_UNKNOWN"

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"There is no approval {approval_id!r}. `%kagura approvals` lists them.")
        self.approval_id = approval_id


class ApprovalExpired(ApprovalError):
    """Nobody answered by the deadline, which is a denial; this answer came later."""

    code = "ERR_APPROVAL_EXPIRED"

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            f"Approval {approval_id} had a deadline, and it is over: no answer is a denial. "
            "If the run goes on, it may ask again."
        )
        self.approval_id = approval_id


class ApprovalAlreadyDecided(ApprovalError):
    """Somebody was faster; the first decision stands."""

    code = "ERR_APPROVAL_DECIDED"

    def __init__(self, approval_id: str, verdict: str, by: str) -> None:
        super().__init__(f"Approval {approval_id} was already decided: {verdict} by {by}.")
        self.approval_id = approval_id
        self.verdict = verdict
        self.by = by
