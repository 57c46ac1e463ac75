"""`kagura-kernel leases log`: the requests to which the membrane added a leased credential, and their answers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kagura_kernel.cli.egress_log import read_time
from kagura_kernel.cli.naming import named_run
from kagura_kernel.cli.opening import add_place, open_journal, place_of
from kagura_kernel.cli.printing import as_json, moment, size, span, table
from kagura_kernel.domain.errors import UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import LeaseUseRow


def add_arguments(parser: ArgumentParser) -> None:
    """Whose requests, and since when."""
    parser.add_argument("--run", metavar="RUN", help="only this run's: its id, the end of it, or `last`")
    parser.add_argument("--since", metavar="WHEN", help="an age (90s, 15m, 2h, 7d) or a time in ISO 8601")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many, the newest first (default: 100)")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    add_place(parser)


def run(arguments: Namespace) -> int:
    """Print them; 0 whatever they are like.

    Raises:
        UsageError: there is no journal, or a time or number makes no sense.
        RunUnknown: there is no such run.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views

    if arguments.limit < 1:
        raise UsageError("--limit takes a number from 1 on.")
    since = read_time(arguments.since, datetime.now(UTC)) if arguments.since else None
    with open_journal(place_of(arguments)) as journal:
        run_id = named_run(journal, arguments.run) if arguments.run is not None else None
        rows = views.lease_uses(journal, run_id=run_id, since=since, limit=arguments.limit)
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
