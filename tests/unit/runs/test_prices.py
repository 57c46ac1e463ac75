from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from kagura_kernel.domain.cost import Usage
from kagura_kernel.runs.prices import price

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
