"""Rows of the journal as DataFrames, newest first."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd

from kagura_kernel.cockpit.trust import lacking
from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.rows import ApprovalRow, CostRow, EgressRow, RunRow
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.plugins.configuration import shown
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.views.boards import plugins_blocks

if TYPE_CHECKING:
    from datetime import datetime

    from kagura_kernel.cockpit.brains import BrainReport
    from kagura_kernel.cockpit.records import Board, LeaseView
    from kagura_kernel.cockpit.trust import Report
    from kagura_kernel.domain.patterns import TrustTerms
    from kagura_kernel.domain.plugins import PluginFinding
    from kagura_kernel.journal.plugins import PluginLogLine
    from kagura_kernel.journal.session_registry import SessionRow
    from kagura_kernel.membrane.egress.gate import Explanation
    from kagura_kernel.patterns.planning import Calibrated
    from kagura_kernel.plugins.configuration import Field, Schema
    from kagura_kernel.plugins.decisions import TrustedAuthor
    from kagura_kernel.plugins.manager import PluginRow
    from kagura_kernel.plugins.scan import Scan


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


_LEAST = 16
"""Characters that the longest column needs to say something."""
_WHOLE = 1000
"""From here on a figure has no decimals."""

_LONG = frozenset({"task", "missing", "model"})
"""Columns that may be cut, so that the others stand beside them."""


class TextFrame(pd.DataFrame):
    """A table to work with. What is taken out of it is an ordinary DataFrame, and shown as one."""

    # The columns that are shown, as far as they fit: the last are left out first
    telling: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        """As it is where it fits a line; otherwise its telling columns, and beneath them the names of the others."""
        width = shutil.get_terminal_size().columns
        if self.empty or not {*self.telling} <= {*self.columns}:
            return repr(pd.DataFrame(self))
        most = pd.get_option("display.max_rows") or len(self)
        rows = self.head(most)
        if _broad([str(name) for name in self.columns], rows) <= width:
            return repr(pd.DataFrame(self))
        lines, shown = _lines(self.telling, rows, width)
        left = len(self) - len(rows)
        more = [f"… and {left:,} more"] if left > 0 else []
        others = ", ".join(str(name) for name in self.columns if name not in shown)
        return "\n".join([*lines, *more, *textwrap.wrap(f"Other columns: {others}", width)])


class RunsText(TextFrame):
    """Runs."""

    telling = ("run", "status", "task", "seconds", "usd")


class CostsText(TextFrame):
    """What runs cost."""

    telling = ("run", "status", "usd", "total_usd", "input_tokens", "output_tokens", "model")


class CalibratedText(TextFrame):
    """Estimates beside what was needed."""

    telling = ("run", "estimated_usd", "usd", "usd_within", "estimated_seconds", "seconds", "status")


class TrustText(TextFrame):
    """How categories stand."""

    telling = ("category", "state", "successes", "tasks", "days", "missing")


def for_text(table: pd.DataFrame, kind: type[TextFrame], shell: Any) -> pd.DataFrame:
    """The same table; where it is read in a terminal, one that shows its telling columns when not all of them fit."""
    return kind(table) if surface_of(shell) in {Surface.TERMINAL, Surface.CONSOLE} else table


def _lines(telling: Sequence[str], rows: pd.DataFrame, width: int) -> tuple[list[str], list[str]]:
    """The columns that fit, a line for the heads and one for each row, and their names."""
    names = list(telling)
    long = next((name for name in names if name in _LONG), "")
    while len(names) > 1 and _broad([one for one in names if one != long], rows) + (_LEAST + 2) * bool(long) > width:
        names.remove(next(one for one in reversed(names) if one != long))
    room = width - _broad([one for one in names if one != long], rows) - 2
    columns = [_column(name, rows, room if name == long else width) for name in names]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)], names


def _broad(names: list[str], rows: pd.DataFrame) -> int:
    """How many characters these columns need beside each other."""
    return sum(len(_column(name, rows)[0]) + 2 for name in names) - 2


def _column(name: str, rows: pd.DataFrame, room: int | None = None) -> list[str]:
    """Its head and its cells, all equally wide and no wider than there is room."""
    values = list(rows[name])
    cells = [_cut(one, room) for one in (name, *map(_cell, values))]
    width = max(map(len, cells))
    right = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [one.rjust(width) if right else one.ljust(width) for one in cells]


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < _WHOLE else f"{value:,.0f}"
    if isinstance(value, str):
        return visible(" ".join(value.split()))
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, pd.Timestamp) else str(value)


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else f"{text[: max(1, room) - 1]}…"


def _opens(row: PluginRow) -> PluginPermissions:
    """What its jail opens; before it is configured, what its manifest declares."""
    return row.permissions if row.opens.nothing else row.opens


_PLUGINS: Columns[PluginRow] = {
    "plugin": ("name", "string"),
    "version": (lambda row: row.version or None, "string"),
    "state": (lambda row: "not usable" if row.problem else str(row.state), "string"),
    "risk": (lambda row: None if row.risk is None else str(row.risk), "string"),
    "approved": ("approved", "boolean"),
    "modules": (lambda row: ", ".join(row.modules), "string"),
    "reads": (lambda row: ", ".join(_opens(row).read), "string"),
    "writes": (lambda row: ", ".join(_opens(row).write), "string"),
    "reaches": (lambda row: ", ".join(_opens(row).net), "string"),
    "place": ("place", "string"),
    "signed_by": (lambda row: row.signed_by or None, "string"),
    "audited": ("audited_at", "datetime64[us, UTC]"),
    "description": ("description", "string"),
    "problem": (lambda row: row.why_out or None, "string"),
}
_FINDINGS: Columns[tuple[str, PluginFinding]] = {
    "path": (lambda one: one[0], "string"),
    "severity": (lambda one: str(one[1].severity), "string"),
    "rule": (lambda one: one[1].rule, "string"),
    "message": (lambda one: one[1].message, "string"),
    "file": (lambda one: one[1].file, "string"),
    "line": (lambda one: one[1].line or None, "Int64"),
    "source": (lambda one: one[1].source, "string"),
}
_LOGS = {
    "at": ("at", "datetime64[us, UTC]"),
    "what": ("what", "string"),
    "ok": ("ok", "boolean"),
    "text": ("text", "string"),
    "by": ("by", "string"),
    "session": ("session_id", "string"),
    "run": ("run_id", "string"),
}
_AUTHORS = {
    "author": ("name", "string"),
    "key": ("key", "string"),
    "since": ("since", "datetime64[us, UTC]"),
}
_IN_SIGHT = ["plugin", "version", "state", "risk", "approved", "place"]


def plugins_table(rows: Sequence[PluginRow]) -> PluginFrame:
    """One line for each plugin, which as the end of a cell is a table for people.

    `risk` and `audited` are NA while nobody has audited these very files. `reads`, `writes` and `reaches` are what its
    jail opens in the session, as it was configured; before that, what its manifest declares. `problem` is why it cannot
    be enabled: it is no usable plugin, in quarantine, or kept out by a danger.
    """
    return PluginFrame(table_of(rows, _PLUGINS))


def findings_table(scans: Sequence[Scan]) -> pd.DataFrame:
    """One line for each finding, the gravest of each path first; `line` is NA for a file as a whole."""
    return table_of([(scan.path, one) for scan in scans for one in scan.findings], _FINDINGS)


def settings_table(schema: Schema, configured: Mapping[str, str]) -> pd.DataFrame:
    """One line for each thing that a plugin can be told; `configured` is NA where the session has not told it."""
    defaults = shown({name: field.default for name, field in schema.items() if field.default is not None})
    columns: Columns[tuple[str, Field]] = {
        "field": (lambda one: one[0], "string"),
        "type": (lambda one: one[1].type, "string"),
        "default": (lambda one: defaults.get(one[0]), "string"),
        "asked": (lambda one: one[1].asked, "boolean"),
        "configured": (lambda one: configured.get(one[0]), "string"),
        "description": (lambda one: one[1].description, "string"),
    }
    return table_of(list(schema.items()), columns)


def logs_table(lines: Sequence[PluginLogLine]) -> LogFrame:
    """One line for each thing that happened, the latest last; shown with all of its text."""
    return LogFrame(table_of(lines, _LOGS))


def authors_table(authors: Sequence[TrustedAuthor]) -> pd.DataFrame:
    """One line for each author that is trusted."""
    return table_of(authors, _AUTHORS)


class PluginFrame(pd.DataFrame):
    """The plugins as a session has them. What is taken out of it is an ordinary DataFrame, and shown as one."""

    def __repr__(self) -> str:
        """What fits a line, and beneath it why any cannot be enabled; `columns` names the rest."""
        if self.empty:
            return "There are no plugins."
        shown = pd.DataFrame(self[_IN_SIGHT]).astype(object)
        table = shown.where(shown.notna(), "-").to_string(index=False)
        problems = [_line(row) for row in self.to_dict("records") if not pd.isna(row["problem"])]
        return "\n".join([table, *(f"{row['plugin']}: {row['problem']}" for row in problems)])

    def _repr_html_(self) -> str:
        """State, risk and approval as marks; IPython shows this in place of the columns."""
        return framed(html_of(plugins_blocks([_line(row) for row in self.to_dict("records")])), "Plugins")


class LogFrame(pd.DataFrame):
    """What happened to a plugin. No text of it is cut where it is shown: why something failed stands at its end."""

    def __repr__(self) -> str:
        """A line each, without session and run."""
        if self.empty:
            return "Nothing has happened to it yet."
        return "\n".join(map(_happened, self.to_dict("records")))

    def _repr_html_(self) -> str:
        """The usual table, with the whole texts."""
        with pd.option_context("display.max_colwidth", None):
            return str(pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows")))


def _happened(row: dict[Any, Any]) -> str:
    mark = " " if row["ok"] else "!"
    who = f" ({row['by']})" if row["by"] else ""
    return f"{mark} {row['at']:%Y-%m-%d %H:%M:%SZ} {row['what']}{who}: {row['text']}"


def _line(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}
