"""`kagura-kernel approve` and `deny`: answers an approval of any process; the first answer wins."""

from __future__ import annotations

import sys
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json
from kagura_kernel.cockpit.naming import here_of, named_approval
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

HEARD, NOBODY_HEARS = 0, 1


def run(arguments: SimpleNamespace) -> int:
    """Leave the answer where the run that asked finds it; 1 when that run's process is gone, so that nobody does.

    Raises:
        ApprovalUnknown: there is no such approval.
        ApprovalAlreadyDecided: somebody, or the deadline, was faster.
        ApprovalExpired: its deadline is over.
        UsageError: there is no journal, or a word is the end of several ids.
        JournalError: it cannot be used.
    """
    from kagura_kernel.domain.approvals import Verdict
    from kagura_kernel.journal.mailbox import Mailbox

    verdict = Verdict.ALLOW if arguments.action == "approve" else Verdict.DENY
    with open_journal(place_of(arguments)) as journal:
        approval_id = named_approval(journal, arguments.approval, here_of())
        heard = _heard(journal, approval_id)
        answer = " ".join(arguments.answer)
        mailbox = Mailbox(journal)
        decision = mailbox.decide(approval_id, verdict, by=person(), via="terminal", answer=answer, in_time=True)
    if arguments.json:
        print(as_json(asdict(decision) | {"heard": heard}))
    else:
        print(f"{decision.approval_id}: {'allowed' if decision.allowed else 'denied'}.")
    if not heard:
        print("The process that asked is gone: nobody acts on this answer.", file=sys.stderr)
    return HEARD if heard else NOBODY_HEARS


def _heard(journal: Journal, approval_id: str) -> bool:
    """Whether the run that asked still has a process."""
    from kagura_kernel.journal import views
    from kagura_kernel.journal.mailbox import Mailbox
    from kagura_kernel.journal.owner import owner_alive

    asking = {request.run_id for request in Mailbox(journal).pending() if request.id == approval_id}
    return any(row.run_id in asking and owner_alive(row.owner) for row in views.unfinished(journal))
