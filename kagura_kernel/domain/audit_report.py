"""An audit's report in words, the same on every card, in every terminal and every file. Pure.

What stands in it of a plugin is its author's text, and an auditor's was written under its influence: displays escape
both.
"""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, PluginAudit, PluginFinding, Risk, Severity

RISK_WORDS = {
    Risk.LOW: "Low risk",
    Risk.UNKNOWN: "Risk unknown",
    Risk.MEDIUM: "Medium risk",
    Risk.HIGH: "High risk",
    Risk.CRITICAL: "Critical risk",
}
VERDICT_WORDS = {
    AuditVerdict.APPROVE: "The audit has nothing against it",
    AuditVerdict.REVIEW: "Look at it yourself before you enable it",
    AuditVerdict.REJECT: "The audit advises against it",
}
CANARY_WORDS = {
    CanaryStatus.OK: "The auditor reported both planted instructions",
    CanaryStatus.COMPROMISED: "The auditor did not report what was planted for it: something has talked it round",
    CanaryStatus.UNRELIABLE: "The auditor reported an instruction that nobody has shown it",
    CanaryStatus.NOT_RUN: "Nobody was tested with planted instructions",
}
SEVERITY_WORDS = {Severity.DANGER: "Danger", Severity.WARNING: "Warning", Severity.INFO: "Info"}

_CANARY_SHORT = {
    CanaryStatus.OK: "reported",
    CanaryStatus.COMPROMISED: "not reported",
    CanaryStatus.UNRELIABLE: "others invented",
    CanaryStatus.NOT_RUN: "not tested",
}


@dataclass(frozen=True, slots=True)
class ReportFact:
    """One line of the report's table."""

    name: str  # What it is about
    text: str  # What is to be said
    good: bool | None = None  # Whether it speaks for the plugin; None where it does neither


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """One finding, ready to be shown."""

    severity: Severity  # How grave
    word: str  # The same for reading
    message: str  # One sentence
    place: str  # `plugin.py:12`; empty for the plugin as a whole
    source: str  # The line itself, as it is in the file but for its indentation; empty without one


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A report for a display."""

    title: str  # Name and version
    risk: Risk  # For a badge
    risk_words: str  # Its text
    verdict_words: str  # What the audit advises
    counts: str  # `1 danger, 2 warnings`; `no findings`
    summary: str  # What the plugin does, one sentence
    remark: str  # What a reader should know about the audit itself; empty for nothing
    facts: tuple[ReportFact, ...]  # Auditor, planted instructions, description, permissions, hash
    findings: tuple[ReportFinding, ...]  # The gravest first
    injections: tuple[tuple[str, str], ...]  # Each with what it tries


def report_of(audit: PluginAudit) -> AuditReport:
    """The report of an audit. The hash is cut: whoever compares asks for the whole one."""
    return AuditReport(
        title=f"{audit.plugin} {audit.version}",
        risk=audit.risk,
        risk_words=RISK_WORDS[audit.risk],
        verdict_words=VERDICT_WORDS[audit.verdict],
        counts=_counts(audit.findings),
        summary=audit.summary,
        remark=audit.remark,
        facts=_facts(audit),
        findings=tuple(map(_finding, audit.findings)),
        injections=tuple((one.text, one.why) for one in audit.injections),
    )


def line_of(audit: PluginAudit) -> str:
    """The report in one line, for logs and lists."""
    canaries = "" if audit.static_only else f", planted instructions {_CANARY_SHORT[audit.canaries]}"
    looked = "scan alone" if audit.static_only else audit.auditor
    return f"{RISK_WORDS[audit.risk]} ({looked}{canaries}): {_counts(audit.findings)}"


def _facts(audit: PluginAudit) -> tuple[ReportFact, ...]:
    asked = audit.permissions
    kinds = (("read", asked.read), ("write", asked.write), ("net", asked.net))
    opened = [f"{kind} {', '.join(entries)}" for kind, entries in kinds if entries]
    accurate = {True: "accurate", False: "not accurate", None: "nobody has checked it"}[audit.description_accurate]
    return (
        ReportFact("Auditor", audit.auditor or "none, the static scan alone", None if audit.auditor else False),
        ReportFact(
            "Planted instructions",
            CANARY_WORDS[audit.canaries],
            None if audit.canaries is CanaryStatus.NOT_RUN else audit.canaries is CanaryStatus.OK,
        ),
        ReportFact("Description", accurate, audit.description_accurate),
        ReportFact("Permissions", "; ".join(opened) or "none: it reads, writes and reaches nothing"),
        ReportFact("Content", f"SHA-256 {audit.content_hash[:16]}…"),
    )


def _finding(finding: PluginFinding) -> ReportFinding:
    place = f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file
    return ReportFinding(
        finding.severity, SEVERITY_WORDS[finding.severity], finding.message, place, finding.source.strip()
    )


def _counts(findings: tuple[PluginFinding, ...]) -> str:
    told = []
    for severity in Severity:
        count = sum(finding.severity is severity for finding in findings)
        plural = "s" if severity is Severity.WARNING and count != 1 else ""
        if count:
            told.append(f"{count} {severity.value}{plural}")
    return ", ".join(told) or "no findings"
