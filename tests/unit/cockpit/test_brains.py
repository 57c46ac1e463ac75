from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kagura_kernel.cockpit.brains import USUAL_TURN, Thinking, report_brains, turn_words, usual_turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.brain import FakeBrain
from tests.support.sample_run import SampleRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def by_size(usage: Usage, model: str, at: datetime) -> tuple[float | None, str]:
    del at
    return (usage.input_tokens * 1e-6, "a list") if model == "priced" else (None, "a list")


def test_before_anything_was_counted_a_turn_is_a_guess_that_says_so():
    (report,) = report_brains({"fake": FakeBrain([])}, lambda _: Thinking("priced", 4096), by_size, None, NOW)
    assert (report.turn, report.counted, report.window) == (USUAL_TURN, 0, 4096)
    assert report.turn_usd == pytest.approx(0.01)
    assert "a guess" in turn_words([report])


def test_a_price_that_nobody_knows_is_none_and_names_no_source():
    brains = {"fake": FakeBrain([])}
    for model in ("other", ""):
        (report,) = report_brains(brains, lambda _, model=model: Thinking(model), by_size, None, NOW)
        assert (report.turn_usd, report.source, report.model) == (None, "", model)


def test_a_turn_is_as_large_as_those_that_were_counted(tmp_path):
    journal = Journal.open(tmp_path)
    try:
        run = SampleRun()
        journal.append(run.started())
        for tokens in (100, 300, 8000):
            journal.append(run.counted(input_tokens=tokens, output_tokens=10))
        turn, counted = usual_turn(journal)
    finally:
        journal.close()
    assert (turn.input_tokens, turn.output_tokens, counted) == (300, 10, 3)
