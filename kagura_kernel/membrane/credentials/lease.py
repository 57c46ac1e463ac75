"""Leases as values: which credentials a run may have, under which budget, and what it holds. Pure.

Nothing may be leased by default; what is granted is granted exactly, without patterns. A person approves a budget: how
long a scope may be held in all, and how often it may be renewed on the way. It counts the time that a run may hold the
scope, not the lifetimes of single credentials: when a credential is renewed before its end, the time in which both live
is spent once.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.errors import GrantMissing, LeaseEnded, UsageError
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.settings import DEFAULTS, Settings
from kagura_kernel.membrane.credentials.provider import Minted, Scope
from kagura_kernel.membrane.credentials.secret import Credential

_FORM = "A grant is written PROVIDER:SCOPE, as in `--grant github:read`"
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One thing that one run may have."""

    provider: str  # Name of a provider in the registry
    scope: Scope  # One of its scopes, exactly

    def __str__(self) -> str:
        return f"{self.provider}:{self.scope}"


def parse_grant(text: str) -> Grant:
    """The grant behind `PROVIDER:SCOPE`; a scope may hold further colons.

    Raises:
        UsageError: it is not of this form; patterns are not.
    """
    provider, colon, scope = text.partition(":")
    # What was written is not repeated: somebody may have pasted a secret here.
    if not colon:
        raise UsageError(f"{_FORM}.")
    if "*" in text or "?" in text:
        raise UsageError(f"{_FORM}; patterns are not allowed: grant each scope by its name.")
    if not _PROVIDER.fullmatch(provider):
        raise UsageError(f"{_FORM}; a provider's name begins with a small letter and is made of a-z, 0-9, - and _.")
    if not _SCOPE.fullmatch(scope):
        raise UsageError(
            f"{_FORM}; a scope's name begins with a letter or digit and is made of letters (A-Z, a-z), digits and "
            ". _ : / @ + -."
        )
    return Grant(provider, Scope(scope))


def is_provider_name(text: str) -> bool:
    """Whether a provider may bear this name."""
    return _PROVIDER.fullmatch(text) is not None


def is_scope_name(text: str) -> bool:
    """Whether a scope may bear this name."""
    return _SCOPE.fullmatch(text) is not None


def require_granted(granted: Collection[Grant], provider: str, scope: str) -> Grant:
    """The grant that allows this.

    Raises:
        GrantMissing: there is none.
    """
    wanted = Grant(provider, Scope(scope))
    if wanted not in granted:
        raise GrantMissing(provider, scope)
    return wanted


USED_UP = "its budget is used up"
"""Why a lease ends that a person has not extended."""

_NOTHING = 1e-6
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Budget:
    """An approved amount, and what is left of it."""

    total_seconds: float = DEFAULTS.lease_budget_seconds  # How long the scope may be held in all
    spent_seconds: float = 0.0  # How much of that is spent, or committed to the credential that lives
    renewals_left: int = DEFAULTS.lease_renewals  # How often a credential may still be replaced by a fresh one

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


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom leases are held."""

    run_id: str
    session_id: str
    owner: str  # This process, as `journal.owner.process_owner` writes it


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Numbers."""

    ttl: float = DEFAULTS.lease_seconds  # Seconds that one credential is meant to live
    budget: Budget = field(default_factory=Budget)  # What a person is asked for when they are asked
    renew_after: float = 0.75  # Part of a credential's life after which it is renewed,
    jitter: float = 0.1  # and how much later, at most, so that many leases do not renew in one moment
    # Seconds that a credential which was renewed still lives: a request that took it along may not have arrived yet
    overlap: float = 5.0
    ask_deadline: float = DEFAULTS.approval_deadline  # Seconds until no answer is a no
    attempts: int = 3  # How often a provider that has trouble is asked for a first credential
    first_pause: float = 1.0  # Seconds between the first two attempts; doubled each time,
    longest_pause: float = 30.0  # up to this

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
    grant: Grant, terms: LeaseTerms, holder: Holder, now: datetime, *, note: str, reason: str
) -> ApprovalRequest:
    """The question for another budget: what exactly is approved is the budget, not a credential."""
    budget = terms.budget
    total = span(budget.total_seconds)
    lines = [
        f"Provider {grant.provider}, scope {grant.scope}.",
        f"Held for at most {total} more, renewed at most {budget.renewals_left} times more.",
        f"Each credential is meant to live {span(terms.ttl)}.",
    ]
    if note:
        lines.append(note)
    return ApprovalRequest(
        id=new_approval_id(),
        run_id=holder.run_id,
        session_id=holder.session_id,
        kind=ApprovalKind.CREDENTIAL,
        title=f"Hold {grant} for up to {total} more",
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
    """What a run holds, or wants to hold. Each step of its life gives a new value.

    ::

        ask ─▶ acquire ─▶ minted ─▶ hold ─▶ gone, with `refund` where its credential was revoked
                  ▲ renew ◀─┴─────────┘

    `acquire` and `renew` commit a part of the budget to a credential that is not there yet; `minted` puts it in.
    """

    provider: str  # Name of the provider
    scope: Scope  # What it is good for
    budget: Budget  # What is left of what was approved
    id: str = ""  # `lea-…`: the row of its first credential; stays the same when it is renewed
    row_id: str = ""  # The ledger's row of its present credential; empty while it has none
    issued_at: datetime = _NEVER  # When its present credential was minted, UTC
    expires_at: datetime = _NEVER  # When that ends, UTC; the clock may not say later for it to be used
    lifetime: float = 0.0  # Seconds between these two; while it is minted, those that are asked for
    renewals: int = 0  # How often it was renewed so far
    ended: str = ""  # Why it is over, or on hold; empty while it is good
    # The live one; None in every copy that leaves the broker's hands, and once it is over
    credential: Credential | None = field(default=None, repr=False, compare=False)
    handle: str = field(default="", repr=False, compare=False)  # What revokes that credential; likewise

    @classmethod
    def ask(cls, grant: Grant, budget: Budget) -> Lease:
        """A lease for which nothing was minted yet."""
        return cls(grant.provider, grant.scope, budget)

    def acquire(self, ttl: float) -> Lease:
        """The same with what a first credential of `ttl` seconds, or of what is left, takes of its budget."""
        seconds = self.budget.first(ttl)
        return replace(self, budget=self.budget.spend(seconds), lifetime=seconds)

    def renew(self, ttl: float, held_for: float) -> Lease:
        """The same with what a fresh credential takes when the present one is good for so many seconds more.

        Raises:
            LeaseEnded: its budget has no time or no renewal left.
        """
        if not self.budget.renewable:
            raise LeaseEnded(self.provider, self.scope, USED_UP)
        added = self.budget.extension(ttl, held_for)
        return replace(self, budget=self.budget.renew(added), lifetime=held_for + added, renewals=self.renewals + 1)

    def minted(self, row_id: str, minted: Minted, issued_at: datetime) -> Lease:
        """The same with a live credential; time that its provider did not give goes back to the budget."""
        lifetime = min(self.lifetime, minted.lives)
        return replace(
            self,
            id=self.id or row_id,
            row_id=row_id,
            issued_at=issued_at,
            expires_at=issued_at + timedelta(seconds=lifetime),
            lifetime=lifetime,
            budget=self.budget.refund(self.lifetime - lifetime),
            ended="",
            credential=minted.credential,
            handle=minted.handle,
        )

    def extend(self, more: Budget) -> Lease:
        """The same under what a person allowed before and what they allowed now."""
        return replace(self, budget=self.budget.extend(more))

    def hold(self, why: str) -> Lease:
        """The same without its credential, which is given to nobody from here on: on hold, or over."""
        return replace(self, ended=why, row_id="", credential=None, handle="")

    def refund(self, seconds: float) -> Lease:
        """The same with time back that its credential, which was revoked, will not use."""
        return replace(self, budget=self.budget.refund(seconds))

    def without_credential(self) -> Lease:
        """The same without the secret, and without what revokes it: for displays, logs and checkpoints."""
        return replace(self, credential=None, handle="")

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the present credential ends; 0 when it has."""
        return 0.0 if self.ended else max(0.0, (self.expires_at - now).total_seconds())
