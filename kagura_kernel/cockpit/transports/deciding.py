"""Answering an approval over a chat: only while a run that goes on waits for it."""

from __future__ import annotations

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.domain.errors import ApprovalError
from kagura_kernel.journal import views


class Refused(Exception):
    """Something that came over a chat and is not done; the text says why, as a clause.

    Attributes:
        approval_id: The approval that it was about; empty for none.
    """

    def __init__(self, why: str, approval_id: str = "") -> None:
        super().__init__(why)
        self.approval_id = approval_id


def open_request(cockpit: Cockpit, approval_id: str) -> ApprovalRequest:
    """The approval, if a run that goes on still waits for it.

    Raises:
        Refused: it is decided, unknown, or the run that asked is over.
    """
    request = next((one for one in cockpit.pending() if one.id == approval_id), None)
    if request is None:
        raise Refused("this approval is decided already, or there is none of this name", approval_id)
    if request.run_id not in {row.run_id for row in views.unfinished(cockpit.journal)}:
        raise Refused("the run that asked is over", approval_id)
    return request


def decide(cockpit: Cockpit, approval_id: str, *, allow: bool, by: str, via: str, answer: str) -> Decision:
    """Answer an approval; blocks.

    Raises:
        Refused: it cannot be answered any more.
    """
    open_request(cockpit, approval_id)
    try:
        return cockpit.decide(approval_id, allow, by=by, via=via, answer=answer)
    except ApprovalError as error:
        raise Refused(error.message.rstrip("."), approval_id) from error
