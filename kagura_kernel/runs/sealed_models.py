"""Which models the box of a sealed run may ask, and which of them is the brain's."""

from __future__ import annotations

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.runs.order import Price

_ONE = Usage(1, 1)
_SERVICE = "claude-"
"""How the names of the service's models begin."""


class Models:
    """Which models a box may ask, and which of them is the brain's.

    Any program in the box can ask, so one that nobody knows the price of would make the costs of the whole run unknown.
    Those with a price may be asked: they are counted. Of those without one it is the model that was ordered, and one
    of the service's own names, the first: what the brain's program takes where its model is newer than the price list.

    Args:
        ordered: The model that was asked for, in full or in short; empty for the program's own choice.
        price: What tokens cost.
        clock: The time.
    """

    def __init__(self, ordered: str, price: Price, clock: Clock) -> None:
        self._ordered = ordered
        self._price = price
        self._clock = clock
        self._unpriced = ""
        self._brain = ""

    def refused(self, model: str) -> str:
        """Why a model may not be asked; empty where it may."""
        known = model and model in (self._ordered, self._unpriced)
        if known or self._price(_ONE, model, self._clock.now())[0] is not None:
            return ""
        if model.startswith(_SERVICE) and not self._unpriced:
            self._unpriced = model
            return ""
        return (
            f"No price is known for the model {model[:80]!r}, which was not ordered: nobody could count what it costs."
        )

    def of_the_brain(self, answered: str) -> str:
        """The brain's own model after one more answer: the first that is the ordered one; empty while there is none."""
        if not self._brain and self._ordered in answered:
            self._brain = answered
        return self._brain
