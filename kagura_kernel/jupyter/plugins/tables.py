"""Plugins, findings, settings, authors and histories as DataFrames; two of them a person sees at the end of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.jupyter.tables import Columns, table_of
from kagura_kernel.plugins.configuration import shown
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.views.boards import plugins_blocks

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginFinding
    from kagura_kernel.journal.plugins import PluginLogLine
    from kagura_kernel.plugins.configuration import Field, Schema
    from kagura_kernel.plugins.decisions import TrustedAuthor
    from kagura_kernel.plugins.manager import PluginRow
    from kagura_kernel.plugins.scan import Scan


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
