"""What a run is expected to need, and when a person is asked about it."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kagura_kernel.domain.patterns import Estimate, PlanTerms
from kagura_kernel.journal.rows import CostRow
from kagura_kernel.patterns.plans import (
    NO_ESTIMATE,
    PlanAnswer,
    calibrate,
    calibration_line,
    dollars,
    duration,
    estimate_briefing,
    estimate_of,
    plan_arguments,
    plan_detail,
    plan_title,
    proposed_usd,
    read_answer,
    wants_a_word,
)

TEN_CENTS = Estimate(3, usd=0.1, usd_low=0.08, usd_high=0.12, seconds=60, seconds_low=50, seconds_high=90)


def test_without_a_similar_run_there_is_no_estimate():
    assert estimate_of([]) is None


def test_an_estimate_is_the_median_with_the_range(past):
    found = estimate_of([past(usd=usd, seconds=usd * 100) for usd in (0.2, 0.9, 0.3)])
    assert found == Estimate(3, 0.3, 0.2, 0.9, 30.0, 20.0, 90.0)
    assert found.buffered_usd == pytest.approx(0.39)


def test_what_is_unknown_is_left_out_and_never_nothing(past):
    assert estimate_of([past(usd=None), past(usd=0.5)]).usd == 0.5
    nothing = estimate_of([past(usd=None, seconds=None)])
    assert (nothing.runs, nothing.usd, nothing.usd_high, nothing.seconds) == (1, None, None, None)


@pytest.mark.parametrize("status", ["denied", "lost", "failed", "stopped"])
def test_a_run_that_did_not_come_to_its_end_counts_as_a_failure_and_not_in_the_median(past, status):
    found = estimate_of([past(usd=0.4), past(status=status, usd=9.0)])
    assert (found.runs, found.failed, found.usd, found.usd_high) == (2, 1, 0.4, 0.4)


def test_where_none_came_to_its_end_those_that_broke_off_by_themselves_are_better_than_nothing(past):
    found = estimate_of([past(status="failed", usd=0.7), past(status="killed", usd=0.1)])
    assert (found.usd, found.failed) == (0.7, 1)


def test_what_a_person_stopped_is_no_failure_and_no_try(past):
    found = estimate_of([past(status="killed", usd=9.0), past(usd=0.4)])
    assert (found.runs, found.failed, found.usd, found.usd_high, found.retries) == (2, 0, 0.4, 0.4, 0.0)


def test_work_that_failed_its_verification_cost_what_it_cost_and_did_not_go_well(past):
    found = estimate_of([past(verified=False, usd=0.7), past(verified=True, usd=0.5)])
    assert (found.usd, found.failed) == (0.6, 1)


@pytest.mark.parametrize(
    ("endings", "retries"),
    [
        (["done"], 0.0),
        (["failed", "done"], 1.0),
        (["failed", "failed", "done", "done"], 1.0),
        (["failed", "failed"], 0.0),
        (["done", "failed", "failed", "failed", "done", "failed"], 1.5),
        (["denied", "failed", "done"], 1.0),
    ],
)
def test_retries_are_failed_tries_of_one_task_before_it_went_well(past, endings, retries):
    assert estimate_of([past(status=status) for status in endings]).retries == retries


def test_a_failure_of_another_task_is_no_try_of_this_one(past):
    assert estimate_of([past("deploy the bank", "failed"), past("deploy the shop")]).retries == 0.0


@pytest.mark.parametrize(
    ("high", "given", "proposed"),
    [
        (0.1, None, 0.13),
        (0.101, None, 0.14),
        (1.0, None, 1.3),
        (0.0001, None, 0.01),
        (0.1, 0.05, 0.05),
        (0.1, 5.0, 0.13),
        (None, 5.0, 5.0),
        (0.0, None, None),
    ],
)
def test_the_proposed_budget_has_room_for_the_dearest_and_never_exceeds_a_given_one(past, high, given, proposed):
    assert proposed_usd([past(usd=high), past(usd=0.0), past(status="killed", usd=50.0)], given) == proposed


def test_without_a_similar_run_the_given_budget_is_proposed():
    assert proposed_usd([], None) is None
    assert proposed_usd([], 2.0) == 2.0


def test_where_no_budget_can_be_kept_none_is_proposed(past):
    assert proposed_usd([past(usd=0.4, counted_usd=None)], None) is None


@pytest.mark.parametrize(
    ("terms", "estimate", "budget", "headless", "asks"),
    [
        (PlanTerms(), TEN_CENTS, None, False, False),
        (PlanTerms(asked=True), None, None, False, True),
        (PlanTerms(asked=True), TEN_CENTS, 5.0, False, True),
        (PlanTerms(above_usd=0.05), TEN_CENTS, None, False, True),
        (PlanTerms(above_usd=0.12), TEN_CENTS, None, False, True),
        (PlanTerms(above_usd=0.13), TEN_CENTS, None, False, False),
        (PlanTerms(above_usd=0.05, budget_given=True), TEN_CENTS, 0.2, False, False),
        (PlanTerms(above_usd=0.05, budget_given=True), TEN_CENTS, 0.11, False, True),
        (PlanTerms(above_usd=0.05), TEN_CENTS, 0.2, False, True),
        (PlanTerms(above_usd=0.05), None, None, False, False),
        (PlanTerms(above_seconds=70), TEN_CENTS, 5.0, False, True),
        (PlanTerms(above_seconds=70, budget_given=True), TEN_CENTS, 5.0, False, True),
        (PlanTerms(above_seconds=80), TEN_CENTS, None, False, False),
        (PlanTerms(asked=True), TEN_CENTS, None, True, True),
        (PlanTerms(asked=True), TEN_CENTS, 0.2, True, True),
        (PlanTerms(asked=True, budget_given=True), TEN_CENTS, 0.2, True, False),
        (PlanTerms(asked=True, budget_given=True), TEN_CENTS, 0.05, True, True),
        (PlanTerms(asked=True), None, None, True, False),
        (PlanTerms(asked=True), Estimate(2, seconds=5), None, True, False),
        (PlanTerms(asked=True), Estimate(2, usd=0.0, seconds=5), None, True, False),
        (PlanTerms(above_usd=0.05), TEN_CENTS, None, True, True),
    ],
)
def test_a_person_is_asked_where_the_terms_want_it(terms, estimate, budget, headless, asks):
    assert wants_a_word(terms, estimate, budget, headless=headless) is asks


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


PROPOSED = 0.61


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("", PlanAnswer(PROPOSED)),
        ("  \n", PlanAnswer(PROPOSED)),
        ("0.50", PlanAnswer(0.5)),
        ("$0.50", PlanAnswer(0.5)),
        ("budget 0.50", PlanAnswer(0.5)),
        ("Budget $2", PlanAnswer(2.0)),
        ("no budget", PlanAnswer(None)),
        ("NO  BUDGET", PlanAnswer(None)),
        ("with lessons", PlanAnswer(PROPOSED, with_lessons=True)),
        ("0.50 with lessons", PlanAnswer(0.5, with_lessons=True)),
        ("no budget, with lessons", PlanAnswer(None, with_lessons=True)),
    ],
)
def test_an_answer_is_read(said, answer):
    assert read_answer(said, PROPOSED) == answer


@pytest.mark.parametrize(
    "said",
    [
        *("yes", "this session", "-1", "0", "0.00", "1e3", "1,50", "0.5 USD", "nan", "inf", "1234567", "999999", "٣"),
        *("with lessons 1", "budget", "no budget 0.5", "0.50 without lessons", "0.12345", "$$1"),
    ],
)
def test_what_means_nothing_is_refused_with_what_can_be_said(said):
    with pytest.raises(ValueError, match=r"budget"):
        read_answer(said, PROPOSED)


KNOWN = Estimate(5, 0.42, 0.30, 0.61, 180, 120, 400, retries=1, failed=2)


@pytest.mark.parametrize(
    ("estimate", "title"),
    [
        (KNOWN, "Plan: about $0.42 (0.30–0.61), 3 min"),
        (Estimate(1, 0.42, 0.42, 0.42), "Plan: about $0.42"),
        (Estimate(1, seconds=20), "Plan: about 20 s"),
        (Estimate(2), "Plan: 2 runs like it, none of them measured"),
        (None, "Plan: nothing similar yet"),
    ],
)
def test_the_title_says_what_is_known(estimate, title):
    assert plan_title(estimate) == title


def test_the_detail_tells_the_figures_the_runs_and_the_lessons_by_their_ids(past):
    similar = [past(usd=0.42), past(status="failed", usd=None, seconds=None), past(verified=False)]
    detail = plan_detail(KNOWN, similar, ["mem-lesson-1"], 0.8)
    for line in (
        "Similar runs: 5, of which 2 did not go well",
        "Cost: $0.42 (0.30–0.61), $0.55 with a buffer of 30%",
        "Failed tries before one that went well: 1",
        "  run-1: done, $0.42, 1 min",
        "  run-2: failed, cost unknown",
        "  run-3: done, its verification failed, $0.40, 1 min",
        "Lessons from what went wrong before: mem-lesson-1",
        "Budget: $0.80",
    ):
        assert line in detail.splitlines()


def test_runs_that_all_went_well_are_told_as_such():
    assert "Similar runs: 2, which went well" in plan_detail(Estimate(2), [], [], None).splitlines()


def test_a_question_that_is_asked_again_says_why_first():
    assert plan_detail(None, [], [], None, why_again="Not understood.").startswith("Not understood.\nNo run of")


def test_lessons_can_be_trusted_only_where_there_are_some():
    assert "with lessons" not in plan_detail(KNOWN, [], [], None)
    assert "with lessons" in plan_detail(KNOWN, [], ["mem-1"], None)


def test_what_is_agreed_to_is_json(past):
    told = json.loads(json.dumps(plan_arguments(KNOWN, [past()], ["mem-1"], 0.5)))
    assert told["estimate"]["usd"] == 0.42
    assert (told["similar"], told["lessons"], told["budget_usd"]) == (["run-1"], ["mem-1"], 0.5)


def test_a_brain_is_told_the_figures_and_its_budget():
    told = estimate_briefing(KNOWN, 0.5)
    assert told.startswith("Similar runs: 5")
    assert told.endswith("Your budget is $0.50.")
    assert estimate_briefing(KNOWN, None).endswith("There is no budget.")
    assert estimate_briefing(None, 1.0) == ""


@pytest.mark.parametrize(
    ("usd", "said"), [(0.0, "$0.00"), (0.0042, "$0.0042"), (0.00008, "$0.00008"), (0.4, "$0.40"), (12.345, "$12.35")]
)
def test_amounts_say_something_however_small(usd, said):
    assert dollars(usd) == said


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "1 s"), (59, "59 s"), (90, "2 min"), (5400, "1.5 h")])
def test_durations_are_short(seconds, said):
    assert duration(seconds) == said
