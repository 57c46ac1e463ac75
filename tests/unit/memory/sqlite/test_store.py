import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import Author, Draft, Edge, Query, Source, Tier
from kagura_kernel.memory.sqlite.store import SqliteMemory

SOURCE = Source(Author.AGENT, by="brain", run_id="run-1", uri="file:///x")


def _found(store: SqliteMemory, text: str, **filters: object) -> list[str]:
    return [found.memory.text for found in store.recall(Query(text, **filters))]


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


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip))
def test_any_text_is_kept_as_it_is_and_any_text_can_be_asked(store, text):
    memory = store.remember(Draft(text, SOURCE))

    assert store.reference(memory.id).text == text
    store.recall(Query(text))
    store.forget(memory.id)
    assert memory.id not in {found.memory.id for found in store.recall(Query(text, k=1000))}
    store.erase(memory.id)
