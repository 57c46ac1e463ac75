"""What a run will need, judged by what the like of it needed, and how good such estimates were. Pure.

It is told in words for a person and for a brain. Nothing here says what a memory says: the words for a person are kept
in the journal, which only grows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import Any

from kagura_kernel.domain.late_dataclass import asdict, dataclass
from kagura_kernel.domain.patterns import BUFFER, Estimate, PlanTerms
from kagura_kernel.journal.precedents import Precedent
from kagura_kernel.journal.rows import CostRow

MOST_USD = 100_000.0

_AMOUNT = re.compile(r"(?:budget\s+)?\$?(\d{1,6}(?:\.\d{1,4})?)", re.IGNORECASE | re.ASCII)
_NONE = re.compile(r"no\s+budget", re.IGNORECASE | re.ASCII)
_LESSONS = re.compile(r"(?:^|(?<![\s,])[\s,]+)with\s+lessons$", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A plan as a person wants it."""

    budget_usd: float | None  # The limit; None is none
    with_lessons: bool = False  # Whether its lessons may be trusted from now on


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


HOW_TO_ANSWER = (
    "Allow takes this budget. Say an amount for another one, such as `0.50`, or `no budget`; add `with lessons` to let "
    "the agent read these lessons, which trusts them from now on."
)
_SHOWN_RUNS = 5
_MINUTE, _HOUR = 60.0, 3600.0


def plan_title(estimate: Estimate | None) -> str:
    """One line: `Plan: about $0.42 (0.30–0.61), 3 min`."""
    if estimate is None:
        return "Plan: nothing similar yet"
    parts = []
    if estimate.usd is not None:
        parts.append(f"{dollars(estimate.usd)}{_range(estimate.usd_low, estimate.usd_high, _bare)}")
    if estimate.seconds is not None:
        parts.append(duration(estimate.seconds))
    if not parts:
        return f"Plan: {_runs(estimate.runs)} like it, none of them measured"
    return f"Plan: about {', '.join(parts)}"


def plan_detail(
    estimate: Estimate | None,
    similar: Sequence[Precedent],
    lessons: Sequence[str],
    budget_usd: float | None,
    *,
    left_out: Sequence[str] = (),
    why_again: str = "",
    pictures: str = "",
) -> str:
    """All of it, a fact a line.

    Args:
        estimate: What the run is expected to need.
        similar: The runs it rests on, the likest first.
        lessons: Ids of lessons that fit the task, and that `with lessons` trusts.
        budget_usd: The budget that is proposed.
        left_out: Ids of lessons that fit it too, and that `with lessons` does not trust.
        why_again: Why an answer could not be read, if one could not.
        pictures: What the task's pictures cost; empty without any.
    """
    lines = [why_again] if why_again else []
    lines += _figures(estimate) if estimate is not None else ["No run of a similar task is known yet."]
    lines += [f"  {_precedent(row)}" for row in similar[:_SHOWN_RUNS]]
    if len(similar) > _SHOWN_RUNS:
        lines.append(f"  and {len(similar) - _SHOWN_RUNS} more")
    if lessons:
        lines.append(f"Lessons from what went wrong before: {', '.join(lessons)}")
    if left_out:
        one = len(left_out) == 1
        lines.append(
            f"{len(left_out)} more {'was' if one else 'were'} imported, and `with lessons` leaves "
            f"{'it' if one else 'them'} out: {', '.join(left_out)}. `memory show` tells what such a lesson says, "
            "`memory promote` trusts it."
        )
    lines += [pictures] if pictures else []
    lines.append("Budget: none" if budget_usd is None else f"Budget: {dollars(budget_usd)}")
    lines.append(HOW_TO_ANSWER if lessons else HOW_TO_ANSWER.partition("; add")[0] + ".")
    return "\n".join(lines)


def plan_arguments(
    estimate: Estimate | None,
    similar: Sequence[Precedent],
    lessons: Sequence[str],
    budget_usd: float | None,
    *,
    fixes: Sequence[str] = (),
) -> dict[str, Any]:
    """Exactly what is agreed to, as JSON values.

    `with lessons` trusts the lessons and, of what is known to mend them, the fixes; no others.
    """
    return {
        "estimate": None if estimate is None else asdict(estimate),
        "similar": [row.run_id for row in similar],
        "lessons": list(lessons),
        "fixes": list(fixes),
        "budget_usd": budget_usd,
    }


def estimate_briefing(estimate: Estimate | None, budget_usd: float | None) -> str:
    """What a brain is told of the figures; empty where there are none."""
    if estimate is None:
        return ""
    limit = "There is no budget." if budget_usd is None else f"Your budget is {dollars(budget_usd)}."
    return f"{' '.join(f'{line}.' for line in _figures(estimate))} {limit}"


def dollars(usd: float) -> str:
    """An amount; what is less than a cent keeps two digits that say something."""
    return f"${_bare(usd)}"


def duration(seconds: float) -> str:
    """A duration in the unit that says it shortly."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h"


def _figures(estimate: Estimate) -> list[str]:
    went = f"of which {estimate.failed} did not go well" if estimate.failed else "which went well"
    lines = [f"Similar runs: {estimate.runs}, {went}"]
    if estimate.usd is not None:
        more = f", {dollars(estimate.usd * (1 + BUFFER))} with a buffer of {BUFFER:.0%}"
        lines.append(f"Cost: {dollars(estimate.usd)}{_range(estimate.usd_low, estimate.usd_high, _bare)}{more}")
    else:
        lines.append("Cost: unknown")
    if estimate.seconds is not None:
        spread = _range(estimate.seconds_low, estimate.seconds_high, duration)
        lines.append(f"Time: {duration(estimate.seconds)}{spread}")
    if estimate.retries:
        lines.append(f"Failed tries before one that went well: {estimate.retries:g}")
    return lines


def _precedent(row: Precedent) -> str:
    verified = {True: ", verified", False: ", its verification failed", None: ""}[row.verified]
    cost = "cost unknown" if row.usd is None else dollars(row.usd)
    took = "" if row.seconds is None else f", {duration(row.seconds)}"
    return f"{row.run_id}: {row.status}{verified}, {cost}{took}"


def _range(low: float | None, high: float | None, say: Any) -> str:
    if low is None or high is None or say(low) == say(high):
        return ""
    return f" ({say(low)}–{say(high)})"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _bare(usd: float) -> str:
    if usd == 0 or usd >= 0.01:  # noqa: PLR2004 - a cent
        return f"{usd:.2f}"
    # Written out: nobody reads 8e-05 as an amount.
    return f"{Decimal(f'{usd:.2g}'):f}"


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


NO_ESTIMATE = (
    "No run that came to its end had an estimate yet. A run has one as soon as another one was about the like of its "
    "task; `--plan` shows it before anything begins."
)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One run that had an estimate."""

    run_id: str
    at: datetime  # When it started, UTC
    status: str  # How it ended
    estimated_usd: float | None  # What it was expected to cost; None when unknown
    usd: float | None  # What it cost with its children, likewise
    # How much more than expected, as a fraction: 0.2 is a fifth more. None where one of both is unknown, where nothing
    # was expected, and for a run that did not come to its end.
    usd_error: float | None
    usd_within: bool | None  # Whether it cost no more than expected and the buffer; None likewise
    estimated_seconds: float | None  # How long it was expected to take
    seconds: float | None  # How long it took without the time in which it waited for a person
    seconds_error: float | None  # As `usd_error`
    seconds_within: bool | None  # As `usd_within`


def calibrate(rows: Sequence[CostRow]) -> list[Calibrated]:
    """Runs beside what was expected of them, in their order."""
    return [_one(row) for row in rows]


def calibration_line(rows: Sequence[Calibrated]) -> str:
    """One sentence about each figure that is known."""
    usd = _said("Cost", [row.usd_within for row in rows], [row.usd_error for row in rows])
    seconds = _said("Time", [row.seconds_within for row in rows], [row.seconds_error for row in rows])
    return " ".join(filter(None, (usd, seconds))) or NO_ESTIMATE


def _said(name: str, within: Sequence[bool | None], errors: Sequence[float | None]) -> str:
    """How good the estimates of one figure were; empty where both what was expected and what it was are never known."""
    known = [one for one in within if one is not None]
    if not known:
        return ""
    share = f"{sum(known) / len(known):.0%} of {len(known)} within the estimate and {BUFFER:.0%} more"
    off = [abs(one) for one in errors if one is not None]
    return f"{name}: {share}" + (f"; half of the estimates were off by at most {median(off):.0%}." if off else ".")


def _one(row: CostRow) -> Calibrated:
    ended = row.status == "done"
    usd_error, usd_within = _compared(row.estimated_usd, row.total_usd) if ended else (None, None)
    seconds_error, seconds_within = _compared(row.estimated_seconds, row.worked_seconds) if ended else (None, None)
    return Calibrated(
        row.run_id,
        row.at,
        row.status,
        row.estimated_usd,
        row.total_usd,
        usd_error,
        usd_within,
        row.estimated_seconds,
        row.worked_seconds,
        seconds_error,
        seconds_within,
    )


def _compared(expected: float | None, actual: float | None) -> tuple[float | None, bool | None]:
    if expected is None or actual is None:
        return None, None
    error = actual / expected - 1 if expected else (0.0 if not actual else None)
    return error, actual <= expected * (1 + BUFFER)
