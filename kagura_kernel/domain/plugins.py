"""What is said about plugins: states, findings, audits and their reports, permissions. Values alone.

The rules are in `plugins`. What stands in a report of a plugin is its author's text, and an auditor's was written under
its influence: displays escape both.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Literal

from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.late_dataclass import dataclass, field

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
"""What a plugin may be called: kebab-case, and the same as its directory."""

MAX_NAME = 64


class PluginState(StrEnum):
    """Where a plugin is in a session. Whether it is approved is another question, and outlives the session."""

    DISCOVERED = "discovered"
    AUDITED = "audited"
    CONFIGURED = "configured"
    ENABLED = "enabled"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"


class Severity(StrEnum):
    """How grave a finding is; the gravest come first wherever findings are listed. Any danger keeps a plugin out."""

    DANGER = "danger"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(Severity).index(self)


class Risk(StrEnum):
    """What an audit says about a plugin as a whole. Unknown, where no brain has looked, counts as medium."""

    LOW = "LOW"
    UNKNOWN = "UNKNOWN"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"

    @property
    def rank(self) -> int:
        """0 for the lowest; unknown ranks with medium."""
        return {Risk.LOW: 0, Risk.UNKNOWN: 1, Risk.MEDIUM: 1, Risk.HIGH: 2, Risk.CRITICAL: 3}[self]

    def at_least(self, other: Risk) -> Risk:
        """The graver of the two; this one where they weigh the same."""
        return other if other.rank > self.rank else self


class AuditVerdict(StrEnum):
    """What an audit advises; a person decides."""

    APPROVE = "approve"
    REVIEW = "review"
    REJECT = "reject"

    @property
    def rank(self) -> int:
        """0 for the kindest."""
        return list(AuditVerdict).index(self)


class CanaryStatus(StrEnum):
    """Whether the auditor noticed what was planted for it."""

    OK = "OK"
    COMPROMISED = "AUDITOR_COMPROMISED"
    UNRELIABLE = "AUDITOR_UNRELIABLE"
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True, slots=True)
class PluginFinding:
    """One thing that a scan or an auditor found."""

    severity: Severity  # How grave
    rule: Exact  # The scan's rule, `process-execution`; `auditor`, `canary` or `parser` for what others found
    message: str  # One sentence for a person; never the secret that it may have seen
    file: Exact = ""  # Relative to the plugin's directory; empty for the plugin as a whole
    line: int = 0  # From 1; 0 for a file as a whole
    source: str = ""  # The line itself, cut to a width that can be shown; empty where there is none

    @property
    def order(self) -> tuple[int, str, int, str, str]:
        """Sorts the gravest first, then by place."""
        return self.severity.rank, self.file, self.line, self.rule, self.message


@dataclass(frozen=True, slots=True)
class Injection:
    """Text in a plugin that looks like an instruction to whoever reads it."""

    text: str  # The text, or the beginning of it
    why: str = ""  # What it tries, in the auditor's words


@dataclass(frozen=True, slots=True)
class PluginPermissions:
    """What a plugin's jail opens: as declared, with `{field}` for a configured value, or as it was configured."""

    read: tuple[Exact, ...] = ()  # Paths that it may read
    write: tuple[Exact, ...] = ()  # Paths that it may read and write
    net: tuple[Exact, ...] = ()  # Hosts that it may reach, through the membrane

    @property
    def nothing(self) -> bool:
        """Whether it asks for nothing at all."""
        return not (self.read or self.write or self.net)


@dataclass(frozen=True, slots=True)
class PluginAudit:
    """The report of one audit."""

    plugin: Exact  # Its name
    version: Exact  # The version that was examined
    content_hash: Exact  # SHA-256 of everything that was examined, in hexadecimal
    risk: Risk  # The plugin as a whole
    verdict: AuditVerdict  # What the audit advises
    summary: str  # What the plugin does, one sentence
    findings: tuple[PluginFinding, ...] = ()  # The gravest first
    injections: tuple[Injection, ...] = ()  # Attempts to talk to the auditor, without the planted ones
    canaries: CanaryStatus = CanaryStatus.NOT_RUN  # Whether the auditor noticed those
    # Whether the manifest says what the source does; None where nobody could tell
    description_accurate: bool | None = None
    static_only: bool = False  # Whether no brain has looked
    auditor: str = ""  # Who looked: a brain and its model; empty for the scan alone
    remark: str = ""  # What a reader should know about the audit itself: why no brain has looked, what was lost
    permissions: PluginPermissions = field(default_factory=PluginPermissions)  # What the manifest declares
    at: datetime | None = None  # When, UTC

    @property
    def dangerous(self) -> bool:
        """Whether a finding keeps it out, whatever anybody decides."""
        return any(finding.severity is Severity.DANGER for finding in self.findings)

    @property
    def played(self) -> bool:
        """Whether a cassette was the auditor, which says whatever its author likes."""
        return self.auditor.partition(" ")[0] == "replay"


PluginPlace = Literal["bundled", "user", "project"]
"""Where a plugin lies: with this package, in the user's data directory, in the project."""

PluginChange = Literal[
    "configured",
    "enabled",
    "disabled",
    "changed",
    "failed",
    "quarantined",
    "released",
    "approved",
    "unapproved",
    "rejected",
    "installed",
    "outdated",
    "removed",
    "signed",
    "trusted",
    "distrusted",
]
"""What happened to a plugin beside audits and calls. `changed`: its files differ from those that were enabled.
`outdated`: a repository has a newer version, which is the one that is told."""


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
