"""The report of an audit on a card: badge, verdict, facts, what the jail would open, findings with their lines.

Nearly every word here is the plugin's author's, or was written by an auditor who had read them. All of it is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kagura_kernel.domain.audit_report import AuditReport, ReportFinding, report_of
from kagura_kernel.domain.plugins import Severity
from kagura_kernel.render.bounded import bounded
from kagura_kernel.render.escape import escaped, one_line, reachable
from kagura_kernel.render.figures import counted
from kagura_kernel.views.status import RISK_TONES

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginAudit, PluginFinding, PluginPermissions
    from kagura_kernel.jupyter.cards.audit_view import Subject

OPENS_NAME = "Its jail would open"
CACHED = "These very files were audited before; this is that report."

OPENS = (("read", "Read"), ("write", "Read and write"), ("net", "Reach"))
"""The kinds of permissions with what the jail would let a plugin do."""

_SEVERITY_TONES = {Severity.DANGER: "bad", Severity.WARNING: "warn", Severity.INFO: "busy"}
_IN_SIGHT = 12
_MOST = 200
_MOST_ENTRIES = 60
_SENTENCE, _LINE = 600, 240
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
# It stands by itself, as what the jail would open.
_ELSEWHERE = "Permissions"


def report_html(audit: PluginAudit, subject: Subject | None, *, cached: bool) -> str:
    """The report, for the body of a card."""
    report = report_of(audit)
    tone = RISK_TONES[report.risk]
    top = (
        f'<div class="kg-ask-top"><strong class="kg-pill kg-{tone}">{report.risk_words}</strong> '
        f'<strong class="kg-ask-title">{report.verdict_words}</strong> '
        f'<span class="kg-soft">{report.counts}</span></div>'
    )
    summary = f'<div class="kg-summary">{escaped(one_line(report.summary, _SENTENCE))}</div>' if report.summary else ""
    remarks = [report.remark] if report.remark else []
    remarks += [CACHED] if cached else []
    notes = "".join(f'<div class="kg-note">{escaped(one_line(text, _SENTENCE))}</div>' for text in remarks)
    inside = "".join([top, summary, notes, _facts(report), _opens(subject, audit), _findings(audit, report)])
    return f'<div class="kg-report">{inside}{_injections(report.injections)}</div>'


@dataclass(frozen=True, slots=True)
class Opened:
    """One thing that a jail would open."""

    field: str  # The field that says what, for an entry that is configured; else empty
    value: str  # What it is; empty while the field has not been configured

    @property
    def words(self) -> str:
        """The same as plain text."""
        if not self.field:
            return self.value
        return f"{self.value} ({self.field})" if self.value else f"what {self.field} says"


def opened(permissions: PluginPermissions, config: Mapping[str, str]) -> Iterator[tuple[str, list[Opened]]]:
    """What the jail would open, by kind: declared entries with what their fields are configured with."""
    for kind, word in OPENS:
        entries = [_filled(entry, config) for entry in getattr(permissions, kind)]
        if entries:
            yield word, entries


def _filled(entry: str, config: Mapping[str, str]) -> Opened:
    found = _FIELD.fullmatch(entry)
    return Opened("", entry) if found is None else Opened(found[1], config.get(found[1], ""))


def _facts(report: AuditReport) -> str:
    tones = {True: "good", False: "bad", None: ""}
    rows = [
        f'<dt>{fact.name}</dt><dd class="kg-{tones[fact.good]}">{escaped(one_line(fact.text, _SENTENCE))}</dd>'
        if fact.good is not None
        else f"<dt>{fact.name}</dt><dd>{escaped(one_line(fact.text, _SENTENCE))}</dd>"
        for fact in report.facts
        if fact.name != _ELSEWHERE
    ]
    return f'<dl class="kg-pairs">{"".join(rows)}</dl>'


def _opens(subject: Subject | None, audit: PluginAudit) -> str:
    config = subject.config if subject is not None else {}
    rows = [f"<dt>{word}</dt><dd>{_entries(entries)}</dd>" for word, entries in opened(audit.permissions, config)]
    if not rows:
        return f"{_name(OPENS_NAME)}<div>Nothing: no files, no network.</div>"
    return f'{_name(OPENS_NAME)}<dl class="kg-pairs">{"".join(rows)}</dl>'


def _entries(entries: Sequence[Opened]) -> str:
    left = len(entries) - _MOST_ENTRIES
    return ", ".join(map(_entry, entries[:_MOST_ENTRIES])) + (f" and {left:,} more" if left > 0 else "")


def _entry(one: Opened) -> str:
    if not one.field:
        return _code(one.value)
    return f"{_code(one.value)} ({_code(one.field)})" if one.value else f"what {_code(one.field)} says"


def _code(text: str) -> str:
    return f'<code class="kg-path">{escaped(one_line(text, _LINE))}</code>'


def _findings(audit: PluginAudit, report: AuditReport) -> str:
    pairs = list(zip(report.findings, audit.findings, strict=True))
    if not pairs:
        return ""
    first = "".join(_finding(shown, one) for shown, one in pairs[:_IN_SIGHT])
    rest = pairs[_IN_SIGHT:_MOST]
    more = ""
    if rest:
        inside = "".join(_finding(shown, one) for shown, one in rest)
        more = (
            f'<details class="kg-args" data-keep="findings"><summary>{counted(len(rest), "more finding")}</summary>'
            f'<div class="kg-inside">{inside}</div></details>'
        )
    left = len(pairs) - _MOST
    note = f'<div class="kg-label">… and {left:,} more that a card has no room for</div>' if left > 0 else ""
    return f'{_name("Findings")}<div class="kg-findings">{first}{more}{note}</div>'


def _finding(shown: ReportFinding, one: PluginFinding) -> str:
    place = f'<code class="kg-path">{escaped(one_line(shown.place, _LINE))}</code>' if shown.place else ""
    rule = f'<span class="kg-soft">{escaped(one_line(one.rule, _LINE))}</span>'
    source = f'<pre class="kg-pre"{reachable(shown.source)}>{escaped(_cut(shown.source))}</pre>' if shown.source else ""
    return (
        f'<div class="kg-finding"><div class="kg-finding-top">'
        f'<span class="kg-chip kg-{_SEVERITY_TONES[shown.severity]}">{shown.word}</span> '
        f"<span>{escaped(one_line(shown.message, _SENTENCE))}</span> {place} {rule}</div>{source}</div>"
    )


def _injections(injections: Sequence[tuple[str, str]]) -> str:
    if not injections:
        return ""
    shown = "".join(
        f'<div class="kg-finding"><pre class="kg-pre"{reachable(_cut(text))}>{escaped(_cut(text))}</pre>'
        + (f'<div class="kg-soft">{escaped(one_line(why, _SENTENCE))}</div>' if why else "")
        + "</div>"
        for text, why in injections[:_IN_SIGHT]
    )
    left = len(injections) - _IN_SIGHT
    note = f'<div class="kg-label">… and {left:,} more</div>' if left > 0 else ""
    return f'{_name("Text in it that talks to whoever reads it")}<div class="kg-findings">{shown}{note}</div>'


def _cut(text: str) -> str:
    return bounded(text, lines=20, characters=2000).whole()


def _name(text: str) -> str:
    return f'<div class="kg-part-name">{text}</div>'
