from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kagura_kernel.journal.rows import CostRow
from kagura_kernel.patterns.planning import NO_ESTIMATE, calibrate, calibration_line


def row(status: str = "done", **facts: Any) -> CostRow:
    known = {"reported_usd": None, "computed_usd": None, "source": ""} | facts
    return CostRow(
        "run-1", "ses-1", datetime(2026, 1, 1, tzinfo=UTC), "fake", "m-1", 0, 0, 0, 0, status=status, **known
    )


@pytest.mark.parametrize(
    ("expected", "actual", "error", "within"),
    [
        (0.10, 0.10, 0.0, True),
        (0.10, 0.129, 0.29, True),
        (0.10, 0.131, 0.31, False),
        (0.10, 0.05, -0.5, True),
        (None, 0.05, None, None),
        (0.10, None, None, None),
        (0.0, 0.0, 0.0, True),
        (0.0, 0.5, None, False),
    ],
)
def test_a_run_is_compared_with_what_was_expected(expected, actual, error, within):
    [told] = calibrate([row(estimated_usd=expected, reported_usd=actual)])
    assert told.usd_error == (None if error is None else pytest.approx(error))
    assert told.usd_within is within


def test_a_run_that_did_not_come_to_its_end_says_nothing_about_estimates():
    [told] = calibrate([row("killed", estimated_usd=1.0, reported_usd=0.1, estimated_seconds=9.0, seconds=1.0)])
    assert (told.usd_error, told.usd_within, told.seconds_error, told.seconds_within) == (None, None, None, None)
    assert told.usd == 0.1


def test_the_sentence_tells_the_share_within_the_buffer_and_the_median_error():
    rows = calibrate([row(estimated_usd=1.0, reported_usd=usd) for usd in (0.8, 1.1, 1.2, 2.0)])
    assert calibration_line(rows) == (
        "Cost: 75% of 4 within the estimate and 30% more; half of the estimates were off by at most 20%."
    )


def test_an_estimate_is_held_against_the_whole_of_a_run_but_for_the_waiting():
    told = row(estimated_usd=1.0, reported_usd=0.5, children=2, children_usd=0.6, seconds=100.0, estimated_seconds=50.0)
    [one] = calibrate([replace(told, waited_seconds=40.0)])
    assert (one.usd, one.usd_error, one.seconds, one.seconds_within) == (1.1, pytest.approx(0.1), 60.0, True)
    [one] = calibrate([replace(told, children_usd=None)])
    assert (one.usd, one.usd_error) == (None, None)


def test_time_is_told_beside_cost_and_nothing_is_said_as_such():
    assert calibration_line(calibrate([row(estimated_seconds=10.0, seconds=11.0)])).startswith("Time: 100% of 1")
    assert calibration_line([]) == NO_ESTIMATE
