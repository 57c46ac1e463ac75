"""What a migration cannot say in SQL: columns that are filled from what the events have said all along.

Each filling belongs to one step and is never edited once that has been released, so it names its tables itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text

from kagura_kernel.journal.encoding import as_text

Filling = Callable[[Connection], None]

_CHUNK = 500
_STARTS = text(
    "SELECT e.seq AS seq, e.run_id AS run_id, e.body AS body FROM journal_runs r "
    "JOIN journal_events e ON e.seq = r.first_seq "
    "WHERE e.kind = 'run.started' AND e.seq > :after ORDER BY e.seq LIMIT :many"
)
_FILL = text(
    "UPDATE journal_runs SET notebook = :notebook, kernel_id = :kernel_id, cell_id = :cell_id, "
    "budget_usd = :budget_usd WHERE run_id = :run_id"
)
_PLACES = ("notebook", "kernel_id", "cell_id")


def fill_places(connection: Connection) -> None:
    """Where each run was asked for, and its budget. A row that is no event is left to `verify`."""
    after = 0
    while True:
        rows = connection.execute(_STARTS, {"after": after, "many": _CHUNK}).fetchall()
        told = [_places(row.body) | {"run_id": row.run_id} for row in rows]
        if told:
            connection.execute(_FILL, told)
        if len(rows) < _CHUNK:
            return
        after = rows[-1].seq


def _places(body: str) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {}
    budget = told.get("budget_usd")
    places = {name: as_text(value) if isinstance(value := told.get(name), str) else "" for name in _PLACES}
    return places | {"budget_usd": budget if isinstance(budget, int | float) else None}
