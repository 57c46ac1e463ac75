"""Answering an approval over a chat: only while a run that goes on waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.telling import IN_FULL, fits, whole_file
from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.domain.errors import ApprovalError
from kagura_kernel.journal import views
from kagura_kernel.journal.chats import ChatBook


class Refused(Exception):
    """Something that came over a chat and is not done; the text says why, as a clause.

    Attributes:
        approval_id: The approval that it was about; empty for none.
    """

    def __init__(self, why: str, approval_id: str = "") -> None:
        super().__init__(why)
        self.approval_id = approval_id


@dataclass(frozen=True, slots=True)
class Deciding:
    """Answers approvals over one chat.

    Attributes:
        cockpit: What is acted on.
        book: What stands in the chat.
        via: The chat's name, which the journal has as the way of an answer.
        limit: Characters of a question that can be shown there.
    """

    cockpit: Cockpit
    book: ChatBook
    via: str
    limit: int

    def open_request(self, approval_id: str) -> ApprovalRequest:
        """The approval, if a run that goes on still waits for it; blocks.

        Raises:
            Refused: it is decided, unknown, or the run that asked is over.
        """
        request = next((one for one in self.cockpit.pending() if one.id == approval_id), None)
        if request is None:
            raise Refused("this approval is decided already, or there is none of this name", approval_id)
        if request.run_id not in {row.run_id for row in views.unfinished(self.cockpit.journal)}:
            raise Refused("the run that asked is over", approval_id)
        return request

    def decide(self, approval_id: str, *, allow: bool, by: str, answer: str) -> Decision:
        """Answer an approval; blocks.

        Raises:
            Refused: it cannot be answered any more, or is to be allowed though this chat has only a part of it.
        """
        request = self.open_request(approval_id)
        if allow and self._is_cut(request):
            raise Refused(f"only a part of it stands here: {IN_FULL}", approval_id)
        try:
            return self.cockpit.decide(approval_id, allow, by=by, via=self.via, answer=answer)
        except ApprovalError as error:
            raise Refused(error.message.rstrip("."), approval_id) from error

    def _is_cut(self, request: ApprovalRequest) -> bool:
        """Whether it stands in this chat without what does not fit: nobody allows what cannot be read."""
        if fits(request, self.limit) or self.book.post_about(request.id) is None:
            return False
        return self.book.post_about(whole_file(request.id)) is None
