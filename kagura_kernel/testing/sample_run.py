"""A run told as events, for tests of whatever stores or shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    Noted,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolFinished,
    TurnCounted,
)


@dataclass(frozen=True, slots=True)
class SampleRun:
    """The facts of one run; each method gives a fresh event, with what the test wants to be different.

    Attributes:
        run_id: Its id.
        session_id: Its session.
        at: The time of all its events.
    """

    run_id: str = "run-1"
    session_id: str = "ses-1"
    at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)

    @property
    def _base(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "session_id": self.session_id, "at": self.at}

    def started(self, **changes: Any) -> RunStarted:
        """The run was let in."""
        return RunStarted(**{**self._base, "task": "count the rows", "brain": "claude", "user": "ada"} | changes)

    def noted(self, text: str = "something to know") -> Noted:
        """A remark."""
        return Noted(**self._base, text=text)

    def tool(self, number: int = 1) -> tuple[ToolCalled, ToolFinished]:
        """A call and its answer."""
        call = f"call-{number}"
        return (
            ToolCalled(**self._base, call_id=call, tool="bash", arguments={"command": "wc -l data.csv"}),
            ToolFinished(**self._base, call_id=call, tool="bash", text="12 data.csv", exit_code=0, route="sandbox"),
        )

    def counted(self, **changes: Any) -> TurnCounted:
        """A turn of the brain."""
        figures = {"model": "m-1", "input_tokens": 100, "output_tokens": 10, "computed_usd": 0.5, "source": "list 1"}
        return TurnCounted(**self._base | figures | changes)

    def request(self, approval_id: str = "app-1", **changes: Any) -> ApprovalRequest:
        """A question for a person."""
        values: dict[str, Any] = {
            "id": approval_id,
            "run_id": self.run_id,
            "session_id": self.session_id,
            "kind": ApprovalKind.HOST_COMMAND,
            "title": "Run a command on this machine",
            "detail": "git push",
            "requested_at": self.at,
            "reason": "the box has no network",
            "arguments": {"command": "git push"},
            "call_id": "call-1",
        }
        return ApprovalRequest(**values | changes)

    def asked(self, approval_id: str = "app-1", **changes: Any) -> ApprovalRequested:
        """The same question as an event."""
        request = self.request(approval_id, **changes)
        return ApprovalRequested(
            run_id=self.run_id,
            session_id=self.session_id,
            at=request.requested_at,
            approval_id=request.id,
            subject=request.kind,
            title=request.title,
            detail=request.detail,
            reason=request.reason,
            arguments=dict(request.arguments),
            call_id=request.call_id,
            deadline=request.deadline,
            options=request.options,
            content_hash=request.content_hash,
        )

    def decided(self, approval_id: str = "app-1", **changes: Any) -> ApprovalDecided:
        """Its answer."""
        answer = {"approval_id": approval_id, "verdict": "allow", "by": "ada", "via": "cell"}
        return ApprovalDecided(**self._base | answer | changes)

    def finished(self, **changes: Any) -> RunFinished:
        """The run is over."""
        ledger = {"status": "done", "brain": "claude", "model": "m-1", "duration": 2.5, "tool_calls": 1, "turns": 1}
        return RunFinished(**self._base | ledger | changes)
