"""An audit in the card of its own run: a few lines, for whoever looks at the run. The report has a card of its own."""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.audit_report import line_of, report_of
from kagura_kernel.domain.plugins import PluginAudit, Severity

_MOST = 20


def audit_notes(audit: PluginAudit) -> list[tuple[str, bool]]:
    """The lines, each with whether it is grave."""
    report = report_of(audit)
    lines = [(f"{report.title}: {line_of(audit)}", audit.dangerous)]
    if report.remark:
        lines.append((report.remark, False))
    for finding in report.findings[:_MOST]:
        place = f" ({finding.place})" if finding.place else ""
        lines.append((f"{finding.word}: {finding.message}{place}", finding.severity is Severity.DANGER))
    if (left := len(report.findings) - _MOST) > 0:
        lines.append((f"{left} more findings", False))
    return lines


def audit_record(audit: PluginAudit) -> dict[str, Any]:
    """The same for programs, without ids, hashes and times."""
    return {
        "plugin": audit.plugin,
        "version": audit.version,
        "risk": audit.risk.value,
        "verdict": audit.verdict.value,
        "summary": audit.summary,
        "canaries": audit.canaries.value,
        "description_accurate": audit.description_accurate,
        "static_only": audit.static_only,
        "remark": audit.remark,
        "findings": [
            {
                "severity": one.severity.value,
                "rule": one.rule,
                "message": one.message,
                "file": one.file,
                "line": one.line,
            }
            for one in audit.findings
        ],
        "injections": [{"text": one.text, "why": one.why} for one in audit.injections],
    }
