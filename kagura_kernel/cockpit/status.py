"""What there is to know at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.journal.rows import CostRow, RunRow


def spent(rows: Iterable[CostRow]) -> tuple[float, int]:
    """What runs cost in USD as far as that is known, and of how many it is not although somebody was paid."""
    usd, unpriced = 0.0, 0
    for row in rows:
        if row.usd is not None:
            usd += row.usd
        elif row.brain not in ("", "replay"):
            unpriced += 1
    return usd, unpriced


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part that could be used.

    Attributes:
        name: What `--box` or `--brain` takes.
        ok: Whether it can be used now.
        reason: Why, or why not, in half a sentence.
        isolation: Of a back-end: the class of its walls; empty otherwise.
        advice: What would make it better, or work at all; empty when there is nothing to say.
        install: Of `reason`, what to do or install first; empty when there is nothing.
    """

    name: str
    ok: bool
    reason: str
    isolation: str = ""
    advice: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """One credential that outlived the run it was minted for.

    Attributes:
        lease_id: `lea-…`, its row in the ledger.
        provider: Name of its provider.
        scope: What it was good for.
        how: What became of it: `revoked`, `forgotten`, `expired`, `left to expire`, `never minted`, or `owed`.
        why: For `owed`: why it is not gone yet, one clause; may be empty.
    """

    lease_id: str
    provider: str
    scope: str
    how: str
    why: str = ""


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
        swept: Credentials that earlier processes left behind, and what became of them since this one began.
        owed: Credentials that no run holds any more and that are not known to be gone; their providers are told again
            and again.
        memory: What is wrong with the memory, so that no agent can start; empty when nothing is.
        shared: Whether others share this machine: back-ends whose `isolation` is weaker than gVisor's are refused then,
            whatever their `ok` says.
    """

    running: tuple[RunRow, ...] = ()
    pending: tuple[ApprovalRequest, ...] = ()
    boxes: tuple[PartStatus, ...] = ()
    brains: tuple[PartStatus, ...] = ()
    journal: str = ""
    spent_today_usd: float = 0.0
    unpriced_today: int = 0
    lost: tuple[str, ...] = ()
    swept: tuple[CredentialStatus, ...] = ()
    owed: tuple[CredentialStatus, ...] = ()
    shared: bool = False
    memory: str = ""
    others: tuple[PartStatus, ...] = ()
