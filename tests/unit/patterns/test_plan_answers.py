from __future__ import annotations

import pytest

from kagura_kernel.patterns.planning import PlanAnswer, read_answer

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
