"""What every log of the terminal takes: whose, since when, how many; and the moment behind an age."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.cli.naming import named_run
from kagura_kernel.cli.opening import add_place, open_journal, place_of
from kagura_kernel.domain.errors import UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

Row = TypeVar("Row")

_AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_log_options(parser: ArgumentParser) -> None:
    """`--run`, `--since`, `--limit`, `--json`, and where the journal lies."""
    parser.add_argument("--run", metavar="RUN", help="only this run's: its id, the end of it, or `last`")
    parser.add_argument("--since", metavar="WHEN", help="an age (90s, 15m, 2h, 7d) or a time in ISO 8601")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many, the newest first (default: 100)")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    add_place(parser)


def read_log(arguments: Namespace, view: Callable[[Journal, str | None, datetime | None, int], list[Row]]) -> list[Row]:
    """The rows that these options ask for.

    Args:
        arguments: Of `add_log_options`.
        view: Journal, run or None, earliest time or None, and how many, to rows.

    Raises:
        UsageError: there is no journal, or a time or number makes no sense.
        RunUnknown: there is no such run.
        JournalError: the journal cannot be read.
    """
    if arguments.limit < 1:
        raise UsageError("--limit takes a number from 1 on.")
    since = read_time(arguments.since, datetime.now(UTC)) if arguments.since else None
    with open_journal(place_of(arguments)) as journal:
        run_id = named_run(journal, arguments.run) if arguments.run is not None else None
        return view(journal, run_id, since, arguments.limit)


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
