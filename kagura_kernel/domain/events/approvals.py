"""Questions to a person, and their ends."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kagura_kernel.domain.events.base import Event


class ApprovalRequested(Event):
    """The run waits for a person. The fields are those of `domain.approvals.ApprovalRequest`."""

    kind: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    subject: str
    title: str
    detail: str
    reason: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    call_id: str = ""
    deadline: float = 300.0
    options: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    content_hash: str = ""


class ApprovalDecided(Event):
    """An approval ended, whoever or whatever ended it.

    Attributes:
        approval_id: Which.
        verdict: `allow`, `deny`, `timeout`, `aborted`.
        by: Who.
        via: Where.
        answer: Answer to a question, or a remark.
        content_hash: Hash of what was decided on.
        waited: Seconds.
    """

    kind: Literal["approval.decided"] = "approval.decided"
    approval_id: str
    verdict: str
    by: str
    via: str
    answer: str = ""
    content_hash: str = ""
    waited: float = 0.0


class MessageRefused(Event):
    """Something that came over a chat and was not done. `run_id` is empty where it was about no run.

    Attributes:
        transport: Which chat.
        operator: Whoever sent it, as the chat names them.
        message_id: Which message, or which click.
        why: Why not, one clause.
        approval_id: The approval that it was about; empty for none.
        times: How often this operator was refused this for this reason, as far as this process remembers.
        left_out: Refusals of whatever kind that had no row since the last one of this chat.
    """

    kind: Literal["message.refused"] = "message.refused"
    transport: str
    operator: str
    message_id: str
    why: str
    approval_id: str = ""
    times: int = 1
    left_out: int = 0
