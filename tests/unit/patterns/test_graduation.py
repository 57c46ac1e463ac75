"""When a power may be proposed, and that nothing else ever makes one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.approvals import Decision, Verdict
from kagura_kernel.domain.events import TrustChanged
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.trust import SIGNALS, TrustFold, TrustRecord
from kagura_kernel.patterns.trust import (
    BY_NAME,
    curve,
    is_locked,
    is_persons,
    lacking,
    may_grant,
    may_propose,
    missing,
    proposal,
    report,
    reports,
    state_of,
    task_digest,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = TrustTerms()
GIT = BY_NAME["git"]
DAYS = (0.0, 2.0, 4.0, 6.0, 8.0)


def row(change: str, day: float, *, run: str = "", task: str = "", category: str = "git", **more: Any) -> TrustChanged:
    run_id = run or f"run-{day}"
    at = START + timedelta(days=day)
    return TrustChanged(run_id=run_id, session_id="ses-1", at=at, category=category, change=change, task=task, **more)


def success(day: float, *, task: str = "", **more: Any) -> TrustChanged:
    return row("succeeded", day, task=task or f"task-{day}", **{"signal": "exit-code", **more})


def granted(day: float, **more: Any) -> TrustChanged:
    return row("granted", day, **{"signal": "human", "by": "ann", **more})


GOOD = tuple(success(day) for day in DAYS)


def standing(*rows: TrustChanged, category: str = "git") -> TrustRecord:
    fold = TrustFold()
    for one in rows:
        fold.take(one)
    return fold.standings.get(category, TrustRecord(category))


def lacks(*rows: TrustChanged, day: float = 8.0) -> tuple[str, ...]:
    return missing(GIT, standing(*rows), TERMS, START + timedelta(days=day))


def test_five_successes_of_three_tasks_over_a_week_are_enough():
    assert lacks(*GOOD) == ()
    assert may_propose(GIT, standing(*GOOD), TERMS, START + timedelta(days=8))


@pytest.mark.parametrize("count", range(5))
def test_not_a_run_earlier(count):
    assert any("more verified success" in lack for lack in lacks(*GOOD[:count]))


def test_a_repeated_task_counts_once_for_difference():
    assert lacks(*(success(day, task="nightly") for day in DAYS)) == ("2 more different tasks",)


def test_a_burst_within_a_day_never_qualifies_however_long_one_waits():
    rows = [success(0.001 * number) for number in range(50)]
    assert any("further apart" in lack for lack in lacks(*rows, day=400))


def test_a_run_counts_once():
    assert len(standing(*(success(day, run="run-1") for day in DAYS)).successes) == 1


@pytest.mark.parametrize("signal", ["", "human"])
def test_only_what_no_agent_can_forge_is_a_success(signal):
    assert len(standing(success(0.0, signal=signal)).successes) == (signal in SIGNALS)


def test_a_failure_starts_all_over():
    rows = (*GOOD, row("failed", 9.0, signal="exit-code", why="it ended with 1"))
    found = standing(*rows)
    assert found.successes == ()
    assert found.failure is not None
    assert found.failure.why == "it ended with 1"
    assert state_of(GIT, found) == "included"
    again = tuple(success(10.0 + day) for day in DAYS)
    assert lacks(*rows, *again, day=18.0) == ()


def test_after_a_failure_a_week_has_to_pass():
    terms = replace(TERMS, successes=1, tasks=1, days=7.0)
    rows = (row("failed", 0.0), success(1.0), success(8.5))
    assert (
        missing(GIT, standing(*rows[:2]), terms, START + timedelta(days=6))[-1] == "1 day more since the last failure"
    )
    assert missing(GIT, standing(*rows), terms, START + timedelta(days=8.5)) == ()


def test_categories_do_not_earn_for_each_other():
    fold = TrustFold()
    for one in GOOD:
        fold.take(one)
    found = {one.category.name: one for one in reports(fold.standings, TERMS, START + timedelta(days=8))}
    assert found["git"].missing == ()
    assert len(found["packages"].missing) == 3


def test_a_clock_that_jumped_ahead_and_back_stretches_nothing():
    ahead = [success(0.0), success(0.01), success(9.0), success(9.01), success(0.02), success(0.03)]
    found = standing(*ahead)
    assert found.spread(START + timedelta(days=0.03)) < timedelta(hours=1)


def test_a_clock_that_fell_behind_and_came_back_stretches_nothing():
    rows = [row("applied", 20_000.0), *(success(day) for day in (0.0, 0.1, 0.2)), success(20_000.1), success(20_000.2)]
    found = standing(*rows)
    assert found.spread(START + timedelta(days=20_000.2)) < timedelta(days=1)


def test_what_another_category_says_of_the_clock_holds_for_all():
    rows = [success(0.0), success(9.0), row("failed", 0.1, category="packages")]
    assert standing(*rows).spread(START + timedelta(days=9)) == timedelta(days=0.1)


def test_a_clock_that_says_less_than_the_rows_is_believed_for_now():
    assert any("further apart" in lack for lack in lacks(*GOOD, day=3.0))


def test_a_failure_told_by_a_clock_that_was_ahead_holds_until_then():
    assert any("since the last failure" in lack for lack in lacks(row("failed", 30.0), *GOOD, day=8.0))


def test_a_person_may_start_the_evidence_over_after_a_clock_was_years_ahead():
    behind = tuple(success(1.0 + day) for day in DAYS)
    far = row("applied", 4000.0)
    assert any("further apart" in lack for lack in lacks(far, *behind, day=9.0))
    anew = TrustChanged(run_id="", session_id="", at=START, category="git", change="demoted", signal="human", by="ann")
    assert lacks(far, anew, *behind, day=9.0) == ()


def test_a_grant_counts_only_while_its_proposal_stands():
    assert not standing(*GOOD, granted(9.0)).graduated
    assert standing(*GOOD, row("proposed", 8.0), granted(9.0)).graduated
    assert not standing(*GOOD, row("proposed", 8.0), row("failed", 8.5), granted(9.0)).graduated
    assert not standing(*GOOD, row("failed", 8.5), row("proposed", 8.6), granted(9.0)).graduated
    assert not standing(*GOOD, row("proposed", 8.0), row("refused", 8.5), granted(9.0)).graduated
    assert not standing(*GOOD, row("proposed", 8.0), granted(9.0, signal="exit-code")).graduated


def test_one_failure_demotes_and_locks_even_what_was_included():
    rows = (*GOOD, row("proposed", 8.0), granted(8.0))
    found = standing(*rows)
    assert (state_of(GIT, found), is_locked("git", {"git": found})) == ("graduated", False)
    found = standing(*rows, row("failed", 9.0))
    assert (state_of(GIT, found), is_locked("git", {"git": found})) == ("demoted", True)
    assert found.successes == ()


@pytest.mark.parametrize(("name", "locked"), [("git", False), ("packages", True), ("force-push", True)])
def test_what_is_locked_from_the_start(name, locked):
    assert is_locked(name, {}) is locked
    assert is_locked(name, {name: TrustRecord(name)}) is locked


def test_what_never_graduates_does_not_even_where_rows_say_so():
    rows = tuple(
        one.model_copy(update={"category": "force-push"}) for one in (*GOOD, row("proposed", 8.0), granted(9.0))
    )
    found = standing(*rows, category="force-push")
    assert state_of(BY_NAME["force-push"], found) == "locked"
    assert is_locked("force-push", {"force-push": found})
    assert not may_propose(BY_NAME["force-push"], found, TERMS, START + timedelta(days=9))


def test_nobody_is_asked_again_before_a_week_and_new_evidence():
    refused = (*GOOD, row("proposed", 8.0), row("refused", 8.0))
    assert not may_propose(GIT, standing(*refused, success(10.0)), TERMS, START + timedelta(days=10))
    assert not may_propose(GIT, standing(*refused), TERMS, START + timedelta(days=16))
    assert may_propose(GIT, standing(*refused, success(16.0)), TERMS, START + timedelta(days=16))


def test_a_person_may_still_say_yes_to_what_was_refused():
    found = standing(*GOOD, row("proposed", 8.0), row("refused", 8.0))
    assert may_grant(GIT, found, TERMS, START + timedelta(days=9))
    assert state_of(GIT, found) == "included"


def test_what_is_missing_is_told_in_words():
    now = START + timedelta(days=8)
    assert lacking(report(GIT, None, TERMS, now)) == (
        "5 more verified successes; 3 more different tasks; successes 7 days further apart"
    )
    assert lacking(report(GIT, standing(*GOOD), TERMS, now)) == "your word: `%kagura graduation grant git`"
    found = standing(*GOOD, row("proposed", 8.0), granted(8.0))
    assert lacking(report(GIT, found, TERMS, now)) == "nothing: it is asked about no more"
    assert lacking(report(BY_NAME["force-push"], None, TERMS, now)) == "it never graduates"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Publish the notes of May 3", "publish the NOTES of May 17!", True),
        ("publish the notes", "the notes: publish", True),
        ("publish the notes", "publish the figures", False),
        ("", "2026-01-01", True),
        ("デプロイして", "公開して", False),
    ],
)
def test_tasks_are_told_apart_by_their_words(one, other, same):
    assert (task_digest(one) == task_digest(other)) is same


def test_only_a_persons_decision_is_one():
    def by(who: str, via: str, verdict: Verdict = Verdict.ALLOW) -> bool:
        return is_persons(Decision("app-1", verdict, who, via, START))

    assert by("ann", "cell")
    assert by("ann", "cell", Verdict.DENY)
    assert not by("policy", "graduation")
    assert not by("policy", "policy", Verdict.DENY)
    assert not by("deadline", "deadline", Verdict.TIMEOUT)
    assert not by("ann", "cell", Verdict.ABORTED)
    assert not by("", "cell")


def test_a_proposal_says_what_speaks_for_it_and_how_to_take_it_back():
    request = proposal(GIT, standing(*GOOD), START + timedelta(days=8), run_id="run-8.0", session_id="ses-1")
    assert request.title == "Trust git from now on?"
    assert "5 runs with 5 different tasks over 8 days" in request.detail
    assert all(f"run-{day}" in request.detail for day in DAYS)
    assert "%kagura graduation revoke git" in request.detail
    assert request.arguments["category"] == "git"


def test_the_curve_has_a_point_for_all_that_changed_something():
    rows = (*GOOD[:2], success(2.0, run="run-0.0"), row("applied", 3.0), row("failed", 4.0))
    assert [(point.successes, point.change) for point in curve(rows)] == [
        (1, "succeeded"),
        (2, "succeeded"),
        (0, "failed"),
    ]


changes = st.sampled_from(["succeeded", "failed", "proposed", "granted", "refused", "demoted", "applied"])
signals = st.sampled_from(["exit-code", "verification", "human", ""])
days = st.floats(0, 60, allow_nan=False)


@given(st.lists(st.tuples(changes, signals, days), max_size=40))
def test_nothing_graduates_without_a_persons_word_on_a_proposal(told):
    rows = [
        row(change, day, run=f"run-{n}", task=f"task-{n}", signal=signal)
        for n, (change, signal, day) in enumerate(told)
    ]
    without = [one for one in rows if not (one.change == "granted" and one.signal == "human")]
    assert not standing(*without).graduated
    assert not standing(*(one for one in rows if one.change != "proposed")).graduated


@given(st.lists(st.tuples(changes, days), max_size=40), days)
def test_forgeable_signals_never_lead_to_a_proposal(told, day):
    rows = [row(change, at, run=f"run-{n}", task=f"task-{n}") for n, (change, at) in enumerate(told)]
    assert not may_propose(GIT, standing(*rows), TERMS, START + timedelta(days=day))


@given(
    st.lists(st.floats(0, 0.99), min_size=5, max_size=20),
    st.lists(st.floats(-400, 400), min_size=1, max_size=6),
    st.data(),
)
def test_a_clock_that_errs_and_is_mended_never_makes_a_week_of_a_day(moments, jumps, data):
    """The true time goes from 0 to 1; before and after the clock is right, and between it says anything."""
    true = sorted(moments)
    wrong = {n: data.draw(st.sampled_from(jumps)) for n in range(len(true)) if data.draw(st.booleans())}
    told = [success(moment + wrong.get(n, 0.0), run=f"run-{n}", task=f"t{n}") for n, moment in enumerate(true)]
    rows = [row("applied", 0.0), *told, row("applied", 1.0)]
    assert standing(*rows).spread(START + timedelta(days=1)) <= timedelta(days=1)
