"""What the membranes of runs are made of, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kagura_kernel.domain.events import Event
from kagura_kernel.membrane.credentials.grants import Grant
from kagura_kernel.membrane.credentials.lease import Budget, LeaseTerms
from kagura_kernel.membrane.egress.asking import Answers
from kagura_kernel.membrane.egress.gate import Resolver, SystemResolver
from kagura_kernel.membrane.egress.limits import EgressLimits

if TYPE_CHECKING:
    from kagura_kernel.journal.leases import LeaseLedger
    from kagura_kernel.membrane.credentials.registry import Registry


class RecordFact(Protocol):
    """Makes, stores and shows an event of the run; raises `JournalError` when it cannot be stored."""

    def __call__(self, kind: type[Event], /, **fields: Any) -> object:
        """Record one fact."""
        ...


@dataclass(slots=True)
class SessionPowers:
    """What a person has allowed for a whole session; shared by its runs, and gone with this process."""

    answers: Answers = field(default_factory=Answers)  # Hosts
    budgets: dict[Grant, Budget] = field(default_factory=dict)  # What is left of the budgets of credentials
    writable_root: bool = False  # Whether its boxes may be changed as a whole
    # What agents' definitions have asked for, each as the SHA-256 of the definition and the word
    asked: set[tuple[str, str]] = field(default_factory=set)
    # Whether a credential needs a person's word in every single run, whatever was allowed before
    asks_anew: Callable[[Grant], bool] = lambda _grant: False


@dataclass(frozen=True, slots=True)
class MembraneParts:
    """What the membranes of all runs are made of."""

    ledger: LeaseLedger  # Where every credential is written down
    registry: Callable[[], Registry]  # Reads the person's credential providers, when they are first needed
    terms: LeaseTerms = field(default_factory=LeaseTerms)  # How leases are handled
    preapproved: frozenset[Grant] = frozenset()  # Credentials whose usual budget needs no asking
    limits: EgressLimits = field(default_factory=EgressLimits)  # On connections
    # Makes what turns names into addresses; one for each run, on its loop
    resolver: Callable[[], Resolver] = SystemResolver
