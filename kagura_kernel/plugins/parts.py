"""What a process's plugins are joined from; `assembly` names the concrete parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.plugins import PluginPlace, Risk
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.approvals import ApprovalBook, QuarantineBook
from kagura_kernel.plugins.calling import EnabledPlugin, plugin_briefing
from kagura_kernel.plugins.enabled import StartJail

if TYPE_CHECKING:
    from kagura_kernel.plugins.trust import TrustBook

IDLE_SECONDS = 600.0

Places = Callable[[Path | None], Sequence[tuple[PluginPlace, Path]]]
"""Where plugins lie for a project, or without one, the most trusted place first."""


def as_it_is(value: Any) -> Any:
    """The value: where nothing is taken out."""
    return value


@dataclass(frozen=True, slots=True)
class ManagerParts:
    """What a manager is joined from."""

    journal: Journal  # Where everything about plugins is written down, and where words from other processes lie
    clock: Clock  # The time
    owner: str  # This process, as `process_owner` names it
    places: Places  # Where plugins lie
    person: Path | None  # The person's home directory; None where there is none
    private: Sequence[Path]  # Directories that no jail may be shown, our data directory among them
    approvals: ApprovalBook  # The approved ones, of this machine
    quarantine: QuarantineBook  # Those that are put off, of this machine
    trust: TrustBook  # Authors whose signatures count
    start_jail: StartJail  # Makes the jail of an enabled plugin
    max_risk: Risk = Risk.MEDIUM  # The highest risk at which a plugin may be enabled or approved
    # How long a jail may be without a call until it is ended; the next call starts it again
    idle_seconds: float = IDLE_SECONDS
    brief: Callable[[Sequence[EnabledPlugin]], str] = plugin_briefing  # What a brain is told of enabled plugins
    # Takes secrets out of a text, a finding or a report: the same type comes back. A brain that audits is shown the
    # source as it is.
    redact: Callable[[Any], Any] = as_it_is
