"""A run told as events, for tests of whatever stores or shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, asked_fields
from kagura_kernel.domain.commits import CommittedBranch
from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    BoxStarted,
    CommitsTold,
    EgressClosed,
    EgressDecided,
    LeaseChanged,
    LeaseUsed,
    MountRow,
    Noted,
    RunFinished,
    RunGranted,
    RunStarted,
    TextWritten,
    ToolCalled,
    ToolFinished,
    TurnCounted,
)

HTTPS = 443


@dataclass(frozen=True, slots=True)
class SampleRun:
    """The facts of one run; each method gives a fresh event, with what the test wants to be different."""

    run_id: str = "run-1"
    session_id: str = "ses-1"
    at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)  # The time of all its events

    @property
    def _base(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "session_id": self.session_id, "at": self.at}

    def started(self, **changes: Any) -> RunStarted:
        """The run was let in."""
        return RunStarted(**{**self._base, "task": "count the rows", "brain": "claude", "user": "ada"} | changes)

    def boxed(self, **changes: Any) -> BoxStarted:
        facts = {"box_id": "box-1", "backend": "docker", "image": "kagura/python:latest", "isolation": "container"}
        return BoxStarted(**self._base | facts | {"reason": "Docker answers and the image is built"} | changes)

    def noted(self, text: str = "something to know") -> Noted:
        """A remark."""
        return Noted(**self._base, text=text)

    def said(self, text: str) -> TextWritten:
        """A passage of the brain's answer."""
        return TextWritten(**self._base, text=text)

    def tool(self, number: int = 1) -> tuple[ToolCalled, ToolFinished]:
        call = f"call-{number}"
        return (
            ToolCalled(**self._base, call_id=call, tool="bash", arguments={"command": "wc -l data.csv"}, offered=True),
            ToolFinished(
                **self._base, call_id=call, tool="bash", text="12 data.csv", exit_code=0, route="sandbox", offered=True
            ),
        )

    def counted(self, **changes: Any) -> TurnCounted:
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
            run_id=self.run_id, session_id=self.session_id, at=request.requested_at, **asked_fields(request)
        )

    def decided(self, approval_id: str = "app-1", **changes: Any) -> ApprovalDecided:
        """Its answer."""
        answer = {"approval_id": approval_id, "verdict": "allow", "by": "ada", "via": "cell"}
        return ApprovalDecided(**self._base | answer | changes)

    def granted(self, **changes: Any) -> RunGranted:
        """What the run is given; more than an ordinary one."""
        given = {
            "mounts": (MountRow(source="/home/ada/sales", target="/workspace"),),
            "credentials": ("github:read",),
            "egress": ("python-packages", "api.github.com"),
            "beyond": ("may reach api.github.com", "may hold github:read for at most 1 h in all"),
        }
        return RunGranted(**self._base | given | changes)

    def egress_asked(self, host: str, port: int = 443, number: int = 1, **changes: Any) -> ApprovalRequested:
        """A question about a host, as the membrane asks it."""
        values = {
            "kind": ApprovalKind.NETWORK,
            "title": f"Let the box connect to {host}:{port}",
            "detail": f"TCP connections from the box to {host}:{port}. What the box knows can be sent there.",
            "reason": "A program in the box asks for a host that is not granted.",
            "arguments": {"host": host, "port": port},
            "call_id": "",
            "options": ("this run", "this session", "never"),
        }
        return self.asked(f"app-net-{number}", **values | changes)

    def refused(self, host: str = "example.com", port: int = 443, times: int = 1, **changes: Any) -> EgressDecided:
        """A connection that was not made."""
        word = host if port == HTTPS else f"{host}:{port}"
        reason = f"{host}:{port} is not granted to this run. Grant it with: --net {word}"
        facts = {"connection_id": "con-0", "host": host, "port": port, "allowed": False, "reason": reason}
        return EgressDecided(**self._base | facts | {"times": times} | changes)

    def reached(self, host: str = "pypi.org", number: int = 1, **changes: Any) -> tuple[EgressDecided, EgressClosed]:
        """A connection that was made, and its end; `changes` are the end's."""
        facts = {"connection_id": f"con-{number}", "host": host, "port": HTTPS}
        decided = EgressDecided(**self._base | facts, allowed=True, rule="python-packages")
        figures = {"address": "198.51.100.7", "bytes_out": 1_840, "bytes_in": 48_213, "duration": 0.4}
        return decided, EgressClosed(**self._base | facts | figures | changes)

    def lease(self, change: str = "acquired", lease_id: str = "lea-1", **changes: Any) -> LeaseChanged:
        """Something happened to a lease."""
        facts: dict[str, Any] = {"lease_id": lease_id, "provider": "github", "scope": "read", "change": change}
        if change in {"acquired", "renewed"}:
            facts |= {"expires_at": self.at + timedelta(minutes=15), "seconds_left": 2700.0, "renewals_left": 5}
            facts |= {"way": "header", "place": "http://127.0.0.1:8017"}
        return LeaseChanged(**self._base | facts | changes)

    def used(self, path: str = "/user", lease_id: str = "lea-1", **changes: Any) -> LeaseUsed:
        """A request to which a credential was added."""
        facts: dict[str, Any] = {"lease_id": lease_id, "provider": "github", "scope": "read", "method": "GET"}
        facts |= {"host": "api.github.com:443", "path": path, "status": 200, "bytes_in": 1_204, "duration": 0.12}
        return LeaseUsed(**self._base | facts | changes)

    def committed(self, *branches: CommittedBranch) -> CommitsTold:
        """It committed to branches, or something became of what it committed."""
        return CommitsTold(**self._base, branches=branches)

    def finished(self, **changes: Any) -> RunFinished:
        """The run is over."""
        ledger = {"status": "done", "brain": "claude", "model": "m-1", "duration": 2.5, "tool_calls": 1, "turns": 1}
        return RunFinished(**self._base | ledger | changes)
