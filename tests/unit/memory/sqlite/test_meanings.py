from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier
from kagura_kernel.memory.ranking import MEANING
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.patience import wait_until
from tests.support.text_encoder import FakeEncoder

SOURCE = Source(Author.HUMAN)
PETS = {"kitten", "pet", "dog"}
FOOD = {"bread", "dinner"}


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder([PETS, FOOD])


@pytest.fixture
def store(tmp_path: Path, encoder: FakeEncoder) -> Iterator[SqliteMemory]:
    opened = SqliteMemory(tmp_path / "memory.db", encoder=encoder)
    yield opened
    opened.close()


def _texts(store: SqliteMemory, text: str, **filters: object) -> Sequence[str]:
    return [found.memory.text for found in store.recall(Query(text, **filters))]


def test_a_memory_is_found_by_its_meaning_when_no_word_is_the_same(store):
    store.remember_many([Draft("warm bread", SOURCE), Draft("a kitten", SOURCE)])
    store.encode_now()

    found = store.recall(Query("what pet?"))

    assert found[0].memory.text == "a kitten"
    assert found[0].why == (MEANING,)
    assert all(0 <= one.score <= 1 for one in found)


def test_vectors_are_made_in_the_background(store):
    store.remember(Draft("a kitten", SOURCE))

    wait_until(lambda: _texts(store, "pet") == ["a kitten"])


def test_words_are_enough_until_there_are_vectors(store, encoder):
    encoder.fail = True
    store.remember(Draft("a kitten", SOURCE))

    assert _texts(store, "kitten") == ["a kitten"]


def test_vectors_are_kept_with_the_memories(store, tmp_path, encoder):
    store.remember_many([Draft(f"kitten {number}", SOURCE) for number in range(70)])
    store.encode_now()
    asked = len(encoder.asked)

    again = SqliteMemory(tmp_path / "memory.db", encoder=encoder)
    made = again.encode_now()
    found = _texts(again, "pet", k=100)
    again.close()

    assert made == 0
    assert len(found) == 70
    assert encoder.asked[asked:] == ["pet"]


def test_filters_hold_for_meaning_too(store):
    kitten, dog = store.remember_many([Draft("a kitten", SOURCE), Draft("a dog", SOURCE)])
    store.encode_now()
    assert set(_texts(store, "pet")) == {"a kitten", "a dog"}

    store.forget(kitten)
    assert _texts(store, "pet") == ["a dog"]
    assert _texts(store, "pet", tier=Tier.TRUSTED) == []
    store.restore(kitten)
    store.erase(dog)
    assert _texts(store, "pet") == ["a kitten"]


def test_vectors_of_another_model_are_not_compared(store, tmp_path):
    store.remember(Draft("a kitten", SOURCE))
    store.encode_now()
    other = FakeEncoder([FOOD, PETS, {"more"}], model="other")

    second = SqliteMemory(tmp_path / "memory.db", encoder=other)
    second.encode_now()
    found = _texts(second, "pet")
    second.close()

    assert found == ["a kitten"]
    assert np.allclose(other.encode(["pet"]), [[0, 1, 0]], atol=0.02)


def test_a_question_in_a_language_that_the_model_does_not_know_is_answered_by_words(store, encoder):
    encoder.unknown = {"pet"}
    store.remember(Draft("a kitten", SOURCE))
    store.encode_now()

    assert _texts(store, "pet") == []
    assert _texts(store, "kitten") == ["a kitten"]


def test_what_is_remembered_after_the_newest_was_erased_is_found_by_its_meaning(store):
    store.remember(Draft("a dog", SOURCE))
    kitten = store.remember(Draft("a kitten", SOURCE))
    store.encode_now()
    assert len(_texts(store, "pet")) == 2

    store.erase(kitten.id)
    store.remember(Draft("another kitten", SOURCE))
    store.encode_now()

    assert set(_texts(store, "pet")) == {"a dog", "another kitten"}
