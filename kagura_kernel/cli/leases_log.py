"""`kagura-kernel leases log`: the requests to which the membrane added a leased credential, and their answers."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.log_options import read_log
from kagura_kernel.cli.printing import as_json, moment, size, span, table

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import LeaseUseRow


def run(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_log`."""
    from kagura_kernel.journal import views

    rows = read_log(
        arguments,
        lambda journal, run_id, since, limit: views.lease_uses(journal, run_id=run_id, since=since, limit=limit),
    )
    if arguments.json:
        print(as_json([asdict(row) for row in rows]))
    elif rows:
        head = ("at", "run", "lease", "for", "request", "answer", "out", "in", "took", "why")
        print(table(head, [_cells(row) for row in rows], whole=("at", "run", "lease", "answer", "out", "in", "took")))
    else:
        print("No request was made with a leased credential.")
    return 0


def _cells(row: LeaseUseRow) -> tuple[object, ...]:
    return (
        moment(row.at),
        row.run_id,
        row.lease_id,
        f"{row.provider}:{row.scope}",
        f"{row.method} {row.host}{row.path}",
        row.status or "none",
        size(row.bytes_out),
        size(row.bytes_in),
        span(row.duration),
        row.why or "-",
    )
