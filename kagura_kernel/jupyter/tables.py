"""Rows of the journal as DataFrames, newest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.cockpit.trust import lacking
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.rows import ApprovalRow, CostRow, EgressRow, RunRow

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd

    from kagura_kernel.cockpit.brains import BrainReport
    from kagura_kernel.cockpit.records import Board, LeaseView
    from kagura_kernel.cockpit.trust import Report
    from kagura_kernel.domain.patterns import TrustTerms
    from kagura_kernel.journal.session_registry import SessionRow
    from kagura_kernel.membrane.egress.gate import Explanation
    from kagura_kernel.patterns.planning import Calibrated


T = TypeVar("T")
Columns = Mapping[str, tuple[str | Callable[[T], object], str]]
"""For each column a field of the row, or what makes the cell of the row, and the pandas type."""

# An unknown figure is NA, never 0.
_RUNS = {
    "run": ("run_id", "string"),
    "session": ("session_id", "string"),
    "kind": ("flavour", "string"),
    "status": ("status", "string"),
    "task": ("task", "string"),
    "brain": ("brain", "string"),
    "model": ("model", "string"),
    "box": ("box", "string"),
    "started": ("started_at", "datetime64[us, UTC]"),
    "seconds": ("duration", "Float64"),
    "tool_calls": ("tool_calls", "Int64"),
    "changed_files": ("changed_files", "Int64"),
    "usd": ("cost_usd", "Float64"),
    "error": ("error_code", "string"),
    "user": ("user", "string"),
    "project": ("project", "string"),
    "verified": ("verified", "boolean"),
    "untrusted": ("untrusted", "boolean"),
    "resumes": ("resumes", "string"),
    "parent": ("parent", "string"),
}
_SESSIONS = {
    "session": ("session_id", "string"),
    "state": ("state", "string"),
    "runs": ("runs", "Int64"),
    "waiting": ("waiting", "Int64"),
    "last_run": ("last_run", "string"),
    "task": ("task", "string"),
    "first": ("first_at", "datetime64[us, UTC]"),
    "last": ("last_at", "datetime64[us, UTC]"),
    "notebook": ("notebook", "string"),
}
_APPROVALS = {
    "approval": ("id", "string"),
    "run": ("run_id", "string"),
    "kind": ("kind", "string"),
    "title": ("title", "string"),
    "detail": ("detail", "string"),
    "reason": ("reason", "string"),
    "requested": ("requested_at", "datetime64[us, UTC]"),
    "verdict": ("verdict", "string"),
    "by": ("by", "string"),
    "via": ("via", "string"),
    "decided": ("decided_at", "datetime64[us, UTC]"),
    "answer": ("answer", "string"),
    "hash": ("content_hash", "string"),
}
_COSTS = {
    "run": ("run_id", "string"),
    "session": ("session_id", "string"),
    "at": ("at", "datetime64[us, UTC]"),
    "brain": ("brain", "string"),
    "model": ("model", "string"),
    "input_tokens": ("input_tokens", "Int64"),
    "output_tokens": ("output_tokens", "Int64"),
    "cache_read_tokens": ("cache_read_tokens", "Int64"),
    "cache_write_tokens": ("cache_write_tokens", "Int64"),
    "usd": ("usd", "Float64"),
    "children": ("children", "Int64"),
    "children_usd": ("children_usd", "Float64"),
    "total_usd": ("total_usd", "Float64"),
    "reported_usd": ("reported_usd", "Float64"),
    "computed_usd": ("computed_usd", "Float64"),
    "source": ("source", "string"),
    "status": ("status", "string"),
}
_CALIBRATED = {
    "run": ("run_id", "string"),
    "at": ("at", "datetime64[us, UTC]"),
    "status": ("status", "string"),
    "estimated_usd": ("estimated_usd", "Float64"),
    "usd": ("usd", "Float64"),
    "usd_error": ("usd_error", "Float64"),
    "usd_within": ("usd_within", "boolean"),
    "estimated_seconds": ("estimated_seconds", "Float64"),
    "seconds": ("seconds", "Float64"),
    "seconds_error": ("seconds_error", "Float64"),
    "seconds_within": ("seconds_within", "boolean"),
}
_LEASES = {
    "lease": ("lease_id", "string"),
    "provider": ("provider", "string"),
    "scope": ("scope", "string"),
    "run": ("run_id", "string"),
    "state": ("state", "string"),
    "expires": ("expires_at", "datetime64[us, UTC]"),
    "renewals_left": ("renewals_left", "Int64"),
    "way": ("way", "string"),
    "place": ("place", "string"),
}
_EGRESS = {
    "run": ("run_id", "string"),
    "at": ("at", "datetime64[us, UTC]"),
    "host": ("host", "string"),
    "port": ("port", "Int64"),
    "allowed": ("allowed", "boolean"),
    "rule": ("rule", "string"),
    "reason": ("reason", "string"),
    "times": ("times", "Int64"),
    "bytes_out": ("bytes_out", "Int64"),
    "bytes_in": ("bytes_in", "Int64"),
    "seconds": ("duration", "Float64"),
    "ended": ("ended", "string"),
    "detail": ("detail", "string"),
}
_EXPLAINED = ("target", "host", "port", "allowed", "rule", "reason", "addresses", "advice")
_BOARD = {
    "run": ("run_id", "string"),
    "status": ("status", "string"),
    "task": ("task", "string"),
    "brain": ("brain", "string"),
    "model": ("model", "string"),
    "box": ("box", "string"),
    "started": ("started_at", "datetime64[us, UTC]"),
    "usd": ("cost_usd", "Float64"),
    "notebook": ("notebook", "string"),
}


def runs_table(rows: Sequence[RunRow]) -> pd.DataFrame:
    """One line for each run.

    `verified` is NA where nothing was to be verified, `untrusted` says whether it was shown memories in quarantine,
    `resumes` is the run that it goes on from, and `parent` the one that handed it on; empty for none. `usd` is its own.
    """
    return table_of(rows, _RUNS)


def sessions_table(rows: Sequence[SessionRow]) -> pd.DataFrame:
    """One line for each session; `state` is `waiting` for a person, `running`, or how its last run ended."""
    return table_of(rows, _SESSIONS)


def approvals_table(rows: Sequence[ApprovalRow], lessons: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One line for each approval; `verdict` is NA while it waits.

    `lineage` names the runs that the asking one works for, the first one first. `lessons` tells what a plan that waits
    would have trusted, NA elsewhere.

    Args:
        rows: The approvals.
        lessons: By approval, what its lessons say.
    """
    import pandas as pd

    frame = table_of(rows, _APPROVALS)
    above = pd.Series([" → ".join(row.lineage) or None for row in rows], dtype="string")
    frame.insert(list(_APPROVALS).index("run") + 1, "lineage", above)
    told = pd.Series([_readable((lessons or {}).get(row.id)) for row in rows], dtype="string")
    frame.insert(list(frame.columns).index("reason"), "lessons", told)
    return frame


def costs_table(rows: Sequence[CostRow]) -> pd.DataFrame:
    """One line for each run; `usd` is what the brain reported, else what the price list gives, else NA.

    It is the run's own, so that it can be summed: its children have lines of their own. `total_usd` is both.
    """
    return table_of(rows, _COSTS)


def calibration_table(rows: Sequence[Calibrated]) -> pd.DataFrame:
    """One line for each run that had an estimate; an error is a fraction, 0.2 is a fifth more than expected."""
    return table_of(rows, _CALIBRATED)


def leases_table(rows: Sequence[LeaseView]) -> pd.DataFrame:
    """One line for each lease that a run holds, in the order in which they were acquired.

    `expires` is when the present credential ends, UTC, NA while there is none; `budget_left` is the time that the
    budget gives beyond it.
    """
    import pandas as pd

    frame = table_of(rows, _LEASES)
    # Seconds as a number would be taken for the table's own microseconds.
    left = pd.to_timedelta([row.budget_left for row in rows], unit="s").astype("timedelta64[us]")
    frame.insert(list(_LEASES).index("renewals_left"), "budget_left", left)
    return frame


def egress_table(rows: Sequence[EgressRow]) -> pd.DataFrame:
    """One line for each connection that a box asked for; `times` is how often it had got this very refusal."""
    return table_of(rows, _EGRESS)


def explanations_table(found: Sequence[Explanation]) -> pd.DataFrame:
    """One line for each target; `addresses` are those it resolves to here, the refused ones with why."""
    import pandas as pd

    cells = [
        (
            str(one.target),
            one.target.host,
            one.target.port,
            one.allowed,
            one.ruling.rule,
            one.reason,
            ", ".join(address if why is None else f"{address} ({why})" for address, why in one.addresses),
            one.advice,
        )
        for one in found
    ]
    kinds = dict.fromkeys(_EXPLAINED, "string") | {"port": "Int64", "allowed": "boolean"}
    return pd.DataFrame(cells, columns=list(_EXPLAINED), dtype=object).astype(kinds)


def board_table(board: Board, now: datetime) -> pd.DataFrame:
    """One line for each run that goes on, then for the last that ended.

    `waits_for` is the oldest question to a person, NA where there is none; `seconds` is how long the run took, or has
    been going on for.
    """
    import pandas as pd

    rows = [*board.live, *board.ended]
    frame = table_of(rows, _BOARD)
    asked = [board.waiting.get(row.run_id, ()) if row.live else () for row in rows]
    waits = pd.Series([asks[0].title if asks else None for asks in asked], dtype="string")
    frame.insert(2, "waits_for", waits)
    took = [row.duration if row.duration is not None else (now - row.started_at).total_seconds() for row in rows]
    frame.insert(list(frame.columns).index("usd"), "seconds", pd.Series(took, dtype="Float64"))
    return frame


def _readable(value: object) -> object:
    """A text that may be printed on a terminal: a box's words may hold what a terminal obeys."""
    return visible(value) if isinstance(value, str) and not value.isprintable() else value


def table_of(rows: Sequence[T], columns: Columns[T]) -> pd.DataFrame:
    """One line for each row.

    Args:
        rows: Whatever has the fields.
        columns: The table's.
    """
    import pandas as pd

    made = [attrgetter(cell) if isinstance(cell, str) else cell for cell, _ in columns.values()]
    cells = [[_readable(make(row)) for make in made] for row in rows]
    frame = pd.DataFrame(cells, columns=list(columns), dtype=object)
    return frame.astype({name: kind for name, (_, kind) in columns.items()})


_BRAIN_COLUMNS = {
    "brain": "string",
    "ready": "boolean",
    "model": "string",
    "window": "Int64",
    "turn_usd": "Float64",
    "price_from": "string",
    "why": "string",
}


def brain_table(reports: Sequence[BrainReport]) -> pd.DataFrame:
    """One line for each brain, the preferred first; `turn_usd` is missing where the price is not known."""
    import pandas as pd

    cells = [
        (
            one.name,
            one.ready,
            visible(one.model) or None,
            one.window,
            one.turn_usd,
            one.source or None,
            visible(one.reason),
        )
        for one in reports
    ]
    return pd.DataFrame(cells, columns=list(_BRAIN_COLUMNS), dtype=object).astype(_BRAIN_COLUMNS)


_TRUST_COLUMNS = {
    "category": "string",
    "state": "string",
    "successes": "string",
    "tasks": "string",
    "days": "string",
    "last_failure": "datetime64[us, UTC]",
    "why": "string",
    "used": "Int64",
    "missing": "string",
    "about": "string",
}


def trust_table(reports: Sequence[Report], terms: TrustTerms) -> pd.DataFrame:
    """One line for each category; `used` is how often its grant has answered, `missing` what it still lacks."""
    import pandas as pd

    cells = [
        (
            one.category.name,
            one.state,
            f"{len(one.standing.successes)} of {terms.successes}",
            f"{one.standing.tasks} of {terms.tasks}",
            f"{one.days:.3g} of {terms.days:g}",
            None if one.standing.failure is None else one.standing.failure.at,
            None if one.standing.failure is None else visible(one.standing.failure.why),
            one.standing.applied,
            lacking(one),
            one.category.about,
        )
        for one in reports
    ]
    return pd.DataFrame(cells, columns=list(_TRUST_COLUMNS), dtype=object).astype(_TRUST_COLUMNS)
