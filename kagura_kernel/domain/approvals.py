"""Asking for more power: the question, the answer, whoever can be asked, and how often."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.settings import DEFAULTS


class ApprovalKind(StrEnum):
    """What is asked for."""

    LAUNCH = "launch"
    HOST_COMMAND = "host_command"
    NETWORK = "network"
    CREDENTIAL = "credential"
    PLUGIN = "plugin"
    TOOL = "tool"
    WRITE = "write"
    PLAN = "plan"
    """To begin, with what it is expected to cost."""
    TRUST = "trust"
    """To be asked no more about a category of deeds."""
    QUESTION = "question"


class Verdict(StrEnum):
    """How an approval ended. Only `allow` grants anything."""

    ALLOW = "allow"
    DENY = "deny"
    TIMEOUT = "timeout"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One thing that needs a person's word."""

    id: str  # `app-…`
    run_id: str  # The run that asks
    session_id: str
    kind: ApprovalKind  # What is asked for
    title: str  # One line, what would happen
    detail: str  # In full: the whole command, host, or text; nothing is shortened
    requested_at: datetime  # When, UTC
    # Why it cannot be done in the box, in the asker's words (a model's words are marked as such by displays)
    reason: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)  # The exact arguments that would be used
    call_id: str = ""  # The tool call it belongs to
    deadline: float = DEFAULTS.approval_deadline  # Seconds until no answer becomes a denial
    options: tuple[str, ...] = ()  # For a question: the answers offered; empty means free text
    # The runs that the asking one works for, the first one first; empty for a person's own
    lineage: tuple[str, ...] = ()
    # What is kept for an answer where nobody waits for one any more
    withdrawn: str = "the run ended before an answer came"

    @property
    def content_hash(self) -> str:
        """SHA-256 over kind, detail and arguments: what exactly was approved."""
        content = json.dumps([self.kind, self.detail, dict(self.arguments)], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def asked_fields(request: ApprovalRequest) -> dict[str, Any]:
    """What an `ApprovalRequested` event says of a request, beside whose event it is and when."""
    return {
        "approval_id": request.id,
        "subject": request.kind,
        "title": request.title,
        "detail": request.detail,
        "reason": request.reason,
        "arguments": dict(request.arguments),
        "call_id": request.call_id,
        "deadline": request.deadline,
        "options": request.options,
        "lineage": request.lineage,
        "content_hash": request.content_hash,
    }


@dataclass(frozen=True, slots=True)
class Decision:
    """How one approval was answered."""

    approval_id: str
    verdict: Verdict  # Only `allow` grants anything
    by: str  # Who: a user name, `policy`, or `deadline`
    via: str  # Where: `cell`, `command`, `sidebar`, `terminal`, `policy`, `deadline`, …
    at: datetime  # When, UTC
    answer: str = ""  # The text answered to a question; otherwise a remark

    @property
    def allowed(self) -> bool:
        """Whether the thing may be done."""
        return self.verdict is Verdict.ALLOW

    @property
    def refusal(self) -> str:
        """Who did not allow it, and what they remarked, as a clause."""
        if self.verdict is Verdict.TIMEOUT:
            return "nobody answered in time"
        if self.via == "policy" and self.answer:
            return self.answer
        remark = f" ({self.answer})" if self.answer else ""
        return f"{self.by} said no{remark}"


class Approver(Protocol):
    """Whoever answers approvals: a desk with people at it, or a policy."""

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Wait for an answer; the deadline is one. Cancelling the wait closes the question.

        Raises:
            ApprovalAborted: the person called the run off.
        """
        ...


MAX_REFUSED = 3
"""Refusals in a row, unanswered questions included; whoever says no so often does not want to be asked."""

MAX_OPEN = 8
"""Questions of one kind that may wait at once."""

LIMIT = "the limit on questions"
"""Who said no where nobody was asked."""


class Patience:
    """Counts the answers to the questions of one run, each kind for itself. Used on one loop."""

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._open: Counter[str] = Counter()

    def refused(self, kind: str) -> int:
        """How many questions of a kind were refused in a row, once these are too many; 0 before."""
        return self._refused[kind] if self._refused[kind] >= MAX_REFUSED else 0

    def why_not(self, kind: str) -> str:
        """Why one more question of a kind is not put, as a clause for whoever asks; empty where it may be."""
        words = kind.replace("_", " ")
        if refused := self.refused(kind):
            return (
                f"{refused} questions of the kind “{words}” were refused in a row, so this run puts no more of them: "
                "go on without, or say in the answer what you would have needed"
            )
        if self._open[kind] >= MAX_OPEN:
            return f"{MAX_OPEN} questions of the kind “{words}” wait for an answer already: wait for those first"
        return ""

    def asks(self, kind: str) -> None:
        """A question is put."""
        self._open[kind] += 1

    def withdrawn(self, kind: str) -> None:
        """A question waits no longer, answered or not."""
        self._open[kind] -= 1

    def heard(self, kind: str, decision: Decision) -> None:
        """A question is answered. A policy's no is nobody's refusal."""
        if decision.allowed:
            self._refused[kind] = 0
        elif decision.verdict is not Verdict.ABORTED and decision.by != "policy":
            self._refused[kind] += 1
