"""`kagura-kernel egress log`: what boxes asked to connect to, what was decided, and what went through."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.log_options import read_log
from kagura_kernel.cli.printing import as_json, moment, size, span, table

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import EgressRow


def run(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_log`."""
    from kagura_kernel.journal import views

    refused = arguments.refused
    rows = read_log(
        arguments,
        lambda journal, run_id, since, limit: views.egress(
            journal, run_id=run_id, since=since, refused_only=refused, limit=limit
        ),
    )
    if arguments.json:
        print(as_json([asdict(row) for row in rows]))
    elif rows:
        head = ("at", "run", "target", "decision", "times", "by", "out", "in", "took", "end")
        whole = ("at", "run", "decision", "times", "out", "in", "took")
        print(table(head, [_cells(row) for row in rows], whole=whole))
    else:
        print("No connection was asked for.")
    return 0


def _cells(row: EgressRow) -> tuple[object, ...]:
    host = f"[{row.host}]" if ":" in row.host else row.host
    start = (moment(row.at), row.run_id, f"{host}:{row.port}")
    if not row.allowed:
        return (*start, "refused", row.times, "-", "-", "-", "-", row.reason)
    end = " ".join(filter(None, (row.ended, row.detail))) or "-"
    return (*start, "allowed", "-", row.rule, size(row.bytes_out), size(row.bytes_in), span(row.duration), end)
