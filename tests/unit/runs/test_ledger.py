from __future__ import annotations

import pytest

from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BudgetExhausted, NotThisTime
from kagura_kernel.runs.ledger import Account


def test_turns_add_up():
    account = Account()
    account.count(Usage(10, 5), "m", 0.25, "list 1")
    account.count(Usage(1, 1), "m", 0.5, "list 1")
    assert (account.turns, account.usage, account.cost.computed_usd) == (2, Usage(11, 6), 0.75)
    assert account.cost.source == "list 1"


def test_a_sum_with_an_unknown_part_is_unknown():
    account = Account()
    account.count(Usage(10, 5), "known", 0.25, "list 1")
    account.count(Usage(10, 5), "mystery", None, "list 1")
    assert account.cost.computed_usd is None
    account.reported_usd = 0.4
    assert account.cost.usd == 0.4


def test_a_run_without_a_price_never_costs_zero():
    assert Account().cost.usd is None


def test_a_budget_stops_at_the_first_turn_that_reaches_it():
    account = Account(budget_usd=0.5)
    account.count(Usage(1, 1), "m", 0.3, "l")
    account.check()
    account.count(Usage(1, 1), "m", 0.3, "l")
    with pytest.raises(BudgetExhausted) as caught:
        account.check()
    assert (caught.value.spent_usd, caught.value.budget_usd) == (0.6, 0.5)
    assert account.left_usd == 0.0


def test_a_budget_that_cannot_be_kept_is_not_pretended():
    account = Account(budget_usd=0.5)
    account.count(Usage(1, 1), "mystery", None, "l")
    with pytest.raises(NotThisTime, match="mystery"):
        account.check()


def test_a_turn_that_used_nothing_needs_no_price():
    account = Account(budget_usd=0.5)
    account.count(Usage(), "replayed", None, "l")
    account.check()
    assert account.unpriced == 0


def test_what_was_handed_on_counts_against_the_budget_and_is_no_cost_of_its_own():
    account = Account(1.0)
    account.count(Usage(10), "m", 0.3, "list")
    account.handed_usd = 0.5
    assert account.left_usd == pytest.approx(0.2)
    assert (account.cost.usd, account.known_usd) == (0.3, pytest.approx(0.8))
    account.check()
    account.handed_usd = 0.7
    with pytest.raises(BudgetExhausted):
        account.check()
