"""How good estimates were: what each run was expected to need beside what it needed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from kagura_kernel.domain.patterns import BUFFER
from kagura_kernel.journal.rows import CostRow

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


@dataclass(frozen=True, slots=True)
class Calibration:
    """How good the estimates of one figure were."""

    runs: int  # Of how many runs both figures are known
    within: float | None  # The share of them that needed no more than expected and the buffer; None of no runs
    error: float | None  # The median of how far off they were in either direction, as a fraction; None likewise


def calibrate(rows: Sequence[CostRow]) -> list[Calibrated]:
    """Runs beside what was expected of them, in their order."""
    return [_one(row) for row in rows]


def summed_up(within: Sequence[bool | None], errors: Sequence[float | None]) -> Calibration:
    """What these say together.

    Args:
        within: Of each run whether it stayed within the buffer.
        errors: Of each run how far off the estimate was.
    """
    known = [one for one in within if one is not None]
    off = [abs(one) for one in errors if one is not None]
    return Calibration(len(known), sum(known) / len(known) if known else None, median(off) if off else None)


def calibration_line(rows: Sequence[Calibrated]) -> str:
    """One sentence about each figure that is known."""
    usd = summed_up([row.usd_within for row in rows], [row.usd_error for row in rows])
    seconds = summed_up([row.seconds_within for row in rows], [row.seconds_error for row in rows])
    said = [_sentence(name, one) for name, one in (("Cost", usd), ("Time", seconds)) if one.runs]
    return " ".join(said) or NO_ESTIMATE


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


def _sentence(name: str, one: Calibration) -> str:
    share = "" if one.within is None else f"{one.within:.0%} of {one.runs} within the estimate and {BUFFER:.0%} more"
    off = "" if one.error is None else f"; half of the estimates were off by at most {one.error:.0%}"
    return f"{name}: {share}{off}."
