"""What the connections to one configured database may reach: that host and port, and nothing else. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from kagura_kernel.membrane.egress.addresses import why_never, why_refused
from kagura_kernel.membrane.egress.names import Target
from kagura_kernel.membrane.egress.policy import EgressRuling, EgressVerdict


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """Opens one host and port; `EgressRules`.

    Attributes:
        target: The database's.
        private: Whether an address outside the public network may be meant, behind a name too; the addresses that
            nobody can mean stay refused.
        rule: What stands in the records.
        sets: None: the database was configured, and no word of a run opens another one.
        all_answers: No: a person has named it, in a network where names have many addresses.
    """

    target: Target
    private: bool
    rule: str
    sets: None = field(default=None, init=False)
    all_answers: bool = field(default=False, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """Allowed if it is the database."""
        if target != self.target:
            return EgressRuling(target, EgressVerdict.DENY, "is not the database that was configured")
        return EgressRuling(target, EgressVerdict.ALLOW, "a database that was configured", self.rule)

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        del port
        return why_never(address) if self.private else why_refused(address)
