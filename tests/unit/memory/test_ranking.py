from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.memory import Author, Draft, Query, Source
from kagura_kernel.memory.ranking import (
    MEANING,
    NEIGHBOUR,
    Place,
    Scored,
    Wanted,
    fused,
    has_to_do_with,
    rank,
    rarity,
)
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.memory.store import memory_of
from tests.support.recall_corpus.making import LANGUAGES, make_corpus


def _place(number: int, **changes: object) -> Place:
    place = Place(number, 0, 0, number, turn=False, length=10, at=0, importance=0.5, bias=0)
    return place._replace(**changes)


def _order(wanted: list[Wanted], *places: Place) -> list[int]:
    return [found.number for found in rank(wanted, {place.number: place for place in places})]


def test_a_rare_word_counts_more_than_a_common_one():
    common, rare = Wanted("common", rarity(100, 90), {1: 1.0}), Wanted("rare", rarity(100, 2), {2: 1.0})

    assert _order([common, rare], _place(1), _place(2)) == [2, 1]


def test_two_words_count_more_than_one_of_them_again_and_again():
    one, other = Wanted("one", 2.0, {1: 4.0, 2: 1.0}), Wanted("other", 2.0, {2: 1.0})

    assert _order([one, other], _place(1), _place(2)) == [2, 1]


def test_a_word_counts_more_in_a_short_text_than_in_a_long_one():
    assert _order([Wanted("word", 1.0, {1: 1.0, 2: 1.0})], _place(1, length=400), _place(2, length=10)) == [2, 1]


@pytest.mark.parametrize(("turn", "order"), [(True, [2, 1]), (False, [1, 2])])
def test_a_turn_of_a_word_or_two_is_found_after_one_that_says_something(turn, order):
    places = (_place(1, length=2, turn=turn), _place(2, length=12, turn=turn))

    assert _order([Wanted("word", 1.0, {1: 1.0, 2: 1.0})], *places) == order


def test_the_turn_after_a_question_is_found_by_the_words_of_the_question():
    turns = [_place(1, turn=True, after=2, session=1), _place(2, turn=True, prev=1, session=1)]
    found = rank([Wanted("pottery", 3.0, {1: 1.0})], {turn.number: turn for turn in turns})

    assert [one.number for one in found] == [1, 2]
    assert found[1].why == (NEIGHBOUR,)


def test_a_note_is_not_found_by_the_words_of_another_note_alone():
    assert _order([Wanted("word", 3.0, {1: 1.0})], _place(1, after=2), _place(2, prev=1)) == [1]


def test_importance_feedback_and_age_decide_between_equals_alone():
    word, rare = Wanted("word", 1.0, {1: 1.0, 2: 1.0}), Wanted("rare", 0.3, {1: 1.0})

    assert _order([word], _place(1), _place(2, importance=0.9)) == [2, 1]
    assert _order([word], _place(1), _place(2, bias=1)) == [2, 1]
    assert _order([word], _place(1, bias=-1), _place(2)) == [2, 1]
    assert _order([word], _place(1), _place(2, at=5)) == [2, 1]
    assert _order([word, rare], _place(1, bias=-9, importance=0.0), _place(2, bias=9, importance=1.0, at=5)) == [1, 2]


def test_what_matched_is_told_the_strongest_first():
    wanted = [Wanted("weak", 1.0, {1: 1.0}), Wanted("strong", 5.0, {1: 1.0})]

    assert rank(wanted, {1: _place(1)})[0].why == ("strong", "weak")


@given(
    st.lists(st.tuples(st.floats(0.001, 20), st.dictionaries(st.integers(1, 6), st.sampled_from([1.0, 2.0, 4.0])))),
    st.booleans(),
)
def test_scores_lie_between_0_and_1_and_fall(words, turn):
    wanted = [Wanted(str(number), worth, rows) for number, (worth, rows) in enumerate(words)]
    places = {
        number: _place(number, turn=turn, prev=number - 1, after=(number + 1) % 7, session=1) for number in range(1, 7)
    }

    scores = [found.score for found in rank(wanted, places)]

    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_meaning_finds_what_words_do_not():
    joined = fused([Scored(1, 0.4, ("word",))], {1: 0.1, 2: 0.9}, meaning=0.4)

    assert [found.number for found in joined] == [1, 2]
    assert joined[1].why == (MEANING,)
    assert fused([Scored(1, 0.4, ("word",))], {1: 0.1, 2: 0.9}, meaning=0.7)[0].number == 2


def test_without_vectors_the_order_of_words_stays():
    lexical = [Scored(1, 0.4, ()), Scored(2, 0.2, ())]

    assert fused(lexical, {}, meaning=0.5) == lexical


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def memory(text, **more):
    return memory_of(Draft(text, Source(Author.HUMAN), **more), NOW)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Deploy the service to staging.", "Deploy to staging only when the database is up."),
        ("Find the answer.", "The answer is found with a calculator."),
        ("Die Rechnung als PDF erzeugen", "Rechnungen werden mit dem PDF-Drucker erzeugt."),
        ("サーバーを再起動する", "サーバの再起動は夜に行う。"),
        ("postgres migration", "Migrations on Postgres run before the deployment."),
    ],
)
def test_what_shares_words_with_a_question_has_to_do_with_it(question, text):
    assert has_to_do_with(question, memory(text))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Deploy the service to staging.", "Bananas are yellow."),
        ("Fix the login test and the settings page", "The test data lies in a bucket in Frankfurt."),
        ("Write a poem about the sea and the wind", "The wind farm's contract ends in May, says the lawyer."),
        ("", "Anything at all."),
    ],
)
def test_what_shares_next_to_nothing_has_not(question, text):
    assert not has_to_do_with(question, memory(text))


def test_tags_count_too():
    assert has_to_do_with("kubernetes rollout", memory("Wait for the green light.", tags=("kubernetes", "rollout")))


@pytest.mark.parametrize("language", LANGUAGES)
def test_of_the_corpus_answers_are_kept_and_the_rest_is_left_out(language, tmp_path):
    corpus = make_corpus(threads=False)
    store = SqliteMemory(tmp_path / "memory.sqlite3")
    store.remember_many(corpus.drafts)
    kept, others = [], []
    for question in corpus.questions:
        if (question.language, question.kind) == (language, "note"):
            for found in store.recall(Query(question.text, k=10)):
                fits = has_to_do_with(question.text, found.memory)
                (kept if found.memory.id in question.answers else others).append(fits)
    store.close()
    assert sum(kept) >= 0.9 * len(kept) > 0
    assert sum(others) <= 0.1 * len(others)
