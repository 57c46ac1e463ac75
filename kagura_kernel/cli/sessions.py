"""`kagura-kernel sessions`: the threads of runs that the journal knows, and how each stands."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import read_journal
from kagura_kernel.cli.printing import as_json, cut, moment, table

if TYPE_CHECKING:
    from kagura_kernel.journal.session_registry import SessionRow

_TASK = 60
LATEST = 20
"""So many rows are told when nobody says how many."""


def run(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like.

    Raises:
        UsageError: there is no journal where one was named.
        JournalError: it cannot be read.
    """
    from kagura_kernel.journal.session_registry import sessions

    with read_journal(arguments) as journal:
        rows = sessions(journal, limit=arguments.limit or LATEST)
    if arguments.json:
        print(as_json([asdict(row) | {"state": _state(row)} for row in rows]))
    elif rows:
        head = ("session", "state", "runs", "began", "last", "last run", "task")
        print(table(head, [_cells(row) for row in rows], whole=("session", "began", "last", "last run")))
    else:
        print("No session yet.")
    return 0


def _state(row: SessionRow) -> str:
    from kagura_kernel.cli.runs import is_live

    if row.last.live and not is_live(row.last):
        return "its process is gone"
    return row.state


def _cells(row: SessionRow) -> tuple[str, ...]:
    return (
        row.session_id,
        _state(row),
        str(row.runs),
        moment(row.first_at),
        moment(row.last_at),
        row.last_run,
        cut(row.task, _TASK),
    )
