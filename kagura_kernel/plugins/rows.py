"""Plugins as lists, cards and the sidebar show them, and the examined bytes that decisions are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.plugins import AuditVerdict, PluginPermissions, PluginPlace, PluginState, Risk
from kagura_kernel.plugins.wording import first_danger

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginAudit
    from kagura_kernel.plugins.discovery import Found, Problem
    from kagura_kernel.plugins.scan.result import ScanResult
    from kagura_kernel.plugins.schema import Schema
    from kagura_kernel.plugins.states import Standing


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin, as lists show it.

    Attributes:
        name: Its name; for one that cannot be used, its directory's.
        version: SemVer; empty for one that cannot be used.
        description: As its manifest has it.
        place: Where it lies.
        path: Its directory.
        modules: What guest code imports.
        permissions: As declared.
        state: Where it is in the session.
        approved: Whether exactly these files are approved, at a risk that is allowed.
        risk: Of the latest audit of exactly these files; None while there is none.
        verdict: Likewise.
        audited_at: Likewise, UTC.
        content_hash: SHA-256 over all files; empty for one that cannot be used.
        signed_by: The trusted author whose signature holds; empty for none.
        problem: Why it cannot be used; empty when it can.
        danger: What keeps these files out whatever anybody decides: of their bytes, or of their latest audit; empty
            for nothing that is known.
        quarantine: Why it is put off; empty when it is not.
        config: What it is configured with in the session, passwords masked.
        opens: What its jail opens in the session; nothing before it is configured.
        static_only: Whether no brain took part in the latest audit.
    """

    name: str
    version: str = ""
    description: str = ""
    place: PluginPlace = "user"
    path: Path = Path()
    modules: tuple[str, ...] = ()
    permissions: PluginPermissions = field(default_factory=PluginPermissions)
    state: PluginState = PluginState.DISCOVERED
    approved: bool = False
    risk: Risk | None = None
    verdict: AuditVerdict | None = None
    audited_at: datetime | None = None
    content_hash: str = ""
    signed_by: str = ""
    problem: str = ""
    quarantine: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    opens: PluginPermissions = field(default_factory=PluginPermissions)
    static_only: bool = False
    danger: str = ""

    @property
    def why_out(self) -> str:
        """Why it cannot be enabled, as lists say it beneath; empty when it can, as far as is known."""
        return self.problem or self.quarantine or (f"kept out: {self.danger}" if self.danger else "")


@dataclass(frozen=True, slots=True)
class Examined:
    """A plugin whose bytes were read once, and scanned: exactly these are audited, approved, loaded.

    Attributes:
        found: Place, manifest and bytes.
        scan: What the scan found in these bytes.
        schema: The fields of its configuration; none where the source is too broken to have any.
        signed_by: The trusted author whose signature holds; empty for none.
    """

    found: Found
    scan: ScanResult
    schema: Schema
    signed_by: str = ""

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.found.name

    @property
    def content_hash(self) -> str:
        """Of the bytes that were read."""
        return self.found.content.content_hash


def usable_row(
    found: Found,
    standing: Standing,
    state: PluginState,
    *,
    audit: PluginAudit | None,
    approved: bool,
    signed_by: str,
    quarantine: str,
) -> PluginRow:
    """The row of a plugin that can be used."""
    configured = state in (PluginState.CONFIGURED, PluginState.ENABLED, PluginState.DISABLED)
    return PluginRow(
        name=found.name,
        version=found.manifest.version,
        description=found.manifest.description,
        place=found.place,
        path=found.content.root,
        modules=found.manifest.host_modules,
        permissions=found.manifest.permissions,
        state=state,
        approved=approved,
        risk=audit.risk if audit else None,
        verdict=audit.verdict if audit else None,
        audited_at=audit.at if audit else None,
        content_hash=found.content.content_hash,
        signed_by=signed_by,
        quarantine=quarantine,
        config=standing.config,
        opens=standing.opens if configured else PluginPermissions(),
        static_only=bool(audit and audit.static_only),
        # A signature that does not hold is seen without an audit.
        danger=first_danger([*found.content.oddities, *(audit.findings if audit else ())]),
    )


def unusable_row(problem: Problem) -> PluginRow:
    """The row of a directory that is no usable plugin."""
    return PluginRow(name=problem.name, place=problem.place, path=problem.path, problem="; ".join(problem.why))
