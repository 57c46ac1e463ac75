from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kagura_kernel.domain.errors.memory import MemoryInvalid
from kagura_kernel.domain.memory import Author, Draft, Edge, Query, Source
from kagura_kernel.memory.drafts import check_edge, check_named, check_query, memories_of, memory_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Source(Author.HUMAN)


def test_everything_that_is_wrong_with_a_draft_is_told_at_once():
    draft = Draft(
        " ",
        Source(Author.AGENT, by="x" * 500),
        type="Not Kebab",
        summary="s" * 501,
        tags=("ok", "NOT"),
        importance=1.5,
        at=datetime(2026, 1, 1),  # noqa: DTZ001 - that is what is wrong with it
        data={"a": object()},
        id="no id",
    )

    with pytest.raises(MemoryInvalid) as raised:
        memory_of(draft, NOW)

    assert len(raised.value.problems) == 9
    assert all(problem in str(raised.value) for problem in raised.value.problems)


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 a letter", "x" * 65_537])
def test_a_text_that_no_store_could_keep_is_refused(text):
    with pytest.raises(MemoryInvalid):
        memory_of(Draft(text, SOURCE), NOW)


def test_of_many_drafts_each_problem_has_its_number():
    with pytest.raises(MemoryInvalid, match=r"number 2: .*number 3: "):
        memories_of([Draft("fine", SOURCE), Draft("", SOURCE), Draft("x", SOURCE, importance=2)], NOW)


def test_a_memory_takes_the_first_line_as_its_summary_and_utc_as_its_time():
    at = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    memory = memory_of(Draft("\n First line \nsecond", SOURCE, tags=("b", "a", "b"), at=at), NOW)

    assert memory.summary == "First line"
    assert memory.tags == ("a", "b")
    assert memory.at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert memory.at.tzinfo is UTC
    assert memory.id.startswith("mem-")
    assert len(memory_of(Draft("word " * 100, SOURCE), NOW).summary) <= 120


@pytest.mark.parametrize(
    "query",
    [
        Query("x", k=0),
        Query("x", k=1001),
        Query("x" * 70_000),
        Query("x", min_importance=float("nan")),
        Query("x", types=("A B",)),
        Query("x", since=datetime(2026, 1, 1)),  # noqa: DTZ001 - that is what is wrong with it
    ],
)
def test_a_question_that_cannot_be_used_is_refused(query):
    with pytest.raises(MemoryInvalid):
        check_query(query)


@pytest.mark.parametrize("edge", [Edge("a", "b", "likes"), Edge("a", "b", weight=1.1), Edge("a", "a")])
def test_an_edge_that_cannot_be_is_refused(edge):
    with pytest.raises(MemoryInvalid):
        check_edge(edge)


def test_a_person_has_a_name():
    check_named("person's name", "Ada")
    with pytest.raises(MemoryInvalid):
        check_named("person's name", " ")
