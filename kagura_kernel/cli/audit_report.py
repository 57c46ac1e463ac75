"""An audit's report in a terminal: colours where there are any, all of it as plain text everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from kagura_kernel.cli.printing import paragraph, terminal_width
from kagura_kernel.domain.audit_report import AuditReport, ReportFinding, report_of
from kagura_kernel.domain.plugins import PluginAudit, Risk, Severity
from kagura_kernel.membrane.names import shown

WIDEST = 100
"""Columns: longer lines are hard to read, however wide the terminal is."""

_RESET = "0"
_BOLD, _FAINT = "1", "2"
_RED, _YELLOW, _GREEN, _CYAN = "31", "33", "32", "36"
_BADGES = {
    Risk.LOW: "1;30;42",
    Risk.UNKNOWN: "1;30;43",
    Risk.MEDIUM: "1;30;43",
    Risk.HIGH: "1;37;41",
    Risk.CRITICAL: "1;37;41",
}
_TONES = {Severity.DANGER: _RED, Severity.WARNING: _YELLOW, Severity.INFO: _CYAN}


@dataclass(frozen=True, slots=True)
class _Paint:
    """Colours, or none."""

    on: bool

    def __call__(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[{_RESET}m" if self.on and text else text


def print_audit(audit: PluginAudit, stream: TextIO | None = None) -> None:
    """Print a report; in colours on a terminal that has them and where nobody has said `NO_COLOR`."""
    out = stream or sys.stdout
    print(audit_text(audit, width=min(terminal_width(), WIDEST), colours=coloured(out)), file=out)


def coloured(stream: TextIO) -> bool:
    """Whether colours are wanted there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def audit_text(audit: PluginAudit, *, width: int = 80, colours: bool = False) -> str:
    """The report as lines of at most so many columns.

    Words of the plugin and of the auditor cannot pose as anything else: what a terminal would obey is written out.
    """
    report, paint = report_of(audit), _Paint(colours)
    return "\n".join(_lines(report, paint, width))


def _lines(report: AuditReport, paint: _Paint, width: int) -> Iterator[str]:
    yield f"{paint(_BOLD, f'Audit of {shown(report.title)}')}  {paint(_BADGES[report.risk], f'[{report.risk_words}]')}"
    yield paragraph(f"{report.verdict_words} ({report.counts}).", "", "", width)
    yield ""
    yield paragraph(shown(report.summary), "", "", width)
    if report.remark:
        yield paint(_YELLOW, paragraph(shown(report.remark), "", "", width))
    yield ""
    label = max(len(fact.name) for fact in report.facts) + 2
    for fact in report.facts:
        tone = {True: _GREEN, False: _RED, None: _RESET}[fact.good]
        text = paragraph(shown(fact.text), "", " " * label, width)
        yield paint(_FAINT, fact.name.ljust(label)) + paint(tone, text)
    for finding in report.findings:
        yield ""
        yield from _finding(finding, paint, width)
    if report.injections:
        yield ""
        yield paint(_BOLD, "Text in it that talks to whoever reads it:")
        for text, why in report.injections:
            yield paragraph(shown(text), "  > ", "    ", width)
            if why:
                yield paint(_FAINT, paragraph(shown(why), "    ", "    ", width))


def _finding(finding: ReportFinding, paint: _Paint, width: int) -> Iterator[str]:
    place = f"  {paint(_FAINT, shown(finding.place))}" if finding.place else ""
    yield f"{paint(_TONES[finding.severity], finding.word)}{place}"
    yield paragraph(shown(finding.message), "  ", "  ", width)
    if finding.source:
        yield paint(_FAINT, f"  | {shown(finding.source)}")
