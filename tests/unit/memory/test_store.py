"""Memories and the clock: whichever way it jumps, nothing is lost for good, and nothing is older than it can be."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.cockpit.memory_words import age_words
from kagura_kernel.domain.errors import ConfigurationError, MemoryUnavailable
from kagura_kernel.domain.memory import Author, Draft, Edge, Query, Source, Tier
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.memory.store import MemoryStore, descendants, ready, walk
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


class Breaks(FakeMemory):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def check(self) -> None:
        raise self.error


def test_a_memory_that_works_lets_a_run_pass():
    ready(FakeMemory())


def test_a_memory_that_says_what_is_wrong_is_heard():
    with pytest.raises(MemoryUnavailable, match="somebody pulled the plug"):
        ready(FakeMemory(broken="somebody pulled the plug"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied"), "permission denied"),
        (ConfigurationError("The memory's URL", ["it is no URL"]), "it is no URL"),
        (ConnectionResetError(), "connectionreseterror"),
    ],
    ids=["the system", "the settings", "no words"],
)
def test_whatever_goes_wrong_is_told_as_an_unreachable_memory(error, told):
    with pytest.raises(MemoryUnavailable, match=told) as refusal:
        ready(Breaks(error))
    assert refusal.value.where == "a dictionary"
    assert "doctor" in str(refusal.value)


def test_a_bug_is_not_told_as_trouble_of_the_memory():
    with pytest.raises(ZeroDivisionError):
        ready(Breaks(ZeroDivisionError()))


NODES = st.sampled_from("abcdefgh")
EDGES = st.sets(st.tuples(NODES, NODES).filter(lambda ends: ends[0] != ends[1]), max_size=16)


def near(edges: Collection[tuple[str, str]], ids: Sequence[str]) -> list[Edge]:
    return [Edge(*ends) for ends in sorted(edges) if set(ends) & set(ids)]


def distances(edges: Collection[tuple[str, str]], seed: str, hidden: Collection[str]) -> dict[str, int]:
    found, level, away = {seed: 0}, {seed}, 0
    while level:
        away += 1
        level = {
            other
            for one, two in edges
            for here, other in ((one, two), (two, one))
            if here in level and other not in found and other not in hidden
        }
        found |= dict.fromkeys(level, away)
    return found


@given(edges=EDGES, seed=NODES, depth=st.integers(0, 5), most=st.integers(1, 9), hidden=st.sets(NODES, max_size=3))
def test_a_walk_tells_what_is_near_and_visible_and_the_edges_between(edges, seed, depth, most, hidden):
    walked = walk(
        seed,
        lambda ids: near(edges, ids),
        lambda ids: {one for one in ids if one not in hidden},
        depth=depth,
        most=most,
    )
    away = distances(edges, seed, hidden)
    within = [one for one, steps in away.items() if steps <= depth]
    assert walked.ids[0] == seed
    assert len(walked.ids) == len(set(walked.ids)) == min(most, len(within))
    assert [away[one] for one in walked.ids] == sorted(away[one] for one in within)[:most]
    between = {Edge(*ends) for ends in edges if set(ends) <= set(walked.ids)}
    assert set(walked.edges) == between
    assert len(walked.edges) == len(between)


def test_a_walk_that_has_to_leave_some_out_tells_the_heaviest_edges():
    edges = [Edge("a", "b", weight=0.2), Edge("c", "a", weight=0.9), Edge("a", "d", weight=0.5)]
    assert walk("a", lambda _: edges, lambda ids: ids, depth=1, most=3).ids == ("a", "c", "d")


@given(edges=EDGES, seed=NODES)
def test_descendants_are_everything_below_each_once(edges, seed):
    found = descendants(seed, lambda ids: [child for child, parent in sorted(edges) if parent in ids])
    below, level = {seed}, {seed}
    while level:
        level = {child for child, parent in edges if parent in level} - below
        below |= level
    assert found[0] == seed
    assert len(found) == len(set(found))
    assert set(found) == below
