"""A lease: the right of one run to use a credential for a while. Frozen; a renewal gives a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kagura_kernel.membrane.credentials.budget import Budget
from kagura_kernel.membrane.credentials.grants import Scope
from kagura_kernel.membrane.credentials.secret import Credential


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
