"""`kagura-kernel egress log`: what boxes asked to connect to, what was decided, and what went through."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kagura_kernel.cli.naming import named_run
from kagura_kernel.cli.opening import add_place, open_journal, place_of
from kagura_kernel.cli.printing import as_json, moment, size, span, table
from kagura_kernel.domain.errors import UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import EgressRow

_AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_arguments(parser: ArgumentParser) -> None:
    """Whose connections, which, and since when."""
    parser.add_argument("--run", metavar="RUN", help="only this run's: its id, the end of it, or `last`")
    parser.add_argument("--refused", action="store_true", help="only what was refused")
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
        rows = views.egress(journal, run_id=run_id, since=since, refused_only=arguments.refused, limit=arguments.limit)
    if arguments.json:
        print(as_json([asdict(row) for row in rows]))
    elif rows:
        head = ("at", "run", "target", "decision", "times", "by", "out", "in", "took", "end")
        whole = ("at", "run", "decision", "times", "out", "in", "took")
        print(table(head, [_cells(row) for row in rows], whole=whole))
    else:
        print("No connection was asked for.")
    return 0


def read_time(text: str, now: datetime) -> datetime:
    """The moment behind an age or an ISO time; one without a zone is this machine's.

    Raises:
        UsageError: it is neither.
    """
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        example = "15m, 2h, 7d, or 2026-01-31T12:00"
        raise UsageError(f"--since takes an age or a time in ISO 8601, as in {example}.") from None


def _cells(row: EgressRow) -> tuple[object, ...]:
    host = f"[{row.host}]" if ":" in row.host else row.host
    start = (moment(row.at), row.run_id, f"{host}:{row.port}")
    if not row.allowed:
        return (*start, "refused", row.times, "-", "-", "-", "-", row.reason)
    end = " ".join(filter(None, (row.ended, row.detail))) or "-"
    return (*start, "allowed", "-", row.rule, size(row.bytes_out), size(row.bytes_in), span(row.duration), end)
