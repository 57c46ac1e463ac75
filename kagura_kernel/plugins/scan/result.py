"""What a scan says: findings, and what a plugin was seen to reach for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kagura_kernel.domain.plugins import PluginFinding, Severity

Use = Literal["read", "write", "net"]
"""What a permission can open."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One scan of a plugin's bytes."""

    findings: tuple[PluginFinding, ...]  # The gravest first, then by place
    # The value of `SCHEMA`, read without running anything; None when it has none that can be read so
    schema: Any | None = None
    uses: frozenset[Use] = frozenset()  # What the source reaches for, whether it is declared or not

    @property
    def severity(self) -> Severity | None:
        """The gravest of the findings; None when there are none."""
        return self.findings[0].severity if self.findings else None

    @property
    def dangerous(self) -> bool:
        """Whether a finding keeps the plugin out, whatever anybody decides."""
        return self.severity is Severity.DANGER


@dataclass(frozen=True, slots=True)
class Scan:
    """One path that was scanned."""

    path: str  # As it was given
    severity: Severity | None  # The gravest of the findings; None when there are none
    findings: tuple[PluginFinding, ...]  # The gravest first

    @property
    def dangerous(self) -> bool:
        """Whether a finding keeps the plugin out."""
        return self.severity is Severity.DANGER
