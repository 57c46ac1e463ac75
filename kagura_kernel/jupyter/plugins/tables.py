"""Plugins, findings, settings, authors and histories as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kagura_kernel.jupyter.tables import table_of

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.journal.plugin_views import PluginLogLine
    from kagura_kernel.jupyter.plugins.plugin_frame import LogFrame, PluginFrame
    from kagura_kernel.plugins.manager import PluginRow
    from kagura_kernel.plugins.scan import Scan
    from kagura_kernel.plugins.schema import Schema
    from kagura_kernel.plugins.trust import TrustedAuthor

_PLUGINS = {
    "plugin": ("name", "string"),
    "version": ("version", "string"),
    "state": ("state", "string"),
    "risk": ("risk", "string"),
    "approved": ("approved", "boolean"),
    "modules": ("modules", "string"),
    "reads": ("reads", "string"),
    "writes": ("writes", "string"),
    "reaches": ("reaches", "string"),
    "place": ("place", "string"),
    "signed_by": ("signed_by", "string"),
    "audited": ("audited_at", "datetime64[us, UTC]"),
    "description": ("description", "string"),
    "problem": ("problem", "string"),
}
_FINDINGS = {
    "path": ("path", "string"),
    "severity": ("severity", "string"),
    "rule": ("rule", "string"),
    "message": ("message", "string"),
    "file": ("file", "string"),
    "line": ("line", "Int64"),
    "source": ("source", "string"),
}
_SETTINGS = {
    "field": ("name", "string"),
    "type": ("type", "string"),
    "default": ("default", "string"),
    "asked": ("asked", "boolean"),
    "configured": ("configured", "string"),
    "description": ("description", "string"),
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


@dataclass(frozen=True, slots=True)
class _PluginLine:
    name: str
    version: str | None
    state: str
    risk: str | None
    approved: bool
    modules: str
    reads: str
    writes: str
    reaches: str
    place: str
    signed_by: str | None
    audited_at: datetime | None
    description: str
    problem: str | None


def plugins_table(rows: Sequence[PluginRow]) -> PluginFrame:
    """One line for each plugin, which as the end of a cell is a table for people.

    `risk` and `audited` are NA while nobody has audited these very files. `reads`, `writes` and `reaches` are what its
    jail opens in the session, as it was configured; before that, what its manifest declares. `problem` is why it cannot
    be enabled: it is no usable plugin, in quarantine, or kept out by a danger.
    """
    from kagura_kernel.jupyter.plugins.plugin_frame import PluginFrame

    return PluginFrame(table_of([_plugin_line(row) for row in rows], _PLUGINS))


def _plugin_line(row: PluginRow) -> _PluginLine:
    opens = row.permissions if row.opens.nothing else row.opens
    return _PluginLine(
        row.name,
        row.version or None,
        "not usable" if row.problem else str(row.state),
        None if row.risk is None else str(row.risk),
        row.approved,
        ", ".join(row.modules),
        ", ".join(opens.read),
        ", ".join(opens.write),
        ", ".join(opens.net),
        row.place,
        row.signed_by or None,
        row.audited_at,
        row.description,
        row.why_out or None,
    )


@dataclass(frozen=True, slots=True)
class _FindingLine:
    path: str
    severity: str
    rule: str
    message: str
    file: str
    line: int | None
    source: str


def findings_table(scans: Sequence[Scan]) -> pd.DataFrame:
    """One line for each finding, the gravest of each path first; `line` is NA for a file as a whole."""
    lines = [
        _FindingLine(str(scan.path), str(one.severity), one.rule, one.message, one.file, one.line or None, one.source)
        for scan in scans
        for one in scan.findings
    ]
    return table_of(lines, _FINDINGS)


@dataclass(frozen=True, slots=True)
class _SettingLine:
    name: str
    type: str
    default: str | None
    asked: bool
    configured: str | None
    description: str


def settings_table(schema: Schema, configured: Mapping[str, str]) -> pd.DataFrame:
    """One line for each thing that a plugin can be told; `configured` is NA where the session has not told it."""
    from kagura_kernel.plugins.configuring import shown

    defaults = shown({name: field.default for name, field in schema.items() if field.default is not None})
    lines = [
        _SettingLine(name, field.type, defaults.get(name), field.asked, configured.get(name), field.description)
        for name, field in schema.items()
    ]
    return table_of(lines, _SETTINGS)


def logs_table(lines: Sequence[PluginLogLine]) -> LogFrame:
    """One line for each thing that happened, the latest last; shown with all of its text."""
    from kagura_kernel.jupyter.plugins.plugin_frame import LogFrame

    return LogFrame(table_of(lines, _LOGS))


def authors_table(authors: Sequence[TrustedAuthor]) -> pd.DataFrame:
    """One line for each author that is trusted."""
    return table_of(authors, _AUTHORS)
