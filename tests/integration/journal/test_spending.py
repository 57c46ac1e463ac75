"""What runs have cost, on SQLite and on PostgreSQL."""

from datetime import UTC, date, datetime

import pytest

from kagura_kernel.journal.spending import (
    BudgetUse,
    DayBudget,
    DaySpending,
    Spending,
    budget_in_use,
    spent,
    spent_by_day,
)
from tests.support.sample_run import SampleRun

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
NOTHING = Spending(0.0, 0, 0)


def run(number: int, day: date, hour: int = 12, second: int = 0) -> SampleRun:
    return SampleRun(
        f"run-{number}", f"ses-{number}", datetime(day.year, day.month, day.day, hour, 0, second, tzinfo=UTC)
    )


def test_days_are_those_of_utc_to_the_second(journal):
    for number, day, hour in ((1, MONDAY, 0), (2, MONDAY, 23), (3, TUESDAY, 0)):
        told = run(number, day, hour)
        journal.append(told.started())
        journal.append(told.finished(computed_usd=1.0))
    assert spent(journal, day=MONDAY) == Spending(2.0, 2, 0)
    assert spent(journal, day=TUESDAY) == Spending(1.0, 1, 0)
    assert spent(journal, day=date(2026, 1, 7)) == NOTHING
    assert [row.day for row in spent_by_day(journal, MONDAY, TUESDAY)] == [MONDAY, TUESDAY]
    assert [row.day for row in spent_by_day(journal, TUESDAY, TUESDAY)] == [TUESDAY]


def test_each_brain_and_model_has_its_line(journal):
    for number, (brain, model) in enumerate([("claude", "a"), ("claude", "b"), ("claude", "a"), ("", "")]):
        told = run(number, MONDAY)
        journal.append(told.started(brain=brain, model=model, flavour="agent" if brain else "sandbox"))
        journal.append(told.finished(brain=brain, model=model, reported_usd=0.5 if brain else None))
    assert spent_by_day(journal, MONDAY, MONDAY) == [
        DaySpending(MONDAY, "", "", Spending(0.0, 1, 0)),
        DaySpending(MONDAY, "claude", "a", Spending(1.0, 2, 0)),
        DaySpending(MONDAY, "claude", "b", Spending(0.5, 1, 0)),
    ]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([{"reported_usd": 1.0, "computed_usd": 9.0}], Spending(1.0, 1, 0)),
        ([{"computed_usd": 0.25}], Spending(0.25, 1, 0)),
        ([{}], Spending(None, 1, 1)),
        ([{}, {"computed_usd": 0.25}], Spending(0.25, 2, 1)),
        ([{"reported_usd": 0.0}], Spending(0.0, 1, 0)),
        ([{"brain": "replay"}], Spending(0.0, 1, 0)),
        ([{}, {"computed_usd": 0.0}], Spending(None, 2, 1)),
    ],
)
def test_what_is_unknown_is_counted_and_never_nothing(journal, figures, expected):
    for number, figure in enumerate(figures):
        told = run(number, MONDAY)
        journal.append(told.started())
        journal.append(told.finished(**figure))
    assert spent(journal) == expected


def test_a_run_that_has_just_begun_has_used_nothing(journal):
    told = run(1, MONDAY)
    journal.append(told.started())
    assert spent(journal) == Spending(0.0, 1, 0)
    journal.append(told.counted(computed_usd=None))
    assert spent(journal) == Spending(None, 1, 1)


def test_a_notebook_and_a_session_have_sums_of_their_own(journal):
    for number, notebook in enumerate(["a.ipynb", "b.ipynb", "a.ipynb"]):
        told = run(number, MONDAY)
        journal.append(told.started(notebook=notebook))
        journal.append(told.finished(computed_usd=2.0**number))
    assert spent(journal, notebook="a.ipynb") == Spending(5.0, 2, 0)
    assert spent(journal, session_id="ses-1") == Spending(2.0, 1, 0)
    assert spent(journal, notebook="a.ipynb", session_id="ses-1") == NOTHING
    assert spent(journal, notebook="none.ipynb", day=MONDAY) == NOTHING


def test_the_budget_in_use_is_that_of_the_newest_run_that_goes_on(journal):
    assert budget_in_use(journal) is None
    for number, budget in enumerate([1.0, 2.0, None]):
        journal.append(run(number, MONDAY).started(budget_usd=budget, notebook=f"{number}.ipynb"))
    journal.append(run(1, MONDAY).counted(computed_usd=0.5))
    assert budget_in_use(journal) == BudgetUse("run-1", 2.0, 0.5)
    assert budget_in_use(journal, notebook="0.ipynb") == BudgetUse("run-0", 1.0, None)
    assert budget_in_use(journal, notebook="2.ipynb") is None
    journal.append(run(1, MONDAY).finished())
    assert budget_in_use(journal) == BudgetUse("run-0", 1.0, None)


def test_a_day_s_budget_is_of_one_person_with_what_chats_have_their_server_do(journal):
    today = journal.clock.now().date()
    for number, user, by in ((1, "ada", ""), (2, "bob", ""), (3, "ada", "slack:U1"), (4, "bob", "slack:U1")):
        told = run(number, today)
        task = 'What is "user":"ada"?'
        journal.append(told.started().model_copy(update={"user": user, "started_by": by, "task": task}))
        journal.append(told.counted(computed_usd=float(number)))
    assert DayBudget(journal, 100.0, "ada").spent_usd == 4.0
    assert DayBudget(journal, 100.0, "bob").spent_usd == 6.0
    assert DayBudget(journal, 100.0).spent_usd == 10.0
