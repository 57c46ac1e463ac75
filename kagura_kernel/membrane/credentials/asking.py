"""Asking before a credential is minted: a person for the budget, and a provider in trouble more than once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalDenied, ApprovalRequired, LeaseUnavailable
from kagura_kernel.membrane.credentials.budget import Budget
from kagura_kernel.membrane.credentials.grants import Grant
from kagura_kernel.membrane.credentials.provider import ProviderTraits
from kagura_kernel.membrane.credentials.terms import Holder, LeaseTerms, ask_for

T = TypeVar("T")


class Asking:
    """Where budgets come from."""

    def __init__(self, approver: Approver | None, terms: LeaseTerms, holder: Holder, clock: Clock) -> None:
        self._approver = approver
        self._terms = terms
        self._holder = holder
        self._clock = clock

    async def budget(self, grant: Grant, traits: ProviderTraits, *, reason: str, again: bool) -> Budget:
        """A budget that somebody has allowed just now.

        Raises:
            ApprovalRequired: nobody can be asked.
            ApprovalDenied: somebody said no, or did not answer.
            ApprovalAborted: somebody called the run off.
        """
        if self._approver is None:
            raise ApprovalRequired(f"The credential {grant}", "it is held under a budget, and nobody can be asked")
        now = self._clock.now()
        request = ask_for(grant, self._terms, self._holder, now, note=traits.note, reason=reason, again=again)
        decision = await self._approver.approve(request)
        if not decision.allowed:
            raise ApprovalDenied(f"The credential {grant}", f"{decision.verdict} by {decision.by}")
        return self._terms.budget


async def patiently(
    attempt: Callable[[], Awaitable[T]], terms: LeaseTerms, clock: Clock, chance: Callable[[], float]
) -> T:
    """What an attempt gives, tried again with growing pauses while the provider has trouble.

    Raises:
        LeaseUnavailable: it has trouble still, after as many attempts as the terms allow.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except LeaseUnavailable as error:
            failures += 1
            if failures >= terms.attempts:
                raise
            pause = terms.pause(failures, chance(), error.retry_after)
        await clock.sleep(pause)
