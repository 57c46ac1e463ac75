"""Rows of the journal and of the rooms as DataFrames, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

import pandas as pd

from kagura_kernel.cockpit.brains import BrainReport, OfferedModel
from kagura_kernel.cockpit.next_commands import NO_PLUGINS, of_plugin
from kagura_kernel.cockpit.plugin_repositories import Hit
from kagura_kernel.cockpit.records import Board
from kagura_kernel.domain.approval_content import asked_for
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.leases import LeaseView
from kagura_kernel.journal.plugins import PluginLogLine
from kagura_kernel.journal.rows import ApprovalRow, CostRow, EgressRow, RunRow
from kagura_kernel.journal.session_registry import SessionRow
from kagura_kernel.jupyter.slots import card_html
from kagura_kernel.membrane.egress.gate import Explanation
from kagura_kernel.patterns.plans import Calibrated
from kagura_kernel.patterns.trust import Report, lacking
from kagura_kernel.plugins.configuration import Schema, shown
from kagura_kernel.plugins.decisions import TrustedAuthor
from kagura_kernel.plugins.manager import PluginRow
from kagura_kernel.plugins.repositories.trusted import TrustedRepository
from kagura_kernel.plugins.scan import Scan
from kagura_kernel.render.html import html_of, without_formulas
from kagura_kernel.views.boards import plugins_blocks

T = TypeVar("T")

# An unknown figure is NA, never 0.
_KINDS = {
    "text": "string",
    "int": "Int64",
    "float": "Float64",
    "bool": "boolean",
    "time": "datetime64[us, UTC]",
    # Seconds as a number would be taken for the table's own microseconds.
    "span": "timedelta64[us]",
}


def table_of(rows: Iterable[T], columns: str, **made: Callable[[T], object]) -> pd.DataFrame:
    """One line for each row.

    Args:
        rows: Whatever has the fields.
        columns: `column`, `column=field` where the field is called otherwise, each with `:kind` where it is no text.
        made: By column, what makes its cell of a row, where that is no field.
    """
    cells, kinds = [], {}
    for column in columns.split():
        name, _, kind = column.partition(":")
        name, _, field = name.partition("=")
        cells.append(made.get(name) or attrgetter(field or name))
        kinds[name] = _KINDS[kind or "text"]
    values = [[_readable(cell(row)) for cell in cells] for row in rows]
    return pd.DataFrame(values, columns=list(kinds), dtype=object).astype(kinds)


def _readable(value: object) -> object:
    """A text that may be printed on a terminal: a box's words may hold what a terminal obeys."""
    return visible(value) if isinstance(value, str) and not value.isprintable() else value


def runs_table(rows: Sequence[RunRow]) -> pd.DataFrame:
    """One line for each run.

    `verified` is NA where nothing was to be verified, `untrusted` says whether it was shown memories in quarantine,
    `resumes` is the run that it goes on from, and `parent` the one that handed it on; empty for none. `usd` is its own.
    """
    return table_of(
        rows,
        "run=run_id session=session_id kind=flavour status task brain model box started=started_at:time "
        "seconds=duration:float tool_calls:int changed_files:int usd=cost_usd:float error=error_code user project "
        "verified:bool untrusted:bool resumes parent",
    )


def sessions_table(rows: Sequence[SessionRow]) -> pd.DataFrame:
    """One line for each session; `state` is `waiting` for a person, `running`, or how its last run ended."""
    return table_of(
        rows,
        "session=session_id state runs:int waiting:int last_run task first=first_at:time last=last_at:time notebook",
    )


def approvals_table(rows: Sequence[ApprovalRow], lessons: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One line for each approval; `verdict` is NA while it waits.

    `lineage` names the runs that the asking one works for, the first one first. `lessons` tells what a plan that waits
    would have trusted, NA elsewhere. `what` is the command or the question itself, and the title of all else.
    """
    return table_of(
        rows,
        "approval=id run=run_id lineage kind title detail lessons reason requested=requested_at:time verdict by via "
        "decided=decided_at:time answer hash=content_hash what",
        what=lambda row: asked_for(row.kind, row.title, row.detail, row.arguments),
        lineage=lambda row: " → ".join(row.lineage) or None,
        lessons=lambda row: (lessons or {}).get(row.id),
    )


def costs_table(rows: Sequence[CostRow]) -> pd.DataFrame:
    """One line for each run; `usd` is what the brain reported, else what the price list gives, else NA.

    It is the run's own, so that it can be summed: its children have lines of their own. `total_usd` is both.
    """
    return table_of(
        rows,
        "run=run_id session=session_id at:time brain model input_tokens:int output_tokens:int cache_read_tokens:int "
        "cache_write_tokens:int usd:float children:int children_usd:float total_usd:float reported_usd:float "
        "computed_usd:float source status",
    )


def calibration_table(rows: Sequence[Calibrated]) -> pd.DataFrame:
    """One line for each run that had an estimate; an error is a fraction, 0.2 is a fifth more than expected."""
    return table_of(
        rows,
        "run=run_id at:time status estimated_usd:float usd:float usd_error:float usd_within:bool "
        "estimated_seconds:float seconds:float seconds_error:float seconds_within:bool",
    )


def leases_table(rows: Sequence[LeaseView]) -> pd.DataFrame:
    """One line for each lease that a run holds, in the order in which they were acquired.

    `expires` is when the present credential ends, UTC, NA while there is none; `budget_left` is the time that the
    budget gives beyond it.
    """
    return table_of(
        rows,
        "lease=lease_id provider scope run=run_id state expires=expires_at:time budget_left:span renewals_left:int way "
        "place",
        budget_left=lambda row: timedelta(seconds=row.budget_left),
    )


def egress_table(rows: Sequence[EgressRow]) -> pd.DataFrame:
    """One line for each connection that a box asked for; `times` is how often it had got this very refusal."""
    return table_of(
        rows,
        "run=run_id at:time host port:int allowed:bool rule reason times:int bytes_out:int bytes_in:int "
        "seconds=duration:float ended detail",
    )


def explanations_table(found: Sequence[Explanation]) -> pd.DataFrame:
    """One line for each target; `addresses` are those it resolves to here, the refused ones with why."""
    return table_of(
        found,
        "target host=target.host port=target.port:int allowed:bool rule=ruling.rule reason addresses advice",
        target=lambda one: str(one.target),
        addresses=lambda one: ", ".join(where if why is None else f"{where} ({why})" for where, why in one.addresses),
    )


def board_table(board: Board, now: datetime) -> pd.DataFrame:
    """One line for each run that goes on, then for the last that ended.

    `waits_for` is the oldest question to a person, NA where there is none; `seconds` is how long the run took, or has
    been going on for.
    """

    def waits_for(row: RunRow) -> str | None:
        asks = board.waiting.get(row.run_id, ()) if row.live else ()
        return asks[0].title if asks else None

    return table_of(
        [*board.live, *board.ended],
        "run=run_id status waits_for task brain model box started=started_at:time seconds:float usd=cost_usd:float "
        "notebook",
        waits_for=waits_for,
        seconds=lambda row: row.duration if row.duration is not None else (now - row.started_at).total_seconds(),
    )


def brain_table(reports: Sequence[BrainReport]) -> pd.DataFrame:
    """One line for each brain, the preferred first; `turn_usd` is missing where the price is not known."""
    return table_of(
        reports,
        "brain=name ready:bool model window:int turn_usd:float price_from why=reason",
        model=lambda one: one.model or None,
        price_from=lambda one: one.source or None,
    )


def models_table(offered: Sequence[OfferedModel]) -> pd.DataFrame:
    """One line for each model; prices are for a million tokens, and missing where they are not known."""
    return table_of(
        offered,
        "model=name current:bool about input_usd:float output_usd:float price",
        about=lambda one: one.about or None,
    )


def trust_table(reports: Sequence[Report], terms: TrustTerms) -> pd.DataFrame:
    """One line for each category; `used` is how often its grant has answered, `missing` what it still lacks."""
    return table_of(
        reports,
        "category=category.name state successes tasks days last_failure:time why used=standing.applied:int missing "
        "about=category.about",
        successes=lambda one: f"{len(one.standing.successes)} of {terms.successes}",
        tasks=lambda one: f"{one.standing.tasks} of {terms.tasks}",
        days=lambda one: f"{one.days:.3g} of {terms.days:g}",
        last_failure=lambda one: one.standing.failure and one.standing.failure.at,
        why=lambda one: one.standing.failure and one.standing.failure.why,
        missing=lacking,
    )


# ---------------------------------------------------------------- plugins


def plugins_table(rows: Sequence[PluginRow]) -> PluginFrame:
    """One line for each plugin, which as the end of a cell is a table for people.

    `risk` and `audited` are NA while nobody has audited these very files. `reads`, `writes` and `reaches` are what its
    jail opens in the session, as it was configured; before that, what its manifest declares. `problem` is why it cannot
    be enabled: it is no usable plugin, in quarantine, or kept out by a danger.
    """

    def opens(row: PluginRow) -> PluginPermissions:
        return row.permissions if row.opens.nothing else row.opens

    table = table_of(
        rows,
        "plugin=name version state risk approved:bool modules reads writes reaches place signed_by "
        "audited=audited_at:time description problem",
        version=lambda row: row.version or None,
        state=lambda row: "not usable" if row.problem else str(row.state),
        risk=lambda row: None if row.risk is None else str(row.risk),
        modules=lambda row: ", ".join(row.modules),
        reads=lambda row: ", ".join(opens(row).read),
        writes=lambda row: ", ".join(opens(row).write),
        reaches=lambda row: ", ".join(opens(row).net),
        signed_by=lambda row: row.signed_by or None,
        problem=lambda row: row.why_out or None,
    )
    frame = PluginFrame(table)
    # Not a column: what works with the table has no use for it.
    frame.attrs["next"] = {row.name: of_plugin(row) for row in rows}
    return frame


def findings_table(scans: Sequence[Scan]) -> pd.DataFrame:
    """One line for each finding, the gravest of each path first; `line` is NA for a file as a whole."""
    table = table_of(
        [one for scan in scans for one in scan.findings],
        "severity rule message file line:int source",
        severity=lambda one: str(one.severity),
        line=lambda one: one.line or None,
    )
    paths = [_readable(scan.path) for scan in scans for _ in scan.findings]
    table.insert(0, "path", pd.Series(paths, dtype="string"))
    return table


def settings_table(schema: Schema, configured: Mapping[str, str]) -> pd.DataFrame:
    """One line for each thing that a plugin can be told; `configured` is NA where the session has not told it."""
    defaults = shown({name: field.default for name, field in schema.items() if field.default is not None})
    return table_of(
        schema.items(),
        "field type default asked:bool configured description",
        field=lambda one: one[0],
        type=lambda one: one[1].type,
        default=lambda one: defaults.get(one[0]),
        asked=lambda one: one[1].asked,
        configured=lambda one: configured.get(one[0]),
        description=lambda one: one[1].description,
    )


def logs_table(lines: Sequence[PluginLogLine]) -> LogFrame:
    """One line for each thing that happened, the latest last; shown with all of its text."""
    return LogFrame(table_of(lines, "at:time what ok:bool text by session=session_id run=run_id"))


def authors_table(authors: Sequence[TrustedAuthor]) -> pd.DataFrame:
    """One line for each author that is trusted."""
    return table_of(authors, "author=name key since:time")


def repositories_table(repositories: Sequence[TrustedRepository]) -> pd.DataFrame:
    """One line for each repository that is trusted; `root` is the SHA-256 of the first root."""
    return table_of(repositories, "repository=name url root=root_sha256 since:time")


def hits_table(hits: Sequence[Hit]) -> pd.DataFrame:
    """One line for each plugin that a repository has.

    Author, risk and permissions are the repository's words. `installed` is NA where nothing of its name is.
    """
    return table_of(
        hits,
        "plugin version installed repository author risk reads writes reaches description",
        plugin=lambda hit: hit.offer.name,
        version=lambda hit: hit.offer.version,
        installed=lambda hit: hit.installed or None,
        repository=lambda hit: hit.offer.repository,
        author=lambda hit: hit.offer.entry.author or None,
        risk=lambda hit: str(hit.offer.entry.risk),
        reads=lambda hit: ", ".join(hit.offer.entry.permissions.read),
        writes=lambda hit: ", ".join(hit.offer.entry.permissions.write),
        reaches=lambda hit: ", ".join(hit.offer.entry.permissions.net),
        description=lambda hit: hit.offer.entry.description,
    )


_IN_SIGHT = ["plugin", "version", "state", "risk", "approved", "place"]


class PluginFrame(pd.DataFrame):
    """The plugins as a session has them. What is taken out of it is an ordinary DataFrame, and shown as one."""

    def __repr__(self) -> str:
        """What fits a line, and beneath it why any cannot be enabled; `columns` names the rest."""
        if self.empty:
            return NO_PLUGINS
        shown = pd.DataFrame(self[_IN_SIGHT]).astype(object)
        table = shown.where(shown.notna(), "-").to_string(index=False)
        problems = [_line(row) for row in self.to_dict("records") if not pd.isna(row["problem"])]
        return "\n".join([table, *(f"{row['plugin']}: {row['problem']}" for row in problems)])

    def _repr_html_(self) -> str:
        """State, risk and approval as marks; IPython shows this in place of the columns."""
        following = self.attrs.get("next", {})
        lines = [_line(row) | {"next": following.get(row["plugin"], ())} for row in self.to_dict("records")]
        return card_html(html_of(plugins_blocks(lines)), "Plugins")


class LogFrame(pd.DataFrame):
    """What happened to a plugin. No text of it is cut where it is shown: why something failed stands at its end."""

    def __repr__(self) -> str:
        """A line each, without session and run."""
        if self.empty:
            return "Nothing has happened to it yet."
        return "\n".join(map(_happened, self.to_dict("records")))

    def _repr_html_(self) -> str | None:
        """The usual table, with the whole texts; none where a sentence says more."""
        if self.empty:
            return None
        with pd.option_context("display.max_colwidth", None):
            told = pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows"))
        return without_formulas(told)


def _happened(row: dict[Any, Any]) -> str:
    mark = " " if row["ok"] else "!"
    who = f" ({row['by']})" if row["by"] else ""
    # A plugin's exception has lines of its own, which must not pass for further ones of the log.
    text = " ".join(str(row["text"]).split())
    return f"{mark} {row['at']:%Y-%m-%d %H:%M:%SZ} {row['what']}{who}: {text}"


def _line(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}
