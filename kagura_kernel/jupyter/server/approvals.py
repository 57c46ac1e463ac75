"""Approvals, and deciding one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kagura_kernel.domain.errors import ApprovalAlreadyDecided, KaguraError
from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ActingHandler, ReadingHandler, Refusal, refusal

if TYPE_CHECKING:
    from kagura_kernel.journal.pages import ApprovalState
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question

RESOURCE = "kagura_approvals"


class ApprovalsHandler(ReadingHandler):
    """Approvals, the newest first."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """A page of those that wait, of those that are decided, or of all."""
        del names
        limit = asking.number("limit", self.word("limit"), 50, asking.MOST_ROWS)
        before = asking.short("before", self.word("before"))
        state = cast("ApprovalState | None", asking.one_of("state", self.word("state"), ("pending", "decided")))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.approvals(journal, limit, before, state)

        return ask


class ApprovalHandler(ReadingHandler):
    """One approval."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """The approval that the path names."""
        (approval_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.approval(journal, approval_id)

        return ask


class DecisionHandler(ActingHandler):
    """Deciding one approval."""

    auth_resource = RESOURCE

    done_status = 200

    def deed(self, name: str, by: str) -> Question:
        """Leave the decision; the first one stands, and whoever comes later is told which that is."""
        verdict, said = asking.decision(self.body(asking.DECISION_FIELDS))

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.decide(journal, name, verdict, said, by)

        return act

    async def refused(self, error: KaguraError) -> Refusal:
        """Whoever came too late is told the decision that stands."""
        if not isinstance(error, ApprovalAlreadyDecided):
            return refusal(error)
        approval_id = error.approval_id

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.decision(journal, approval_id)

        try:
            return refusal(error, {"decision": await self.source.read(ask)})
        except KaguraError as trouble:
            return refusal(trouble)
