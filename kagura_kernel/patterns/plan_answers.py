"""What a person says to a plan: another budget, none, or that its lessons may be trusted. Pure, and strict."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_USD = 100_000.0

_AMOUNT = re.compile(r"(?:budget\s+)?\$?(\d{1,6}(?:\.\d{1,4})?)", re.IGNORECASE | re.ASCII)
_NONE = re.compile(r"no\s+budget", re.IGNORECASE | re.ASCII)
_LESSONS = re.compile(r"(?:^|[\s,]+)with\s+lessons$", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A plan as a person wants it.

    Attributes:
        budget_usd: The limit; None is none.
        with_lessons: Whether its lessons may be trusted from now on.
    """

    budget_usd: float | None
    with_lessons: bool = False


def read_answer(text: str, proposed_usd: float | None) -> PlanAnswer:
    """The plan behind an answer; nothing said takes the budget that was proposed.

    Raises:
        ValueError: it means nothing; says what can be said.
    """
    said = text.strip()
    rest = _LESSONS.sub("", said)
    lessons = rest != said
    rest = rest.strip()
    if not rest:
        return PlanAnswer(proposed_usd, lessons)
    if _NONE.fullmatch(rest):
        return PlanAnswer(None, lessons)
    amount = _AMOUNT.fullmatch(rest)
    if amount is None:
        raise ValueError("The answer was no budget: say an amount such as `0.50`, or `no budget`, or nothing.")
    usd = float(amount[1])
    if not 0 < usd <= MOST_USD:
        raise ValueError(f"A budget is more than $0 and at most ${MOST_USD:,.0f}.")
    return PlanAnswer(usd, lessons)
