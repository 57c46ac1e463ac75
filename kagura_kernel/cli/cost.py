"""`kagura-kernel cost`: what runs used and cost, or how well that was foreseen; what is unknown is a dash."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import read_journal
from kagura_kernel.cli.printing import as_json, moment, span, table
from kagura_kernel.cli.runs import LATEST
from kagura_kernel.cockpit.naming import here_of, named_run

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import CostRow
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.patterns.calibration import Calibrated


def run(arguments: SimpleNamespace) -> int:
    """Print it; 0 whatever it is like.

    Raises:
        UsageError: there is no journal where one was named, or a word is the end of several ids.
        RunUnknown: there is no such run.
        JournalError: it cannot be read.
    """
    from kagura_kernel.journal import views
    from kagura_kernel.journal.children import with_children

    with read_journal(arguments) as journal:
        named = [named_run(journal, word, here_of()) for word in arguments.run]
        limit = len(named) or arguments.limit or LATEST
        if arguments.calibration:
            return _calibration(journal, named, limit, as_rows=arguments.json)
        rows = with_children(journal, views.costs(journal, limit=limit, run_ids=named or None))
    if arguments.json:
        print(as_json([asdict(row) | {"usd": row.usd, "total_usd": row.total_usd} for row in rows]))
    elif rows:
        head = ("run", "started", "status", "brain", "model", "in", "out", "usd", "with its children")
        # Most people hand nothing on: for them the column would say the same again.
        many = len(head) if any(row.children for row in rows) else len(head) - 1
        cells = [_cells(row)[:many] for row in rows]
        print(table(head[:many], cells, whole=("run", "started", "usd", "with its children")))
        print(_sum(rows))
    else:
        print("No run yet.")
    return 0


def _calibration(journal: Journal, named: list[str], limit: int, *, as_rows: bool) -> int:
    from kagura_kernel.journal.precedents import estimated
    from kagura_kernel.patterns.calibration import calibrate, calibration_line

    rows = calibrate(estimated(journal, limit=limit, run_ids=named or None))
    if as_rows:
        print(as_json([asdict(row) for row in rows]))
        return 0
    if rows:
        head = ("run", "status", "expected", "usd", "off", "within", "expected", "took", "off", "within")
        print(table(head, [_calibrated_cells(row) for row in rows], whole=("run", "usd", "took")))
    print(calibration_line(rows))
    return 0


def _calibrated_cells(row: Calibrated) -> tuple[str, ...]:
    return (
        row.run_id,
        row.status.replace("_", " "),
        *(_dollars(one) for one in (row.estimated_usd, row.usd)),
        _off(row.usd_error),
        _yes_or_no(row.usd_within),
        *(span(one) for one in (row.estimated_seconds, row.seconds)),
        _off(row.seconds_error),
        _yes_or_no(row.seconds_within),
    )


def _off(error: float | None) -> str:
    return "-" if error is None else f"{error:+.0%}"


def _yes_or_no(within: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[within]


def _dollars(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:.4f}"


def _cells(row: CostRow) -> tuple[str, ...]:
    return (
        row.run_id,
        moment(row.at),
        row.status.replace("_", " "),
        row.brain or "-",
        row.model or "-",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        _dollars(row.usd),
        _family(row),
    )


def _family(row: CostRow) -> str:
    """What it cost with its children, and how many these are: `0.0142 (2)`."""
    return f"{_dollars(row.total_usd)} ({row.children:,})" if row.children else "-"


def _sum(rows: list[CostRow]) -> str:
    from kagura_kernel.cockpit.status import spent

    usd, unpriced = spent(rows)
    more = f", and {unpriced} of unknown price" if unpriced else ""
    return f"${usd:.4f} in all{more}."
