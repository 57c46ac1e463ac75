"""An audit in the card of its own run: a few lines, for whoever looks at the run. The report has a card of its own."""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.plugins import PluginAudit


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
