"""What a thread is told: how a run goes on, its end, and what it asks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kagura_kernel.cockpit.transports.plain import cut, one_line, visible
from kagura_kernel.cockpit.transports.transport import Button, Post
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    ChangesCollected,
    RunFinished,
    RunStarted,
    TextWritten,
    ToolCalled,
    VariableCrossed,
)
from kagura_kernel.journal.rows import RunRow

_ENDS = {
    "done": "Done",
    "failed": "Failed",
    "stopped": "Stopped by its limits",
    "killed": "Killed",
    "denied": "Not allowed to start",
    "lost": "Lost: the process that ran it is gone",
}
_SHOWN = 1500
"""Characters of what an agent says on the way."""

MOST_OPTIONS = 5
"""Buttons below one post."""


@dataclass
class RunTelling:
    """One run as a thread sees it, folded from its events.

    Attributes:
        run_id: Which.
        changed: Whether there is anything new since `post` was called last.
        finished: Its end; None while it goes on.
    """

    run_id: str
    changed: bool = True
    finished: RunFinished | None = None
    _started: bool = False
    _says: str = ""
    _does: str = ""
    _calls: int = 0
    _waits: set[str] = field(default_factory=set)
    _files: int = 0

    def take(self, event: AnyEvent) -> None:
        """Fold one event; those that a thread is not told of change nothing."""
        match event:
            case RunStarted():
                self._started = True
            case TextWritten():
                self._says = event.text
            case ToolCalled():
                self._calls += 1
                self._does = one_line(event.tool, 60)
            case ApprovalRequested():
                self._waits.add(event.approval_id)
            case ApprovalDecided():
                self._waits.discard(event.approval_id)
            case ChangesCollected():
                self._files = len(event.changes)
            case VariableCrossed() if not event.error:
                return
            case RunFinished():
                self.finished = event
            case _:
                return
        self.changed = True

    def post(self, limit: int, kill: Button | None) -> Post:
        """What stands in the thread now.

        Args:
            limit: Characters that the agent's words may have.
            kill: Stops the run, while it goes on.
        """
        self.changed = False
        if self.finished is not None:
            return end_post(self.finished, limit, files=self._files)
        state = "Waits for an answer" if self._waits else "Works" if self._started else "Begins"
        calls = f" · {_counted(self._calls, 'tool call')}, the last one {self._does}" if self._calls else ""
        says, _ = cut(self._says, min(limit, _SHOWN))
        return Post(f"{state} · {self.run_id}{calls}", says, () if kill is None else (kill,))


def end_post(end: RunFinished, limit: int, *, files: int) -> Post:
    """How a run ended, with its answer as far as it fits."""
    facts = [_ENDS.get(end.status, end.status), end.run_id, f"{end.duration:.0f} s"]
    usd = end.reported_usd if end.reported_usd is not None else end.computed_usd
    if usd is not None:
        facts.append(f"${usd:.2f}")
    if files:
        facts.append(f"{_counted(files, 'file')} changed: /changes, /apply, /discard")
    if end.verified is False:
        facts.append("its work did not pass its verification")
    if end.error_code:
        facts.append(end.error_code)
    told, more = cut(end.text or end.error, limit)
    if more:
        facts.append("the whole answer is in the file")
    return Post(" · ".join(facts), told)


def lost_post(run: RunRow) -> Post:
    """How a run ended of which no more is known than its row."""
    return Post(f"{_ENDS.get(run.status, run.status)} · {run.run_id}. Say it again to start over.")


def question_post(request: ApprovalRequest, token: str, limit: int) -> tuple[Post, bool]:
    """A question with its buttons; and whether it does not fit, so that it has to be sent as a file beforehand."""
    told, more = cut(question_text(request), limit)
    lineage = f", which works for {request.lineage[-1]}" if request.lineage else ""
    kind = str(request.kind).replace("_", " ")
    head = f"{request.run_id}{lineage} asks · {kind} · {request.id} · no answer within {request.deadline:.0f} s is a no"
    if more:
        head += " · read the file first: this is only its beginning"
    return Post(head, told, _buttons(request, token)), more


def question_text(request: ApprovalRequest) -> str:
    """A question in full."""
    parts = [visible(request.title), visible(request.detail)]
    if request.reason:
        parts.append(f"Reason given by the asker: {visible(request.reason)}")
    return "\n".join(dict.fromkeys(part for part in parts if part.strip()))


def decided_post(request: ApprovalRequest | None, decision: Decision, limit: int) -> Post:
    """What stands in the place of a question that is answered."""
    words = {
        Verdict.ALLOW: "Allowed",
        Verdict.DENY: "Denied",
        Verdict.TIMEOUT: "Nobody answered in time, which is a no",
        Verdict.ABORTED: "Called off",
    }
    told = "" if request is None else cut(question_text(request), limit)[0]
    answer = f": {one_line(decision.answer, 200)}" if decision.answer else ""
    by = f"{one_line(decision.by, 80)} ({one_line(decision.via, 20)})"
    return Post(f"{words[decision.verdict]} · {decision.approval_id} · {by}{answer}", told)


def status_text(running: Sequence[RunRow], pending: Sequence[ApprovalRequest], session_id: str) -> str:
    """What goes on, this thread first."""
    ours = [row for row in running if row.session_id == session_id]
    others = [row for row in running if row.session_id != session_id]
    lines = [f"Here {row.run_id} {row.status.replace('_', ' ')}." for row in ours] or [
        "Nothing goes on in this thread."
    ]
    if others:
        lines.append(f"{_counted(len(others), 'run')} elsewhere: {', '.join(row.run_id for row in others[:10])}.")
    if pending:
        lines.append(f"{_counted(len(pending), 'approval')} waiting: {', '.join(one.id for one in pending[:10])}.")
    return " ".join(lines)


def _buttons(request: ApprovalRequest, token: str) -> tuple[Button, ...]:
    if request.kind is ApprovalKind.QUESTION:
        return tuple(
            Button(one_line(option, 70), f"o{number}:{request.id}:{token}")
            for number, option in enumerate(request.options[:MOST_OPTIONS])
        )
    return (
        Button("Allow", f"allow:{request.id}:{token}", "good"),
        Button("Deny", f"deny:{request.id}:{token}", "bad"),
    )


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
