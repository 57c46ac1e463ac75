"""`kagura-kernel approvals`: what was asked for, by whom, and what was answered."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json, cut, moment, table
from kagura_kernel.cli.runs import LATEST

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import ApprovalRow

_TITLE = 60


def run(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like.

    Raises:
        UsageError: there is no journal.
        JournalError: it cannot be read.
    """
    from kagura_kernel.journal import views

    with open_journal(place_of(arguments)) as journal:
        rows = views.approvals(journal, limit=arguments.limit or LATEST, pending_only=arguments.pending)
    if arguments.json:
        print(as_json([asdict(row) for row in rows]))
    elif rows:
        head = ("", "approval", "run", "kind", "asked", "until", "answer", "by", "title")
        whole = ("", "approval", "run", "asked", "until")
        print(table(head, [_cells(row) for row in rows], whole=whole))
    else:
        print("No approval waits." if arguments.pending else "Nothing was asked for yet.")
    return 0


def _cells(row: ApprovalRow) -> tuple[str, ...]:
    waits = row.verdict is None
    return (
        "*" if waits else " ",
        row.id,
        row.run_id,
        row.kind.replace("_", " "),
        moment(row.requested_at),
        moment(row.deadline_at) if waits else "-",
        row.verdict or "waits",
        row.by or "-",
        cut(row.title, _TITLE),
    )
