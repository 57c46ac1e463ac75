from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BudgetExhausted, NotThisTime
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.prices import price
from kagura_kernel.runs.sealed_run import Models

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = "claude-sonnet-4-5"


def usd(usage: Usage, model: str = MODEL) -> float:
    found, _ = price(usage, model, NOW)
    assert found is not None
    return found


def test_tokens_of_a_known_model_have_a_price():
    assert usd(Usage(input_tokens=1000, output_tokens=100)) == pytest.approx(0.0045)
    assert usd(Usage(input_tokens=2000, output_tokens=200)) == pytest.approx(0.009)


def test_tokens_from_a_cache_are_part_of_the_input_and_cheaper():
    plain = usd(Usage(input_tokens=1000))
    assert usd(Usage(input_tokens=1000, cache_read_tokens=1000)) == pytest.approx(plain / 10)
    assert usd(Usage(input_tokens=1000, cache_write_tokens=1000)) == pytest.approx(plain * 1.25)
    kept_for_an_hour = Usage(input_tokens=1000, cache_write_tokens=1000, cache_write_1h_tokens=1000)
    assert usd(kept_for_an_hour) == pytest.approx(plain * 2)


def test_a_dated_name_of_a_model_has_the_same_price():
    usage = Usage(input_tokens=1000, output_tokens=100)
    assert usd(usage, "claude-sonnet-4-5-20250929") == usd(usage)


@pytest.mark.parametrize("model", ["", "a-model-of-my-own", "qwen3:8b"])
def test_a_model_that_is_not_on_the_list_costs_unknown_and_not_nothing(model):
    found, source = price(Usage(input_tokens=1000), model, NOW)
    assert found is None
    assert source


@pytest.mark.parametrize(
    "usage", [Usage(input_tokens=10, cache_read_tokens=20), Usage(input_tokens=-1), Usage(cache_write_tokens=1)]
)
def test_figures_that_cannot_be_right_cost_unknown(usage):
    assert price(usage, MODEL, NOW)[0] is None


def test_no_tokens_of_a_known_model_cost_nothing():
    assert price(Usage(), MODEL, NOW)[0] == 0.0


def test_the_source_names_the_list_and_its_version():
    assert price(Usage(), MODEL, NOW)[1] == f"genai-prices {version('genai-prices')}"


def test_a_price_holds_for_its_time():
    # A model whose price was lowered: the same tokens cost more before.
    usage = Usage(input_tokens=1_000_000)
    prices = {price(usage, "o3", datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=days))[0] for days in (150, 300)}
    assert prices == {10.0, 2.0}


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


def test_a_run_whose_brain_was_asked_nothing_cost_nothing():
    assert Account(unasked=True).cost.usd == 0


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


def models(ordered: str = "") -> Models:
    return Models(ordered, price, SystemClock())


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-haiku-4-5-20251001", "claude-opus-4-1"])
def test_a_model_whose_price_is_known_may_be_asked(name):
    assert price(Usage(1, 1), name, SystemClock().now())[0] is not None
    assert models().refused(name) == ""


@pytest.mark.parametrize("name", ["x", "", "my-own", "Claude-new"])
def test_a_model_that_nobody_knows_the_price_of_may_not_be_asked_unless_it_was_ordered(name):
    assert "No price is known" in models("claude-sonnet-4-5").refused(name)
    if name:
        assert models(name).refused(name) == ""


def test_one_model_of_the_service_may_be_newer_than_the_price_list_and_no_second_one():
    asked = models()
    assert asked.refused("claude-of-tomorrow-9") == ""
    assert asked.refused("claude-of-tomorrow-9") == ""
    assert asked.refused("claude-of-the-day-after-9") != ""
    assert asked.refused("claude-sonnet-4-5") == ""


def test_the_model_of_a_run_is_the_ordered_one_whoever_answers_last():
    asked = models("sonnet")
    assert [asked.of_the_brain(name) for name in ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")] == [
        "",
        "claude-sonnet-4-5",
        "claude-sonnet-4-5",
    ]
    free = models()
    assert [free.of_the_brain(name) for name in ("claude-sonnet-4-5", "x")] == ["claude-sonnet-4-5"] * 2
