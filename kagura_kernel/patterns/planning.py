"""What a run will need, judged by what the like of it needed; and when a person is asked about that. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from kagura_kernel.domain.patterns import BUFFER, Estimate, PlanTerms
from kagura_kernel.journal.precedents import Precedent

LEAST_USD = 0.01
"""The smallest budget that is proposed."""

STOPPED_BY_A_PERSON = "killed"
"""How a run ended that somebody stopped."""


def estimate_of(similar: Sequence[Precedent]) -> Estimate | None:
    """What these runs needed; None where there are none.

    Cost and time are those of runs that came to their end; where none did, of those that broke off by themselves. A run
    that a person did not let begin counts as a failure alone, and one that a person stopped says nothing of how such
    runs go. What is unknown is left out, and is never 0.
    """
    if not similar:
        return None
    measured = _measured(similar)
    usd = [row.usd for row in measured if row.usd is not None]
    seconds = [row.seconds for row in measured if row.seconds is not None]
    return Estimate(
        runs=len(similar),
        usd=median(usd) if usd else None,
        usd_low=min(usd, default=None),
        usd_high=max(usd, default=None),
        seconds=median(seconds) if seconds else None,
        seconds_low=min(seconds, default=None),
        seconds_high=max(seconds, default=None),
        retries=_retries(similar),
        failed=sum(not row.went_well and row.status != STOPPED_BY_A_PERSON for row in similar),
    )


def proposed_usd(similar: Sequence[Precedent], given: float | None) -> float | None:
    """A budget with room for the dearest of these runs and the buffer, in whole cents, never above the one given.

    Where no budget can be kept, or nothing costs anything, it is the given one.
    """
    dearest = max((row.counted_usd for row in _measured(similar) if row.counted_usd is not None), default=0.0)
    if not dearest:
        return given
    # A binary fraction must not become a cent more.
    enough = max(LEAST_USD, math.ceil(round(dearest * (1 + BUFFER) * 100, 6)) / 100)
    return enough if given is None else min(enough, given)


def _measured(similar: Sequence[Precedent]) -> list[Precedent]:
    """Those whose figures say what such a run needs."""
    came_to_an_end = [row for row in similar if row.status == "done"]
    return came_to_an_end or [row for row in similar if row.status in {"failed", "stopped"}]


def wants_a_word(terms: PlanTerms, estimate: Estimate | None, budget_usd: float | None, *, headless: bool) -> bool:
    """Whether a person is asked before the run begins.

    Args:
        terms: When a plan is asked about.
        estimate: What the run is expected to need.
        budget_usd: Its limit.
        headless: Whether nobody is there. Then a plan that was only asked for passes where it costs nothing, nothing is
            known of its cost, or the cell's own budget covers it: it grants nothing that the cell has not named.
    """
    usd = estimate.buffered_usd if estimate is not None else None
    seconds = estimate.buffered_seconds if estimate is not None else None
    covered = terms.budget_given and usd is not None and budget_usd is not None and usd <= budget_usd
    if _exceeds(seconds, terms.above_seconds) or (_exceeds(usd, terms.above_usd) and not covered):
        return True
    if not terms.asked:
        return False
    return not (headless and (not usd or covered))


def _exceeds(figure: float | None, limit: float | None) -> bool:
    return figure is not None and limit is not None and figure > limit


def _retries(similar: Iterable[Precedent]) -> float:
    """The median number of failed tries before one that went well, tries being runs of the very same task.

    Failures that nothing good has followed yet are no such tries, nor is what a person did not let begin, or stopped.
    """
    tries: dict[str, list[Precedent]] = {}
    begun = (row for row in similar if row.status not in {"denied", STOPPED_BY_A_PERSON})
    for row in sorted(begun, key=lambda row: row.started_at):
        tries.setdefault(" ".join(row.task.split()).casefold(), []).append(row)
    counts: list[int] = []
    for rows in tries.values():
        failed = 0
        for row in rows:
            if row.went_well:
                counts.append(failed)
                failed = 0
            else:
                failed += 1
    return float(median(counts)) if counts else 0.0
