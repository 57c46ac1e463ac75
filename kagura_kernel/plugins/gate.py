"""What keeps a plugin out whatever anybody decides, and what an enabling must show: the load gate. Pure.

Reasons are half sentences that go on from "The plugin 'name'".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import PluginChangedSince, PluginRefused
from kagura_kernel.domain.plugins import PluginAudit, Risk
from kagura_kernel.plugins.wording import first_danger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kagura_kernel.plugins.approvals import ApprovalRecord
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.rows import Examined


def why_barred(examined: Examined, audit: PluginAudit | None, highest: Risk) -> str:
    """Why nobody can enable or approve it; empty when somebody can.

    Args:
        examined: The bytes, and what the scan found in them.
        audit: Of these bytes; None while there is none.
        highest: The highest risk that is allowed.
    """
    if found := first_danger(examined.scan.findings):
        return f"may not be loaded: {found}"
    if audit is None:
        return ""
    if audit.content_hash != examined.content_hash:
        return "has other files than those that were audited"
    return why_audit_bars(audit, highest)


def why_audit_bars(audit: PluginAudit, highest: Risk) -> str:
    """Why nobody can have what this audit is about; empty when somebody can."""
    if found := first_danger(audit.findings):
        return f"may not be loaded: {found}"
    if audit.risk.rank > highest.rank:
        return f"has the risk {audit.risk}, and {highest} is the highest that is allowed here (plugin_max_risk)"
    return ""


def why_outlived(approval: ApprovalRecord, audit: PluginAudit | None) -> str:
    """Why an approval counts no more: an audit of the same bytes says worse than the one that it was given on.

    Where no brain has looked, only a danger is worse: that the risk is not known says nothing new.

    Args:
        approval: The approval.
        audit: Of the bytes that it is about; None where none is known.
    """
    if audit is None:
        return ""
    graver = audit.risk.rank > approval.risk.rank or audit.verdict.rank > approval.verdict.rank
    if not (audit.dangerous or (graver and not audit.static_only)):
        return ""
    was = f"risk {approval.risk}, {approval.verdict}"
    return f"was approved at {was}, and an audit of the same files says risk {audit.risk}, {audit.verdict}"


def check_bytes(content: PluginContent, content_hash: str) -> None:
    """Make sure that these bytes, hashed anew, are those that a decision was about.

    Raises:
        PluginChangedSince: they are not.
    """
    # A fresh copy has no hash that was kept from before.
    if replace(content).content_hash != content_hash:
        raise PluginChangedSince(content.name, "examined")


def check_modules(name: str, modules: Sequence[str], taken: dict[str, str]) -> None:
    """Refuse a plugin whose module another enabled one of the session has.

    Args:
        name: The plugin.
        modules: What it declares.
        taken: Who has which module, itself not among them.

    Raises:
        PluginRefused: one of them is taken.
    """
    for module in modules:
        if module in taken:
            advice = f"Disable {taken[module]!r} first."
            raise PluginRefused(name, f"has the module {module!r}, which {taken[module]!r} has in this session", advice)
