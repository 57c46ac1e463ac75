from __future__ import annotations

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.runs.prices import price
from kagura_kernel.runs.sealing import Models


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
