import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import Author, Draft, Edge, Query, Source, Tier
from kagura_kernel.memory.sqlite.store import SqliteMemory

SOURCE = Source(Author.AGENT, by="brain", run_id="run-1", uri="file:///x")


def _found(store: SqliteMemory, text: str, **filters: object) -> list[str]:
    return [found.memory.text for found in store.recall(Query(text, **filters))]


def test_what_is_remembered_is_there_after_opening_the_file_again(opened):
    store = opened()
    draft = Draft(
        "The kitten sleeps", SOURCE, tags=("pet",), data={"a": 1}, expires_at=datetime(2099, 1, 1, tzinfo=UTC)
    )
    memory = store.remember(draft)
    store.close()

    again = opened()

    assert again.reference(memory.id) == memory
    assert [found.memory for found in again.recall(Query("kitten"))] == [memory]


def test_a_draft_whose_id_is_there_changes_nothing(store):
    first = store.remember(Draft("first", SOURCE, id="mem-a"))

    assert store.remember(Draft("second", SOURCE, id="mem-a")) == first
    assert store.remember_many([Draft("third", SOURCE, id="mem-a"), Draft("new", SOURCE, id="mem-b")]) == (
        "mem-a",
        "mem-b",
    )
    assert store.remember_many([Draft("one", SOURCE, id="mem-c"), Draft("two", SOURCE, id="mem-c")]) == (
        "mem-c",
        "mem-c",
    )
    assert store.reference("mem-a").text == "first"
    assert store.reference("mem-c").text == "one"
    assert store.counts().memories == 3


def test_one_wrong_draft_keeps_the_others_out(store):
    with pytest.raises(MemoryInvalid, match="number 2"):
        store.remember_many([Draft("fine", SOURCE), Draft(" ", SOURCE)])

    assert store.counts().memories == 0


def test_what_is_forgotten_is_found_by_its_id_alone_until_it_is_restored(store, clock):
    memory = store.remember(Draft("a secret garden", SOURCE, pinned=True))

    forgotten = store.forget(memory.id)

    assert forgotten == replace(memory, forgotten_at=clock.now())
    assert store.forget(memory.id) == forgotten == store.reference(memory.id)
    assert _found(store, "garden") == _found(store, "") == []
    assert store.pinned(("",)) == ()
    assert list(store.export()) == []
    assert store.counts().forgotten == 1
    assert store.restore(memory.id) == memory == store.restore(memory.id)
    assert _found(store, "garden") == ["a secret garden"]


async def test_what_has_expired_is_not_found(store, clock):
    soon = clock.now() + timedelta(seconds=10)
    store.remember(Draft("the short lived note", SOURCE, expires_at=soon, pinned=True))
    assert _found(store, "note") == _found(store, "") == ["the short lived note"]

    await clock.advance(10)

    assert _found(store, "note") == _found(store, "") == []
    assert store.pinned(("",)) == ()
    assert list(store.export()) == []
    assert store.counts().memories == 0


def test_what_is_promoted_is_trusted_until_it_is_demoted(store):
    memory = store.remember(Draft("use the blue key", SOURCE))
    assert _found(store, "key", tier=Tier.TRUSTED) == []

    promoted = store.promote(memory.id, by="Ada")

    assert (promoted.tier, promoted.promoted_by) == (Tier.TRUSTED, "Ada")
    assert _found(store, "key", tier=Tier.TRUSTED) == ["use the blue key"]
    assert _found(store, "key", tier=Tier.QUARANTINE) == []
    assert store.demote(memory.id).promoted_by == ""
    assert _found(store, "key", tier=Tier.TRUSTED) == []
    store.forget(memory.id)
    store.promote(memory.id, by="Ada")
    store.restore(memory.id)
    assert _found(store, "key", tier=Tier.TRUSTED) == ["use the blue key"]


def test_feedback_moves_a_memory_past_its_equal(store):
    ids = store.remember_many([Draft("restart the queue", SOURCE), Draft("restart the queue", SOURCE)])
    later = store.recall(Query("queue"))[1].memory.id

    store.feedback(later, helped=True)

    assert store.recall(Query("queue"))[0].memory.id == later
    assert store.reference(later).helped == 1
    store.feedback(later, helped=False)
    store.feedback(later, helped=False)
    assert store.recall(Query("queue"))[1].memory.id == later
    assert set(ids) == {found.memory.id for found in store.recall(Query("queue"))}


def test_pinned_memories_come_the_most_important_first(store):
    low = store.remember(Draft("low", SOURCE, pinned=True, importance=0.1))
    high = store.remember(Draft("high", SOURCE, importance=0.9, scope="project:x", tier=Tier.TRUSTED))
    store.pin(high.id)

    assert [memory.text for memory in store.pinned(("", "project:x"))] == ["high", "low"]
    assert [memory.text for memory in store.pinned(("project:x",))] == ["high"]
    assert [memory.text for memory in store.pinned(("", "project:x"), Tier.TRUSTED)] == ["high"]
    assert store.pinned(()) == ()
    store.pin(low.id, on=False)
    assert [memory.text for memory in store.pinned(("", "project:x"))] == ["high"]


def test_what_lies_around_a_memory_comes_by_its_distance(store):
    a, b, c, d = store.remember_many([Draft(text, SOURCE) for text in "abcd"])
    store.create_edge(Edge(a, b, "fixes", 0.5))
    store.create_edge(Edge(c, b))
    store.create_edge(Edge(c, d))
    store.create_edge(Edge(a, b, "fixes", 0.7))

    near, far = store.explore(a), store.explore(a, depth=2)

    assert [memory.id for memory in near.memories] == [a, b]
    assert near.edges == (Edge(a, b, "fixes", 0.7),)
    assert [memory.id for memory in far.memories] == [a, b, c]
    assert [memory.id for memory in store.explore(a, depth=9, most=2).memories] == [a, b]
    assert [memory.id for memory in store.explore(b, types=("related",)).memories] == [b, c]
    store.forget(b)
    assert [memory.id for memory in store.explore(a, depth=9).memories] == [a]


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"depth": 33}, {"most": 0}, {"types": ("likes",)}])
def test_what_cannot_be_explored_is_refused(store, wrong):
    memory = store.remember(Draft("a", SOURCE))

    with pytest.raises(MemoryInvalid):
        store.explore(memory.id, **wrong)


def test_with_a_memory_everything_is_erased_that_came_from_it(store, path):
    a, b, c, d, other = store.remember_many([Draft(f"unmistakable{text}", SOURCE) for text in "abcde"])
    for child, parent in ((b, a), (c, a), (d, b), (d, c), (a, d)):
        store.create_edge(Edge(child, parent, "came-from"))
    store.create_edge(Edge(other, a, "supports"))

    erased = store.erase(a, cascade=True)

    assert erased.memories[0] == a
    assert set(erased.memories) == {a, b, c, d}
    assert erased.edges == 6
    assert [memory.id for memory in store.export()] == [other]
    with pytest.raises(MemoryUnknown):
        store.reference(b)
    store.close()
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"unmistakablee" in held
    assert not any(b"unmistakable" + letter in held for letter in (b"a", b"b", b"c", b"d"))


def test_erasing_a_turn_joins_its_neighbours(store):
    a, b, c = store.remember_many([Draft(text, SOURCE, thread="t") for text in ("pottery?", "well", "two bowls")])

    store.erase(b)

    assert [found.memory.id for found in store.recall(Query("pottery"))] == [a, c]
    store.erase(c)
    assert [found.memory.id for found in store.recall(Query("pottery"))] == [a]
    d = store.remember(Draft("one plate", SOURCE, thread="t"))
    assert [found.memory.id for found in store.recall(Query("pottery"))] == [a, d.id]


@pytest.mark.parametrize("unknown", ["mem-none", "", "\ud800", "' OR 1=1"])
def test_an_unknown_id_is_told(store, unknown):
    with pytest.raises(MemoryUnknown):
        store.reference(unknown)
    with pytest.raises(MemoryUnknown):
        store.create_edge(Edge(unknown, "mem-other"))


def test_a_closed_memory_says_so(store):
    store.close()
    store.close()

    with pytest.raises(MemoryUnavailable, match="it was closed"):
        store.recall(Query("anything"))


def test_many_threads_write_and_read_at_once(store):
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                store.remember(Draft(f"thread{number} turn{turn}", SOURCE))
                assert store.recall(Query(f"thread{number}", k=20))
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert store.counts().memories == 60


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip))
def test_any_text_is_kept_as_it_is_and_any_text_can_be_asked(store, text):
    memory = store.remember(Draft(text, SOURCE))

    assert store.reference(memory.id).text == text
    store.recall(Query(text))
    store.forget(memory.id)
    assert memory.id not in {found.memory.id for found in store.recall(Query(text, k=1000))}
    store.erase(memory.id)
