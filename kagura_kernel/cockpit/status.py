"""What there is to know at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.journal.rows import RunRow


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part that could be used.

    Attributes:
        name: What `--box` or `--brain` takes.
        ok: Whether it can be used now.
        reason: Why, or why not, in half a sentence.
    """

    name: str
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The state of everything, as `%kagura status` shows it.

    Attributes:
        running: Runs that have not ended, of every process on this journal.
        pending: Approvals that wait.
        boxes: Back-ends.
        brains: Brains.
        journal: Where the journal lies; never with a password.
        spent_today_usd: Sum of the known costs of today's runs, in USD.
        unpriced_today: How many of today's runs have no known cost.
        lost: Runs that an earlier process left behind and that were marked lost when this one began.
    """

    running: tuple[RunRow, ...] = ()
    pending: tuple[ApprovalRequest, ...] = ()
    boxes: tuple[PartStatus, ...] = ()
    brains: tuple[PartStatus, ...] = ()
    journal: str = ""
    spent_today_usd: float = 0.0
    unpriced_today: int = 0
    lost: tuple[str, ...] = ()
