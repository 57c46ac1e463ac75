from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier
from kagura_kernel.memory.sqlite import search
from kagura_kernel.memory.sqlite.store import SqliteMemory

SOURCE = Source(Author.HUMAN)
DAY = datetime(2025, 5, 1, tzinfo=UTC)


def _ids(store: SqliteMemory, text: str, **filters: object) -> list[str]:
    return [found.memory.id for found in store.recall(Query(text, **filters))]


def _ones(store: SqliteMemory) -> None:
    store.remember_many(
        [
            Draft(
                f"the deploy note {number}",
                SOURCE,
                id=f"m{number}",
                tier=Tier.TRUSTED if number % 2 else Tier.QUARANTINE,
                type="fix" if number % 3 == 0 else "note",
                tags=tuple(tag for tag, of in (("two", 2), ("five", 5)) if number % of == 0),
                scope="" if number < 6 else "project:x",
                at=DAY + timedelta(days=number),
                importance=number / 10,
            )
            for number in range(10)
        ]
    )


FILTERS = [
    ({"tier": Tier.TRUSTED}, {1, 3, 5, 7, 9}),
    ({"types": ("fix",)}, {0, 3, 6, 9}),
    ({"types": ("fix", "note")}, set(range(10))),
    ({"tags": ("two", "five")}, {0, 2, 4, 5, 6, 8}),
    ({"tags": ("two", "five"), "all_tags": True}, {0}),
    ({"scopes": ("",)}, set(range(6))),
    ({"scopes": ("project:x",)}, {6, 7, 8, 9}),
    ({"scopes": ("", "project:x")}, set(range(10))),
    ({"scopes": ()}, set()),
    ({"since": DAY + timedelta(days=7)}, {7, 8, 9}),
    ({"until": DAY + timedelta(days=2)}, {0, 1}),
    ({"min_importance": 0.8}, {8, 9}),
    ({"tier": Tier.TRUSTED, "types": ("fix",), "scopes": ("project:x",), "since": DAY}, {9}),
]


@pytest.mark.parametrize(("filters", "numbers"), FILTERS)
def test_a_filter_is_the_same_when_it_is_too_broad_for_the_index(store, monkeypatch, filters, numbers):
    monkeypatch.setattr(search, "SELECTIVE", 1)
    _ones(store)

    assert set(_ids(store, "deploy", k=50, **filters)) == {f"m{number}" for number in numbers}


def test_what_does_not_pass_a_filter_does_not_take_the_place_of_what_does(store):
    store.remember_many([Draft("deploy deploy deploy", SOURCE) for _ in range(700)])
    wanted = store.remember(Draft("a long text in which the word deploy is said once", SOURCE, tier=Tier.TRUSTED))
    store.remember_many([Draft("deploy deploy", SOURCE) for _ in range(700)])

    assert _ids(store, "deploy", k=1, tier=Tier.TRUSTED) == [wanted.id]
    assert _ids(store, "deploy", k=1, until=wanted.at) == []


def test_a_rare_word_is_found_beside_one_that_is_in_every_memory(store, monkeypatch):
    monkeypatch.setattr(search, "PROBE", 10)
    monkeypatch.setattr(search, "BUDGET", 20)
    drafts = [Draft(f"memory number{number} about things", SOURCE, id=f"m{number}") for number in range(200)]
    store.remember_many(drafts)

    assert _ids(store, "memory about number3", k=1) == ["m3"]
    assert len(_ids(store, "memory", k=5)) == 5
    assert len(_ids(store, "memory things", k=5)) == 5


def test_a_word_too_common_to_be_read_still_orders_what_others_found(store, monkeypatch):
    monkeypatch.setattr(search, "PROBE", 5)
    monkeypatch.setattr(search, "BUDGET", 5)
    both = store.remember(Draft("queue and worker", SOURCE))
    store.remember_many([Draft("worker", SOURCE) for _ in range(8)])
    store.remember(Draft("queue and nothing", SOURCE))
    store.remember_many([Draft("other", SOURCE) for _ in range(30)])

    assert _ids(store, "queue worker", k=1) == [both.id]


@pytest.mark.parametrize("said", [True, False])
def test_who_speaks_counts_more_than_who_is_spoken_to(store, said):
    def turn(speaker: str, text: str) -> Draft:
        if said:
            return Draft(text, SOURCE, thread="t", speaker=speaker, id=f"{speaker}-{len(text)}")
        return Draft(f"{speaker}: {text}", SOURCE, id=f"{speaker}-{len(text)}")

    store.remember_many(
        [
            turn("Ellen", "Hi Tom, I love camping by the lake!"),
            turn("Tom", "So do I, camping in the mountains is best for me."),
            *(turn(name, "x" * number) for number in range(1, 20) for name in ("Ellen", "Tom")),
        ]
    )

    assert _ids(store, "Where does Tom like camping?")[0].startswith("Tom")
    assert _ids(store, "Where does Ellen like camping?")[0].startswith("Ellen")


@pytest.mark.parametrize("said", [True, False])
def test_an_answer_is_found_by_the_question_before_it(store, said):
    turns = [("Tom", "How was the pottery class?"), ("Ellen", "Two crooked bowls!"), ("Tom", "Ha.")]
    drafts = [
        Draft(text, SOURCE, thread="t", speaker=speaker) if said else Draft(f"{speaker}: {text}", SOURCE)
        for speaker, text in turns
    ]
    ids = store.remember_many(drafts[:1]) + tuple(store.remember(draft).id for draft in drafts[1:])
    store.remember(Draft("An unrelated note", SOURCE, scope="project:other"))

    found = store.recall(Query("What did Ellen make in the pottery class?"))

    assert ids[1] in [one.memory.id for one in found[:2]]
    assert "neighbour" in next(one.why for one in found if one.memory.id == ids[1])


async def test_notes_are_neighbours_only_when_they_were_remembered_together(store, clock):
    store.remember(Draft("Tom: How was the pottery class?", SOURCE))
    await clock.advance(121)
    late = store.remember(Draft("Ellen: Two crooked bowls!", SOURCE))

    assert late.id not in _ids(store, "pottery")


def test_an_answer_is_found_by_the_question_before_it_where_nobody_is_named(store):
    talk = ("Do you like pottery?", "My kids do!", "I see.")
    for id_, scope, type_ in (("said", "", "note"), ("told", "x", "fix")):
        store.remember_many(
            Draft(text, SOURCE, id=f"{id_}{number}", scope=scope, type=type_) for number, text in enumerate(talk)
        )
    store.remember(Draft("The kiln is for pottery.", SOURCE, id="note0", scope="y"))
    store.remember(Draft("It holds 40 bowls.", SOURCE, id="note1", scope="y"))

    found = _ids(store, "pottery")

    assert {"said0", "said1", "told0", "note0"} <= set(found)
    assert not {"told1", "note1"} & set(found)


def test_turns_of_two_threads_do_not_mix(store):
    drafts = []
    for number in range(3):
        drafts += [Draft(f"one{number}", SOURCE, thread="one"), Draft(f"two{number}", SOURCE, thread="two")]
    store.remember_many(drafts)

    found = {one.memory.text for one in store.recall(Query("one1"))}

    assert found == {"one0", "one1", "one2"}


def test_a_neighbour_that_may_not_be_shown_is_not_shown(store):
    store.remember_many(
        [
            Draft("pottery?", SOURCE, thread="t", tier=Tier.TRUSTED),
            Draft("two bowls", SOURCE, thread="t"),
            Draft("three cups", SOURCE, thread="t", tier=Tier.TRUSTED),
        ]
    )

    found = [one.memory.text for one in store.recall(Query("pottery", tier=Tier.TRUSTED))]

    assert "two bowls" not in found
