"""What the routes that read answer with: from an open journal, in a thread, to the fields of the answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from kagura_kernel import __version__
from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.journal.lease_views import leases_out
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.pages import (
    ApprovalState,
    Page,
    RunState,
    StoredText,
    approval_page,
    counts,
    event_page,
    one_approval,
    one_run,
    run_page,
)
from kagura_kernel.journal.spending import budget_in_use, spent, spent_by_day
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server import answering

Item = TypeVar("Item")


def status(journal: Journal) -> dict[str, Any]:
    """The numbers of a status bar."""
    numbers = counts(journal)
    today = spent(journal, day=journal.clock.now().date())
    return {
        "version": __version__,
        "pending": numbers.pending,
        "live": numbers.live,
        "cost_today_usd": today.usd,
        "unpriced_today": today.unpriced_runs,
        "seq": numbers.seq,
    }


def runs(
    journal: Journal,
    *,
    limit: int,
    before: str,
    state: RunState | None,
    session_id: str,
    notebook: str,
    text: str,
) -> dict[str, Any]:
    """A page of runs."""
    page = run_page(
        journal, limit=limit, before=before, state=state, session_id=session_id, notebook=notebook, text=text
    )
    return _listed(page, answering.run_fields)


def run(journal: Journal, run_id: str) -> dict[str, Any]:
    """One run; raises `RunUnknown`."""
    return answering.run_fields(one_run(journal, run_id))


def run_events(journal: Journal, run_id: str, after: str, limit: int) -> dict[str, Any]:
    """A page of one run's events; raises `RunUnknown`, and `JournalUnreadable` where a row is no event."""
    page = event_page(journal, run_id, after=after, limit=limit)
    return {"items": [_event(journal, row) for row in page.items], "next": page.next}


def run_card(journal: Journal, run_id: str) -> dict[str, Any]:
    """The card of a run that is over, as a notebook keeps it: what its kernel could not tell a page that came later.

    Raises:
        RunUnknown: there is no such run.
        JournalUnreadable: it cannot be read.
    """
    from kagura_kernel.domain.errors import RunLost
    from kagura_kernel.journal.owner import owner_alive
    from kagura_kernel.journal.views import run_events as events_of

    row = one_run(journal, run_id)
    lost = row.live and not owner_alive(row.owner)
    if row.live and not lost:
        return {"over": False, "data": {}, "metadata": {}}
    # Drawing a card brings a second of imports in, which a server that shows none does without.
    from kagura_kernel.jupyter.cards.record import run_bundle
    from kagura_kernel.views.run import RunView

    view = RunView()
    for stored in events_of(journal, run_id):
        view.apply(stored.event)
    if lost:
        view.give_up(RunLost(run_id, "its process is gone"))
    data, metadata = run_bundle(view)
    return {"over": True, "data": data, "metadata": metadata}


def approvals(journal: Journal, limit: int, before: str, state: ApprovalState | None) -> dict[str, Any]:
    """A page of approvals."""
    return _listed(approval_page(journal, limit=limit, before=before, state=state), answering.approval_fields)


def approval(journal: Journal, approval_id: str) -> dict[str, Any]:
    """One approval; raises `ApprovalUnknown`."""
    return answering.approval_fields(one_approval(journal, approval_id))


def decision(journal: Journal, approval_id: str) -> dict[str, Any]:
    """How an approval was decided; empty while it waits; raises `ApprovalUnknown`."""
    decided = Mailbox(journal).decision(approval_id)
    return {} if decided is None else answering.decision_fields(decided)


def leases(journal: Journal) -> dict[str, Any]:
    """All leases that are out."""
    return {"items": [answering.lease_fields(view) for view in leases_out(journal)], "next": None}


def costs(journal: Journal, days: int, notebook: str, session_id: str) -> dict[str, Any]:
    """What runs cost today and on the days before, of one notebook or session, and against a budget."""
    today = journal.clock.now().date()
    first = today - timedelta(days=days - 1)
    narrow = bool(notebook or session_id)
    budget = budget_in_use(journal, notebook=notebook, session_id=session_id)
    return {
        "today": answering.spending_fields(spent(journal, day=today)),
        "notebook": answering.spending_fields(spent(journal, notebook=notebook, session_id=session_id))
        if narrow
        else None,
        "budget": None if budget is None else answering.budget_fields(budget),
        "by_day": [answering.day_fields(row) for row in spent_by_day(journal, first, today)],
    }


def _event(journal: Journal, row: StoredText) -> dict[str, Any]:
    try:
        return answering.event_fields(row)
    except ValueError as error:
        raise JournalUnreadable(journal.where, f"row {row.seq} is no event") from error


def _listed(page: Page[Item], fields: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
    return {"items": [fields(item) for item in page.items], "next": page.next}
