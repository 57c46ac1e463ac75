from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.memory.words import fold, marks_in, marks_of


@pytest.mark.parametrize(
    ("question", "marks"),
    [
        ("What did she buy on 8 May, 2023?", {"x0508", "t202305"}),
        ("on May 8", {"x0508"}),
        ("the 3rd of June 2022", {"x0603", "t202206"}),
        ("June 27, 2023", {"x0627", "t202306"}),
        ("in May", {"m05"}),
        ("May 2023", {"t202305"}),
        ("in 2022", {"y2022"}),
        ("2024-05-07", {"x0507", "t202405"}),
        ("am 12.03.2024", {"x0312", "t202403"}),
        ("Was geschah im März?", {"m03"}),
        ("am 3. Mai 2024", {"x0503", "t202405"}),
        ("2024年5月3日の障害", {"x0503", "t202405"}),
        ("5月に", {"m05"}),
        ("2023年の予定", {"y2023"}),
        ("May I ask?", set()),
        ("march on", set()),
        ("port 8080", set()),
        ("2024-99-99", set()),
    ],
)
def test_dates_are_understood_in_three_languages(question, marks):
    assert set(marks_in(fold(question))) == marks


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2089, 12, 31)))  # noqa: DTZ001 - made aware
def test_a_moment_is_found_by_its_own_date(moment):
    aware = moment.replace(tzinfo=UTC)

    assert set(marks_in(fold(f"on {aware:%d %B %Y}"))) <= set(marks_of(aware))
    assert set(marks_in(f"{aware:%Y-%m-%d}")) <= set(marks_of(aware))


@given(st.text())
def test_any_question_can_be_looked_at_for_dates(text):
    assert all(mark[0] in "ymtx" and mark[1:].isdigit() for mark in marks_in(fold(text)))
