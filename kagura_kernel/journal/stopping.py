"""Stopping a run of any process: the word is left in the mailbox, and a run that cannot hear it is marked as lost."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.errors import RunUnknown
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import mark_lost, owner_alive
from kagura_kernel.journal.store import Journal


def ask_to_stop(journal: Journal, run_ids: Sequence[str], *, by: str) -> dict[str, str]:
    """Leave each of these runs the word to stop; those that can hear it, each with its process.

    The others are over: they had ended, or their process is gone and they are marked as lost now, like every other
    such run.

    Raises:
        RunUnknown: there is no such run; no word was left for any.
        JournalError: the journal cannot be used.
    """
    owners = {row.run_id: row.owner for row in views.unfinished(journal)}
    for run_id in run_ids:
        if run_id not in owners and not journal.events(run_id=run_id, limit=1):
            raise RunUnknown(run_id)
    mark_lost(journal)
    told = {run_id: owners[run_id] for run_id in run_ids if run_id in owners and owner_alive(owners[run_id])}
    for run_id in told:
        Mailbox(journal).send(run_id, "kill", by=by)
    return told
