"""What a run is expected to need, and when a person is asked about it."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.patterns import Estimate, PlanTerms
from kagura_kernel.patterns.planning import estimate_of, proposed_usd, wants_a_word

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
