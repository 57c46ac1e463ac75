"""The leases of a run, folded from its events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from kagura_kernel.domain.events import LeaseChanged, LeaseUsed

LeaseEnd = Literal["given back", "revoked", "left to expire"]
"""How a lease ended: with its run; by a person's word before that; or not at its provider, which cannot end it."""

KEPT_REQUESTS = 20
"""Requests of one lease that a view holds; all of them are counted."""


@dataclass(slots=True)
class Holding:
    """One lease of the run: what was said of it last, since when it is held, and what it was used for.

    Attributes:
        said: The latest change.
        since: When it was acquired.
        renewals: How often it was renewed.
        requests: How many requests a credential was added to.
        latest: The last of them, oldest first.
    """

    said: LeaseChanged
    since: datetime
    renewals: int = 0
    requests: int = 0
    latest: deque[LeaseUsed] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))

    @property
    def name(self) -> str:
        """`github:read`."""
        return f"{self.said.provider}:{self.said.scope}"

    @property
    def over(self) -> bool:
        """Whether the run holds it no more."""
        return self.said.change == "released"

    @property
    def end(self) -> LeaseEnd | Literal[""]:
        """How it ended; empty while it is held."""
        return lease_end(self.said.why) if self.over else ""

    @property
    def seconds(self) -> float:
        """From its first credential to what was said last."""
        return max(0.0, (self.said.at - self.since).total_seconds())


def hold(leases: dict[str, Holding], event: LeaseChanged | LeaseUsed) -> None:
    """Take one fact about a lease; a use of a lease that nobody spoke of is passed over."""
    held = leases.get(event.lease_id)
    if isinstance(event, LeaseUsed):
        if held is not None:
            held.requests += event.times
            held.latest.append(event)
    elif held is None:
        leases[event.lease_id] = Holding(event, event.at)
    else:
        # Its end says neither way nor place again.
        kept = {name: getattr(event, name) or getattr(held.said, name) for name in ("way", "place")}
        held.said = event.model_copy(update=kept)
        held.renewals += event.change == "renewed"


def lease_end(why: str) -> LeaseEnd:
    """How a lease ended, from what the run said of its end."""
    if why.startswith("revoked"):
        return "revoked"
    return "left to expire" if why.startswith("left to expire") else "given back"
