"""Memories and the clock: whichever way it jumps, nothing is lost for good, and nothing is older than it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kagura_kernel.cockpit.memory_words import age_words
from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.tools.briefing import age
from tests.support.story import Calendar

DAY = 86_400.0


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture(params=["sqlite", "dictionary"])
def store(request: pytest.FixtureRequest, tmp_path: Path, calendar: Calendar) -> Iterator[MemoryStore]:
    made: dict[str, Callable[[], MemoryStore]] = {
        "sqlite": lambda: SqliteMemory(tmp_path / "memory.db", clock=calendar),
        "dictionary": lambda: FakeMemory(clock=calendar),
    }
    with made[request.param]() as opened:
        yield opened


def test_what_expires_is_hidden_by_a_clock_that_is_ahead_and_back_when_the_clock_is(store, calendar):
    ends = calendar.now() + timedelta(days=30)
    draft = Draft(
        "Deploys wait for the audit.", Source(Author.HUMAN, "ada"), Tier.TRUSTED, expires_at=ends, pinned=True
    )
    one = store.remember(draft).id
    for days, there in ((0, True), (365, False), (-365, True), (-1, True), (30.5, True), (1, False)):
        calendar.go_on(days * DAY)
        assert bool(store.recall(Query("audit"))) is there, days
        assert bool(store.pinned(("",))) is there
        assert store.reference(one).expires_at == ends


def test_a_memory_of_a_day_to_come_is_found_and_no_age_is_less_than_nothing(store, calendar):
    calendar.go_on(365 * DAY)
    one = store.remember(Draft("The clock was ahead.", Source(Author.HUMAN)))
    calendar.go_on(-366 * DAY)
    two = store.remember(Draft("The clock was behind.", Source(Author.HUMAN)))
    assert {found.memory.id for found in store.recall(Query("clock"))} == {one.id, two.id}
    now = calendar.now()
    assert (age_words(now - one.at), age(one.at, now)) == ("just now", age(now, now))
    assert store.demote(store.promote(one.id, by="ada").id).tier is Tier.QUARANTINE
    store.erase(one.id, cascade=True)
    assert [found.memory.id for found in store.recall(Query("clock"))] == [two.id]
