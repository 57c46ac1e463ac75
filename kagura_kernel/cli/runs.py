"""`kagura-kernel runs`: the latest runs of every process on the journal, and which of them go on."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import read_journal
from kagura_kernel.cli.printing import as_json, cut, moment, span, table
from kagura_kernel.cockpit.naming import here_of, named_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.journal.rows import RunRow

_TASK = 60
LATEST = 20
"""So many rows are told when nobody says how many."""
_HISTORY: tuple[tuple[str, Callable[[RunRow], str]], ...] = (
    ("verified", lambda row: {True: "yes", False: "NO", None: ""}[row.verified]),
    ("untrusted", lambda row: "yes" if row.untrusted else ""),
    ("resumes", lambda row: row.resumes),
    ("parent", lambda row: row.parent),
)
"""Columns that are told where a run has something to say in them; programs read all of them from the JSON."""


def run(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like.

    Raises:
        UsageError: there is no journal where one was named, or a word is the end of several ids.
        RunUnknown: there is no such run.
        JournalError: it cannot be read.
    """
    from kagura_kernel.journal import views

    with read_journal(arguments) as journal:
        named = [named_run(journal, word, here_of()) for word in arguments.run]
        rows = views.runs(journal, limit=len(named) or arguments.limit or LATEST, run_ids=named or None)
    if arguments.json:
        print(as_json([asdict(row) | {"live": is_live(row), "parent": row.parent} for row in rows]))
    elif rows:
        told = [(name, said) for name, said in _HISTORY if any(map(said, rows))]
        head = ("", "run", "status", "started", "took", "box", "user", *(name for name, _ in told), "task")
        cells = [_cells(row, tuple(said(row) or "-" for _, said in told)) for row in rows]
        print(table(head, cells, whole=("", "run", "started", "took", "resumes", "parent")))
    else:
        print("No run yet.")
    return 0


def is_live(row: RunRow) -> bool:
    """Whether a run goes on: its rows do not say that it is over, and its process may still be there."""
    from kagura_kernel.journal.owner import owner_alive

    return row.live and owner_alive(row.owner)


def _cells(row: RunRow, history: tuple[str, ...]) -> tuple[str, ...]:
    status = row.status.replace("_", " ")
    if row.live and not is_live(row):
        status = f"{status}, its process is gone"
    return (
        "*" if is_live(row) else " ",
        row.run_id,
        status,
        moment(row.started_at),
        span(row.duration),
        row.box or "-",
        row.user or "-",
        *history,
        cut(row.task, _TASK),
    )
