"""`kagura-kernel cost`: what runs used and cost; what is not known is a dash and never 0."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json, moment, table
from kagura_kernel.cli.runs import LATEST
from kagura_kernel.cockpit.naming import named_run

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import CostRow


def run(arguments: SimpleNamespace) -> int:
    """Print it; 0 whatever it is like.

    Raises:
        UsageError: there is no journal, or a word is the end of several ids.
        RunUnknown: there is no such run.
        JournalError: it cannot be read.
    """
    from kagura_kernel.journal import views

    with open_journal(place_of(arguments)) as journal:
        named = [named_run(journal, word) for word in arguments.run]
        limit = len(named) or arguments.limit or LATEST
        rows = views.costs(journal, limit=limit, run_ids=named or None)
    if arguments.json:
        print(as_json([asdict(row) | {"usd": row.usd} for row in rows]))
    elif rows:
        head = ("run", "started", "status", "brain", "model", "in", "out", "usd")
        print(table(head, [_cells(row) for row in rows], whole=("run", "started", "usd")))
        print(_sum(rows))
    else:
        print("No run yet.")
    return 0


def _cells(row: CostRow) -> tuple[str, ...]:
    return (
        row.run_id,
        moment(row.at),
        row.status.replace("_", " "),
        row.brain or "-",
        row.model or "-",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        "-" if row.usd is None else f"{row.usd:.4f}",
    )


def _sum(rows: list[CostRow]) -> str:
    from kagura_kernel.cockpit.status import spent

    usd, unpriced = spent(rows)
    more = f", and {unpriced} of unknown price" if unpriced else ""
    return f"${usd:.4f} in all{more}."
