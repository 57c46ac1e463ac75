"""What there is to know at a glance."""

from __future__ import annotations

from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.rows import RunRow


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part that could be used."""

    name: str  # What `--box` or `--brain` takes
    ok: bool  # Whether it can be used now
    reason: str  # Why, or why not, in half a sentence
    isolation: str = ""  # Of a back-end: the class of its walls; empty otherwise
    advice: str = ""  # What would make it better, or work at all; empty when there is nothing to say
    install: str = ""  # Of `reason`, what to do or install first; empty when there is nothing


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """One credential that outlived the run it was minted for."""

    lease_id: str  # `lea-…`, its row in the ledger
    provider: str  # Name of its provider
    scope: str  # What it was good for
    how: str  # What became of it: `revoked`, `forgotten`, `expired`, `left to expire`, `never minted`, or `owed`
    why: str = ""  # For `owed`: why it is not gone yet, one clause; may be empty


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The state of everything, as `%kagura status` shows it."""

    running: tuple[RunRow, ...] = ()  # Runs that have not ended, of every process on this journal
    pending: tuple[ApprovalRequest, ...] = ()  # Approvals that wait
    boxes: tuple[PartStatus, ...] = ()  # Back-ends
    brains: tuple[PartStatus, ...] = ()
    journal: str = ""  # Where the journal lies; never with a password
    spent_today_usd: float = 0.0  # Sum of the known costs of today's runs, in USD
    unpriced_today: int = 0  # How many of today's runs have no known cost
    lost: tuple[str, ...] = ()  # Runs that an earlier process left behind and that were marked lost when this one began
    # Credentials that earlier processes left behind, and what became of them since this one began
    swept: tuple[CredentialStatus, ...] = ()
    # Credentials that no run holds any more and that are not known to be gone; their providers are told again and again
    owed: tuple[CredentialStatus, ...] = ()
    # Whether others share this machine: back-ends whose `isolation` is weaker than gVisor's are refused then, whatever
    # their `ok` says
    shared: bool = False
    memory: str = ""  # What is wrong with the memory, so that no agent can start; empty when nothing is
    others: tuple[PartStatus, ...] = ()
