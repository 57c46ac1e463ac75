"""A lease: the right of one run to use a credential for a while. Frozen; a renewal gives a new value.

What a person approves: how long a scope may be held in all, and how often it may be renewed on the way.

A budget counts the time that a run may hold the scope, not the lifetimes of single credentials: when a credential is
renewed before its end, the time in which both live is spent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.settings import DEFAULTS, Settings
from kagura_kernel.membrane.credentials.grants import Grant, Scope
from kagura_kernel.membrane.credentials.secret import Credential

_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class Budget:
    """An approved amount, and what is left of it.

    Attributes:
        total_seconds: How long the scope may be held in all.
        spent_seconds: How much of that is spent, or committed to the credential that lives.
        renewals_left: How often a credential may still be replaced by a fresh one.
    """

    total_seconds: float = DEFAULTS.lease_budget_seconds
    spent_seconds: float = 0.0
    renewals_left: int = DEFAULTS.lease_renewals

    def __post_init__(self) -> None:
        numbers = (self.total_seconds, self.spent_seconds)
        if not all(0 <= number < float("inf") for number in numbers) or self.renewals_left < 0:
            raise ValueError("a budget has a finite total, nothing below zero")

    @property
    def remaining_seconds(self) -> float:
        """What may still be spent."""
        return max(0.0, self.total_seconds - self.spent_seconds)

    @property
    def exhausted(self) -> bool:
        """Whether no time is left; then nothing is minted."""
        return self.remaining_seconds <= _NOTHING

    @property
    def renewable(self) -> bool:
        """Whether a lease under it may be renewed once more."""
        return not self.exhausted and self.renewals_left > 0

    def first(self, ttl: float) -> float:
        """How long a first credential may live: `ttl`, and never more than is left."""
        return min(ttl, self.remaining_seconds)

    def extension(self, ttl: float, held_for: float) -> float:
        """How much a renewal now would add to a lease that is held for `held_for` seconds more."""
        return max(0.0, min(ttl - max(0.0, held_for), self.remaining_seconds))

    def spend(self, seconds: float) -> Budget:
        """The budget with so much less.

        Raises:
            ValueError: there is not so much left; nothing is ever overdrawn.
        """
        if seconds < 0 or seconds > self.remaining_seconds + _NOTHING:
            raise ValueError(f"{seconds:g} s cannot be spent of {self.remaining_seconds:g} s")
        return replace(self, spent_seconds=min(self.total_seconds, self.spent_seconds + seconds))

    def renew(self, seconds: float) -> Budget:
        """The budget with so much less and one renewal less.

        Raises:
            ValueError: there is not so much time, or no renewal, left.
        """
        if self.renewals_left < 1:
            raise ValueError("no renewal is left")
        return replace(self.spend(seconds), renewals_left=self.renewals_left - 1)

    def refund(self, seconds: float) -> Budget:
        """The budget with time back that was committed and, because the credential was revoked, not used."""
        return replace(self, spent_seconds=max(0.0, self.spent_seconds - max(0.0, seconds)))

    def extend(self, more: Budget) -> Budget:
        """Both together: what a person allowed before and what they allowed now."""
        return Budget(
            self.total_seconds + more.remaining_seconds, self.spent_seconds, self.renewals_left + more.renewals_left
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, for a checkpoint."""
        return {
            "total_seconds": self.total_seconds,
            "spent_seconds": self.spent_seconds,
            "renewals_left": self.renewals_left,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Budget:
        """The budget of a checkpoint.

        Raises:
            ValueError: it is none.
        """
        try:
            return cls(float(value["total_seconds"]), float(value["spent_seconds"]), int(value["renewals_left"]))
        except (KeyError, TypeError) as error:
            raise ValueError("this is no budget") from error


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

    ttl: float = DEFAULTS.lease_seconds
    budget: Budget = field(default_factory=Budget)
    renew_after: float = 0.75
    jitter: float = 0.1
    overlap: float = 5.0
    ask_deadline: float = DEFAULTS.approval_deadline
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


@dataclass(frozen=True, slots=True)
class Lease:
    """What a run holds.

    Attributes:
        id: `lea-…`; stays the same when it is renewed.
        provider: Name of the provider.
        scope: What it is good for.
        issued_at: When its present credential was minted, UTC.
        expires_at: When that ends, UTC; the clock may not say later for it to be used.
        budget: What is left of what was approved.
        renewals: How often it was renewed so far.
        ended: Why it is over, or on hold; empty while it is good.
        credential: The live one; None in every copy that leaves the broker's hands, and once it is over.
    """

    id: str
    provider: str
    scope: Scope
    issued_at: datetime
    expires_at: datetime
    budget: Budget
    renewals: int = 0
    ended: str = ""
    credential: Credential | None = field(default=None, repr=False, compare=False)

    @property
    def lifetime(self) -> float:
        """Seconds between issue and end of the present credential."""
        return (self.expires_at - self.issued_at).total_seconds()

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the present credential ends; 0 when it has."""
        return 0.0 if self.ended else max(0.0, (self.expires_at - now).total_seconds())

    def without_credential(self) -> Lease:
        """The same without the secret: for displays, logs and checkpoints."""
        return replace(self, credential=None)

    def checkpoint(self) -> LeaseCheckpoint:
        """What is kept when the work is put aside: the budget, never the credential."""
        return LeaseCheckpoint(self.provider, self.scope, self.budget)


@dataclass(frozen=True, slots=True)
class LeaseCheckpoint:
    """What of a lease outlives its run.

    Attributes:
        provider: Name of the provider.
        scope: What it was good for.
        budget: What is left; a resumed run acquires under it without asking again.
    """

    provider: str
    scope: Scope
    budget: Budget

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"provider": self.provider, "scope": self.scope, "budget": self.budget.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LeaseCheckpoint:
        """The checkpoint behind plain data.

        Raises:
            ValueError: it is none.
        """
        try:
            return cls(str(value["provider"]), Scope(str(value["scope"])), Budget.from_json(value["budget"]))
        except (KeyError, TypeError) as error:
            raise ValueError("this is no checkpoint of a lease") from error
