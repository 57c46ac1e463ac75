from __future__ import annotations

import json

import pytest

from kagura_kernel.domain.patterns import Estimate
from kagura_kernel.patterns.planning import (
    dollars,
    duration,
    estimate_briefing,
    plan_arguments,
    plan_detail,
    plan_title,
)

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


@pytest.mark.parametrize(("usd", "said"), [(0.0, "$0.00"), (0.0042, "$0.0042"), (0.4, "$0.40"), (12.345, "$12.35")])
def test_amounts_say_something_however_small(usd, said):
    assert dollars(usd) == said


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "1 s"), (59, "59 s"), (90, "2 min"), (5400, "1.5 h")])
def test_durations_are_short(seconds, said):
    assert duration(seconds) == said
