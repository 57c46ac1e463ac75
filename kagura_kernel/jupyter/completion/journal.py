"""Names that the journal knows: runs, approvals, leases, sessions, models, and files that a run changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kagura_kernel.cockpit.lines.completing import Name
from kagura_kernel.cockpit.naming import LAST, named_approval, named_run
from kagura_kernel.cockpit.resuming import may_be_resumed
from kagura_kernel.cockpit.settling import changes_of
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.rows import Here, RunRow
from kagura_kernel.journal.store import Journal

_LATEST = 100
_TASK = 60


def _runs(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    def fitting(of: Here | None) -> list[RunRow]:
        to_stop = given[:1] == ("kill",)
        rows = views.unfinished(journal, here=of) if to_stop else views.runs(journal, limit=_LATEST, here=of)
        if given:
            return rows
        # The first line of a cell names a run for one reason: to go on from it.
        return [row for row in rows if may_be_resumed(row)]

    for row in fitting(here)[:1]:
        yield Name(LAST, _told(row))
    for row in fitting(None):
        yield Name(row.run_id, _told(row))


def _approvals(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    del given, here
    for row in views.approvals(journal, limit=_LATEST, pending_only=True):
        yield Name(row.id, f"{row.title} ({row.run_id})")
    for row in views.approvals(journal, limit=_LATEST):
        if row.verdict is not None:
            yield Name(row.id, f"{row.title}: {row.verdict} by {row.by}")


def _answers(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    """The answers that a question offers, as the first word after its id."""
    if len(given) != 2 or given[0] not in ("approve", "deny"):  # noqa: PLR2004  # the command and the id
        return
    approval_id = named_approval(journal, given[1], here)

    for request in Mailbox(journal).pending():
        if request.id == approval_id:
            yield from (Name(option) for option in request.options)


def _leases(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    del given, here
    rows = {row.lease_id: row for row in LeaseLedger(journal).open_rows()}
    for lease_id, row in rows.items():
        yield Name(lease_id, f"{row.provider}:{row.scope} of {row.run_id}")
    for scope in dict.fromkeys(f"{row.provider}:{row.scope}" for row in rows.values()):
        yield Name(scope)


def _sessions(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    del given, here
    newest = {row.session_id: row for row in reversed(views.runs(journal, limit=_LATEST))}
    for session_id, row in reversed(newest.items()):
        yield Name(session_id, _told(row))


def _models(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    del given, here
    for model in dict.fromkeys(row.model for row in views.runs(journal, limit=_LATEST) if row.model):
        yield Name(model)


def _changed(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    """Files that wait for a decision, of the run that the line names."""
    if len(given) < 2:  # noqa: PLR2004  # the command and the run
        return

    for change in changes_of(journal, named_run(journal, given[1], here)):
        if change.state in ("proposed", "conflict"):
            yield Name(change.path, f"{change.status}, {change.state}")


def _told(row: RunRow) -> str:
    task = " ".join(row.task.split())
    shown = task if len(task) <= _TASK else f"{task[: _TASK - 1]}…"
    return f"{row.status.replace('_', ' ')}, {shown}" if shown else row.status.replace("_", " ")


FINDERS: Mapping[Kind, Callable[[Journal, Sequence[str], Here], Iterator[Name]]] = {
    Kind.RUN: _runs,
    Kind.APPROVAL: _approvals,
    Kind.TEXT: _answers,
    Kind.LEASE: _leases,
    Kind.SESSION: _sessions,
    Kind.MODEL: _models,
    Kind.CHANGED_PATH: _changed,
}
