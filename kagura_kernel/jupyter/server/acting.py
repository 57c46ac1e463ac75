"""What the routes that act do: leave a decision or a word in the mailbox. In a thread, on an open journal."""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import RunOver
from kagura_kernel.journal.lease_views import revoke_lease
from kagura_kernel.journal.mailbox import Mailbox, ask_to_stop
from kagura_kernel.journal.pages import one_run
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server import answering

VIA = "sidebar"


def decide(journal: Journal, approval_id: str, verdict: Verdict, answer: str, by: str) -> dict[str, Any]:
    """Decide an approval, in time and first.

    Raises:
        ApprovalUnknown: there is no such approval.
        ApprovalAlreadyDecided: somebody was faster.
        ApprovalExpired: its deadline is over.
        JournalError: it could not be written down.
    """
    decided = Mailbox(journal).decide(approval_id, verdict, by=by, via=VIA, answer=answer, in_time=True)
    return answering.decision_fields(decided)


def kill(journal: Journal, run_id: str, by: str) -> dict[str, Any]:
    """Ask a run to stop; one whose process is gone is marked as lost instead.

    Raises:
        RunUnknown: there is no such run.
        RunOver: it has ended.
        JournalError: it could not be written down.
    """
    was = one_run(journal, run_id)
    if not was.live:
        raise RunOver(run_id, was.status)
    told = ask_to_stop(journal, [run_id], by=by)
    return {"run_id": run_id, "state": "stopping" if run_id in told else one_run(journal, run_id).status}


def revoke(journal: Journal, lease_id: str, by: str) -> dict[str, Any]:
    """Take a lease back; its run gives it back to its provider.

    Raises:
        UnknownName: there is no such lease.
        LeaseEnded: it is over.
        JournalError: it could not be written down.
    """
    return {"lease_id": lease_id, "run_id": revoke_lease(journal, lease_id, by=by), "state": "owed"}
