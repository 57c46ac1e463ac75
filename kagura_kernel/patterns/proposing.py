"""The question whether a category is to be trusted from now on, with all that a person needs to decide it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.categories import Category
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.journal.trust import Standing
from kagura_kernel.patterns.graduation import evidence_lines, names_words

ANSWER_SECONDS = 60.0
"""How long a run that is over waits for the answer; afterwards the proposal stands, to be granted by a command."""


_STILL_ASKED = (
    "whatever is not exactly understood as that alone, names that it has not gone well with, and runs that saw "
    "quarantined memories"
)


def proposal(category: Category, standing: Standing, now: datetime, *, run_id: str, session_id: str) -> ApprovalRequest:
    """The question."""
    return ApprovalRequest(
        id=new_approval_id(),
        run_id=run_id,
        session_id=session_id,
        kind=ApprovalKind.TRUST,
        title=f"Trust {category.name} from now on?",
        detail=proposal_text(category, standing, now),
        reason="It has gone well often enough, in different tasks and over a long enough time.",
        arguments={
            "category": category.name,
            "runs": [success.run_id for success in standing.successes],
            "tasks": standing.tasks,
            "days": round(standing.spread(now) / timedelta(days=1), 1),
        },
        requested_at=now,
        deadline=ANSWER_SECONDS,
    )


def proposal_text(category: Category, standing: Standing, now: datetime) -> str:
    """What speaks for it, what would not be asked any more, what still would, and how to take it back."""
    days = standing.spread(now) / timedelta(days=1)
    runs = f"{len(standing.successes)} runs with {standing.tasks} different tasks over {days:.3g} days, and no failure"
    return "\n".join(
        (
            f"What speaks for it: {runs}.",
            *(f"  {line}" for line in evidence_lines(standing)),
            f"Not asked any more: {category.about}{names_words(standing)}.",
            f"Still asked: {_STILL_ASKED}.",
            f"Taken back by one failure, and by `%kagura graduation revoke {category.name}`.",
        )
    )
