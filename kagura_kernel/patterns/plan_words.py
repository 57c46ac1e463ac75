"""A plan in words, for a person and for a brain. Pure.

Nothing here says what a memory says: the words for a person are kept in the journal, which only grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kagura_kernel.domain.patterns import BUFFER, Estimate
from kagura_kernel.journal.precedents import Precedent

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
) -> str:
    """All of it, a fact a line.

    Args:
        estimate: What the run is expected to need.
        similar: The runs it rests on, the likest first.
        lessons: Ids of lessons that fit the task, and that `with lessons` trusts.
        budget_usd: The budget that is proposed.
        left_out: Ids of lessons that fit it too, and that `with lessons` does not trust.
        why_again: Why an answer could not be read, if one could not.
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
    return f"{usd:.2g}"
