"""What is said about plugins: states, findings, audits, permissions. Values alone; the rules are in `plugins`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

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
    """One thing that a scan or an auditor found.

    Attributes:
        severity: How grave.
        rule: The scan's rule, `process-execution`; `auditor`, `canary` or `parser` for what others found.
        message: One sentence for a person; never the secret that it may have seen.
        file: Relative to the plugin's directory; empty for the plugin as a whole.
        line: From 1; 0 for a file as a whole.
        source: The line itself, cut to a width that can be shown; empty where there is none.
    """

    severity: Severity
    rule: str
    message: str
    file: str = ""
    line: int = 0
    source: str = ""

    @property
    def order(self) -> tuple[int, str, int, str, str]:
        """Sorts the gravest first, then by place."""
        return self.severity.rank, self.file, self.line, self.rule, self.message


@dataclass(frozen=True, slots=True)
class Injection:
    """Text in a plugin that looks like an instruction to whoever reads it.

    Attributes:
        text: The text, or the beginning of it.
        why: What it tries, in the auditor's words.
    """

    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class PluginPermissions:
    """What a plugin's jail opens: as declared, with `{field}` for a configured value, or as it was configured.

    Attributes:
        read: Paths that it may read.
        write: Paths that it may read and write.
        net: Hosts that it may reach, through the membrane.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    net: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether it asks for nothing at all."""
        return not (self.read or self.write or self.net)


@dataclass(frozen=True, slots=True)
class PluginAudit:
    """The report of one audit.

    Attributes:
        plugin: Its name.
        version: The version that was examined.
        content_hash: SHA-256 of everything that was examined, in hexadecimal.
        risk: The plugin as a whole.
        verdict: What the audit advises.
        summary: What the plugin does, one sentence.
        findings: The gravest first.
        injections: Attempts to talk to the auditor, without the planted ones.
        canaries: Whether the auditor noticed those.
        description_accurate: Whether the manifest says what the source does; None where nobody could tell.
        static_only: Whether no brain has looked.
        auditor: Who looked: a brain and its model; empty for the scan alone.
        remark: What a reader should know about the audit itself: why no brain has looked, what was lost.
        permissions: What the manifest declares.
        at: When, UTC.
    """

    plugin: str
    version: str
    content_hash: str
    risk: Risk
    verdict: AuditVerdict
    summary: str
    findings: tuple[PluginFinding, ...] = ()
    injections: tuple[Injection, ...] = ()
    canaries: CanaryStatus = CanaryStatus.NOT_RUN
    description_accurate: bool | None = None
    static_only: bool = False
    auditor: str = ""
    remark: str = ""
    permissions: PluginPermissions = field(default_factory=PluginPermissions)
    at: datetime | None = None

    @property
    def dangerous(self) -> bool:
        """Whether a finding keeps it out, whatever anybody decides."""
        return any(finding.severity is Severity.DANGER for finding in self.findings)


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
    "removed",
    "signed",
    "trusted",
    "distrusted",
]
"""What happened to a plugin beside audits and calls. `changed`: its files differ from those that were enabled."""
