"""How leases are handled: the defaults a person agrees to, and when a renewal is due. Decides, does nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.credentials.budget import Budget
from kagura_kernel.membrane.credentials.grants import Grant

DEFAULT_TTL = 900.0


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom leases are held.

    Attributes:
        run_id: The run.
        session_id: Its session.
        owner: This process, as `journal.owner.process_owner` writes it.
    """

    run_id: str
    session_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Numbers.

    Attributes:
        ttl: Seconds that one credential is meant to live.
        budget: What a person is asked for when they are asked.
        renew_after: Part of a credential's life after which it is renewed,
        jitter: and how much later, at most, so that many leases do not renew in one moment.
        overlap: Seconds that a credential which was renewed still lives: a request that took it along may not have
            arrived yet.
        ask_deadline: Seconds until no answer is a no.
        attempts: How often a provider that has trouble is asked for a first credential.
        first_pause: Seconds between the first two attempts; doubled each time,
        longest_pause: up to this.
    """

    ttl: float = DEFAULT_TTL
    budget: Budget = field(default_factory=Budget)
    renew_after: float = 0.75
    jitter: float = 0.1
    overlap: float = 5.0
    ask_deadline: float = 300.0
    attempts: int = 3
    first_pause: float = 1.0
    longest_pause: float = 30.0

    def renewal_in(self, seconds_left: float, chance: float) -> float:
        """Seconds until a credential that lives so long should be renewed."""
        return seconds_left * min(0.95, self.renew_after + self.jitter * chance)

    def pause(self, failures: int, chance: float, retry_after: float | None = None) -> float:
        """Seconds between one failed attempt to mint and the next."""
        doubled = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 16))
        return max(doubled * (0.75 + 0.5 * chance), min(retry_after or 0.0, 300.0))


def lease_terms(settings: Settings) -> LeaseTerms:
    """What the person's settings say."""
    budget = Budget(settings.lease_budget_seconds, 0.0, settings.lease_renewals)
    return LeaseTerms(settings.lease_seconds, budget, ask_deadline=settings.approval_deadline)


def ask_for(
    grant: Grant, terms: LeaseTerms, holder: Holder, now: datetime, *, note: str, reason: str, again: bool
) -> ApprovalRequest:
    """The question for a budget: what exactly is approved is the budget, not a credential."""
    budget = terms.budget
    more = " more" if again else ""
    total = span(budget.total_seconds)
    lines = [
        f"Provider {grant.provider}, scope {grant.scope}.",
        f"Held for at most {total}{more or ' in all'}, renewed at most {budget.renewals_left} times{more}.",
        f"Each credential is meant to live {span(terms.ttl)}.",
    ]
    if note:
        lines.append(note)
    return ApprovalRequest(
        id=new_approval_id(),
        run_id=holder.run_id,
        session_id=holder.session_id,
        kind=ApprovalKind.CREDENTIAL,
        title=f"Hold {grant} for up to {total}{more}",
        detail="\n".join(lines),
        requested_at=now,
        reason=reason,
        arguments={
            "provider": grant.provider,
            "scope": grant.scope,
            "total_seconds": budget.total_seconds,
            "renewals": budget.renewals_left,
            "ttl_seconds": terms.ttl,
        },
        deadline=terms.ask_deadline,
    )


def span(seconds: float) -> str:
    """`1 h`, `15 min`, `40 s`."""
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
