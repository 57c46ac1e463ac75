"""What a person approves: how long a scope may be held in all, and how often it may be renewed on the way.

A budget counts the time that a run may hold the scope, not the lifetimes of single credentials: when a credential is
renewed before its end, the time in which both live is spent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

DEFAULT_SECONDS = 3600.0
DEFAULT_RENEWALS = 6
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class Budget:
    """An approved amount, and what is left of it.

    Attributes:
        total_seconds: How long the scope may be held in all.
        spent_seconds: How much of that is spent, or committed to the credential that lives.
        renewals_left: How often a credential may still be replaced by a fresh one.
    """

    total_seconds: float = DEFAULT_SECONDS
    spent_seconds: float = 0.0
    renewals_left: int = DEFAULT_RENEWALS

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
