"""A person's word that a run went well: for which categories it counts, told from the journal's rows alone."""

from __future__ import annotations

from collections.abc import Iterable

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import NotThisTime
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Event, RunStarted
from kagura_kernel.journal.rows import RunRow, StoredEvent
from kagura_kernel.patterns.categories import BY_NAME, categorise, goes_to
from kagura_kernel.patterns.graduation import is_persons


def require_evidence(row: RunRow) -> None:
    """Whether a run can show anything at all.

    Raises:
        NotThisTime: it cannot; says why.
    """
    why = ""
    if row.flavour != "agent" or row.lineage:
        why = "it is no run of an agent that a person has given its task"
    elif row.status != "done":
        why = f"it is not done, but {row.status.replace('_', ' ')}"
    elif row.untrusted:
        why = "it was shown memories that nobody had promoted"
    elif row.verified is False:
        why = "its verification failed"
    if why:
        raise NotThisTime(f"{row.run_id} is no evidence: {why}.")


def allowed_categories(rows: Iterable[StoredEvent], held: Iterable[str]) -> dict[str, frozenset[str]]:
    """The categories in which a person has allowed something, in their order, each with the names that it went to.

    Args:
        rows: The run's `approval.requested` and `approval.decided` rows.
        held: The credentials that runs had held before it began.
    """
    before, asked, found = frozenset(held), dict[str, ApprovalRequest](), dict[str, frozenset[str]]()
    for row in rows:
        match row.event:
            case ApprovalRequested() as event:
                asked[event.approval_id] = _request(event)
            case ApprovalDecided() as event if event.approval_id in asked and _is_persons_yes(event):
                request = asked[event.approval_id]
                category = categorise(request, before)
                if category is not None and BY_NAME[category].graduates:
                    found[category] = found.get(category, frozenset()) | goes_to(request)
            case _:
                pass
    return found


def task_of(events: Iterable[Event]) -> str:
    """What a run was asked to do."""
    return next((event.task for event in events if isinstance(event, RunStarted)), "")


def _request(event: ApprovalRequested) -> ApprovalRequest:
    return ApprovalRequest(
        event.approval_id,
        event.run_id,
        event.session_id,
        ApprovalKind(event.subject),
        event.title,
        event.detail,
        event.at,
        arguments=event.arguments,
    )


def _is_persons_yes(event: ApprovalDecided) -> bool:
    verdict = Verdict(event.verdict)
    decision = Decision(event.approval_id, verdict, event.by, event.via, event.at)
    return verdict is Verdict.ALLOW and is_persons(decision)
