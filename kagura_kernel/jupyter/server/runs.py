"""What the routes about runs, approvals, leases and costs answer with, and do. In a thread, on an open journal.

Those that act leave a decision or a word in the mailbox, or a row that whoever is concerned reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Any, TypeVar, cast

from kagura_kernel import __version__, redact
from kagura_kernel.domain.approval_content import asked
from kagura_kernel.domain.approvals import Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided, JournalUnreadable, RunLost, RunOver
from kagura_kernel.domain.sentences import LONGEST, Sentence
from kagura_kernel.journal import pages, sentences, views
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.leases import leases_out, revoke_lease
from kagura_kernel.journal.mailbox import Mailbox, ask_to_stop
from kagura_kernel.journal.pages import ApprovalState, RunState, StoredText
from kagura_kernel.journal.rows import ApprovalRow
from kagura_kernel.journal.spending import budget_in_use, spent, spent_by_day
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server import models
from kagura_kernel.jupyter.server.handler import refusal
from kagura_kernel.jupyter.server.parameters import Choice, Cursor, Number, Said, Text

VIA = "sidebar"
_HEARD_WITHIN = 5.0
Limit = Annotated[int, Number(50, 500, says="How many items at most.")]
Before = Annotated[str, Cursor()]

Model = TypeVar("Model")


def shaped(model: type[Model], row: object, **more: Any) -> Model:
    """The fields of a model: those in `more`, and else the attributes of the row with their names, as plain JSON."""
    names = model.__annotations__
    return cast("Model", {name: more[name] if name in more else _plain(getattr(row, name)) for name in names})


def plain(text: str) -> Any:
    """What is in a text of ours that is nearly JSON: Python writes NaN and Infinity, which browsers refuse."""
    return json.loads(text, parse_constant=str)


def status(journal: Journal) -> models.Status:
    """The numbers of a status bar."""
    numbers = pages.counts(journal)
    today = spent(journal, day=journal.clock.now().date())
    return shaped(
        models.Status, numbers, version=__version__, cost_today_usd=today.usd, unpriced_today=today.unpriced_runs
    )


def runs(
    journal: Journal,
    *,
    limit: Limit,
    before: Before = "",
    state: Annotated[
        RunState | None, Choice(("live", "ended"), says="Only runs that go on, or only those that have ended.")
    ] = None,
    session: Annotated[str, Text(says="Only this session's.")] = "",
    notebook: Annotated[str, Text(says="Only this notebook's, as the server names it.")] = "",
    q: Annotated[
        str, Text(says="Only runs that hold each of these words in their task, id, notebook, model or error code.")
    ] = "",
) -> models.Runs:
    """Runs, the newest first."""
    page = pages.run_page(
        journal, limit=limit, before=before, state=state, session_id=session, notebook=notebook, text=q
    )
    return {"items": [shaped(models.Run, row) for row in page.items], "next": page.next}


def run(journal: Journal, run_id: str) -> models.Run:
    """One run.

    Raises:
        RunUnknown: there is no such run.
    """
    return shaped(models.Run, views.one_run(journal, run_id))


def run_events(
    journal: Journal,
    run_id: str,
    *,
    after: Annotated[
        str,
        Text(
            pattern="^[0-9]{1,18}$", says="Only events behind this row of the journal; the cursor of the page before."
        ),
    ] = "",
    limit: Annotated[int, Number(200, 1000)],
) -> models.Events:
    """What happened in one run, in its order.

    A page ends early when its events are long. The last page of a run that goes on has no cursor; ask again behind the
    `seq` of its last item.

    Raises:
        RunUnknown: there is no such run.
        JournalUnreadable: a row is no event.
    """
    page = pages.event_page(journal, run_id, after=after, limit=limit)
    return {"items": [_event(journal, row) for row in page.items], "next": page.next}


def run_card(journal: Journal, run_id: str) -> models.RunCard:
    """The card of a run as its notebook keeps it: the finished one, or where it stands now.

    For a page that was loaded while the run went on: its kernel writes into the page that began the run alone.

    Raises:
        RunUnknown: there is no such run.
        JournalUnreadable: it cannot be read.
    """
    row = views.one_run(journal, run_id)
    lost = row.live and not views.goes_on(row)
    # Drawing a card brings a second of imports in, which a server that shows none does without.
    from kagura_kernel.views.record import live_bundle, run_bundle
    from kagura_kernel.views.run import RunView

    view = RunView()
    for stored in journal.events(run_id=run_id):
        view.apply(stored.event)
    if lost:
        view.give_up(RunLost(run_id, "its process is gone"))
    goes_on = row.live and not lost
    data, metadata = live_bundle(view, run_id) if goes_on else run_bundle(view)
    return {"over": not goes_on, "data": data, "metadata": metadata}


def kill(journal: Journal, run_id: str, by: str) -> models.Killed:
    """Ask a run of any process to stop; one whose process is gone is marked as lost instead.

    Raises:
        RunUnknown: there is no such run.
        RunOver: it has ended.
        JournalError: it could not be written down.
    """
    was = views.one_run(journal, run_id)
    if not was.live:
        raise RunOver(run_id, was.status)
    told = ask_to_stop(journal, [run_id], by=by)
    state = "stopping" if run_id in told else views.one_run(journal, run_id).status
    return shaped(models.Killed, was, state=state)


def say(
    journal: Journal,
    run_id: str,
    by: str,
    *,
    text: Annotated[str, Text(LONGEST, says="What it is to know.")],
) -> models.Told:
    """Say something to a run of any process; answered once that process has stored it.

    Raises:
        RunUnknown: there is no such run.
        RunOver: it has ended.
        NotHeard: its brain takes nothing while it works, or its process does not answer.
        UsageError: there is nothing in the text.
        JournalError: it could not be written down.
        RedactionUnavailable: secrets cannot be looked for in it.
    """
    sentence = Sentence(text, by, VIA)
    sentences.say(journal, run_id, sentence, redact, seconds=_HEARD_WITHIN)
    return {"run_id": run_id, "sentence_id": sentence.id}


def approvals(
    journal: Journal,
    *,
    limit: Limit,
    before: Before = "",
    state: Annotated[
        ApprovalState | None,
        Choice(("pending", "decided"), says="Only those that wait, or only those that are decided."),
    ] = None,
) -> models.Approvals:
    """Approvals, the newest first."""
    page = pages.approval_page(journal, limit=limit, before=before, state=state)
    return {"items": [_approval(row) for row in page.items], "next": page.next}


def approval(journal: Journal, approval_id: str) -> models.Approval:
    """One approval.

    Raises:
        ApprovalUnknown: there is no such approval.
    """
    return _approval(pages.one_approval(journal, approval_id))


def decide(
    journal: Journal,
    approval_id: str,
    by: str,
    *,
    verdict: Annotated[Verdict, Said(says="`abort` calls the whole run off.")],
    answer: Annotated[str, Text(10_000, says="Answer to a question; otherwise a remark.")] = "",
) -> models.Decision:
    """Decide an approval; the first decision stands.

    Raises:
        ApprovalUnknown: there is no such approval.
        Refused: somebody was faster; with the decision that stands.
        ApprovalExpired: its deadline is over.
        UsageError: it is a question to be answered in words, and there are none.
        JournalError: it could not be written down.
        RedactionUnavailable: secrets cannot be looked for in the answer.
    """
    mailbox = Mailbox(journal)
    try:
        return _decision(mailbox.decide(approval_id, verdict, by=by, via=VIA, answer=redact(answer), in_time=True))
    except ApprovalAlreadyDecided as error:
        stands = mailbox.decision(approval_id)
        raise refusal(error, {"decision": {} if stands is None else _decision(stands)}) from error


def leases(journal: Journal) -> models.Leases:
    """Leases that runs hold and credentials that are still out, the oldest first."""
    out = leases_out(journal)
    return {"items": [shaped(models.Lease, view, budget_left_seconds=view.budget_left) for view in out], "next": None}


def revoke(journal: Journal, lease_id: str, by: str) -> models.Revoked:
    """Take a lease back, whichever process holds it.

    Nobody is given the credential any more. The run's process revokes it at its provider; if that is gone, the next
    process that starts does.

    Raises:
        UnknownName: there is no such lease.
        LeaseEnded: it is over.
        JournalError: it could not be written down.
    """
    return {"lease_id": lease_id, "run_id": revoke_lease(journal, lease_id, by=by), "state": "owed"}


def costs(
    journal: Journal,
    *,
    days: Annotated[int, Number(7, 366, says="How many days `by_day` goes back, today included.")],
    notebook: Annotated[str, Text(says="The notebook that `notebook` and `budget` are about.")] = "",
    session: Annotated[str, Text(says="The session that they are about.")] = "",
) -> models.Costs:
    """What runs cost; days are those of UTC, and a run belongs to the day on which it began."""
    today = journal.clock.now().date()
    first = today - timedelta(days=days - 1)
    budget = budget_in_use(journal, notebook=notebook, session_id=session)
    there = spent(journal, notebook=notebook, session_id=session) if notebook or session else None
    return {
        "today": shaped(models.Spending, spent(journal, day=today)),
        "notebook": None if there is None else shaped(models.Spending, there),
        "budget": None if budget is None else shaped(models.Budget, budget),
        "by_day": [
            shaped(models.DayCost, row, **shaped(models.Spending, row.spending))
            for row in spent_by_day(journal, first, today)
        ],
    }


def _event(journal: Journal, row: StoredText) -> models.StoredEvent:
    try:
        return {"seq": row.seq, "event": plain(row.body)}
    except ValueError as error:
        raise JournalUnreadable(journal.where, f"row {row.seq} is no event") from error


def _approval(row: ApprovalRow) -> models.Approval:
    arguments = plain(json.dumps(row.arguments))
    return shaped(models.Approval, row, arguments=arguments, shown=_shown(row) if row.verdict is None else None)


def _shown(row: ApprovalRow) -> models.Shown:
    what = asked(row.kind, row.title, row.detail, row.arguments)
    return shaped(models.Shown, what, blocks=[shaped(models.ShownBlock, block) for block in what.blocks])


def _decision(decision: Decision) -> models.Decision:
    return shaped(models.Decision, decision, decided_at=stamp(decision.at))


def _plain(value: Any) -> Any:
    if value.__class__ in {str, int, float, bool, None.__class__}:
        return value
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else str(value)
