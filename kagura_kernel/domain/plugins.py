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
    """One thing that a scan or an auditor found."""

    severity: Severity  # How grave
    rule: str  # The scan's rule, `process-execution`; `auditor`, `canary` or `parser` for what others found
    message: str  # One sentence for a person; never the secret that it may have seen
    file: str = ""  # Relative to the plugin's directory; empty for the plugin as a whole
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

    read: tuple[str, ...] = ()  # Paths that it may read
    write: tuple[str, ...] = ()  # Paths that it may read and write
    net: tuple[str, ...] = ()  # Hosts that it may reach, through the membrane

    @property
    def nothing(self) -> bool:
        """Whether it asks for nothing at all."""
        return not (self.read or self.write or self.net)


@dataclass(frozen=True, slots=True)
class PluginAudit:
    """The report of one audit."""

    plugin: str  # Its name
    version: str  # The version that was examined
    content_hash: str  # SHA-256 of everything that was examined, in hexadecimal
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
