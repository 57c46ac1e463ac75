"""Plugins as lists, cards and the sidebar show them, and the examined bytes that decisions are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.plugins import AuditVerdict, PluginPermissions, PluginPlace, PluginState, Risk

if TYPE_CHECKING:
    from kagura_kernel.plugins.discovery import Found
    from kagura_kernel.plugins.scan.result import ScanResult
    from kagura_kernel.plugins.schema import Schema


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin, as lists show it."""

    name: str  # Its name; for one that cannot be used, its directory's
    version: str = ""  # SemVer; empty for one that cannot be used
    description: str = ""  # As its manifest has it
    place: PluginPlace = "user"  # Where it lies
    path: Path = Path()  # Its directory
    modules: tuple[str, ...] = ()  # What guest code imports
    permissions: PluginPermissions = field(default_factory=PluginPermissions)  # As declared
    state: PluginState = PluginState.DISCOVERED  # Where it is in the session
    approved: bool = False  # Whether exactly these files are approved, at a risk that is allowed
    risk: Risk | None = None  # Of the latest audit of exactly these files; None while there is none
    verdict: AuditVerdict | None = None  # Likewise
    audited_at: datetime | None = None  # Likewise, UTC
    content_hash: str = ""  # SHA-256 over all files; empty for one that cannot be used
    signed_by: str = ""  # The trusted author whose signature holds; empty for none
    problem: str = ""  # Why it cannot be used; empty when it can
    quarantine: str = ""  # Why it is put off; empty when it is not
    # What it is configured with in the session, passwords masked
    config: Mapping[str, str] = field(default_factory=dict)
    # What its jail opens in the session; nothing before it is configured
    opens: PluginPermissions = field(default_factory=PluginPermissions)
    static_only: bool = False  # Whether no brain took part in the latest audit
    # What keeps these files out whatever anybody decides: of their bytes, or of their latest audit; empty for nothing
    # that is known
    danger: str = ""

    @property
    def why_out(self) -> str:
        """Why it cannot be enabled, as lists say it beneath; empty when it can, as far as is known."""
        return self.problem or self.quarantine or (f"kept out: {self.danger}" if self.danger else "")


@dataclass(frozen=True, slots=True)
class Examined:
    """A plugin whose bytes were read once, and scanned: exactly these are audited, approved, loaded."""

    found: Found  # Place, manifest and bytes
    scan: ScanResult  # What the scan found in these bytes
    schema: Schema  # The fields of its configuration; none where the source is too broken to have any
    signed_by: str = ""  # The trusted author whose signature holds; empty for none

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.found.name

    @property
    def content_hash(self) -> str:
        """Of the bytes that were read."""
        return self.found.content.content_hash
