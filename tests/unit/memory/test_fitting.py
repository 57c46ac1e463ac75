"""A memory that has nothing to do with a question is told apart from one that has."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kagura_kernel.domain.memory import Author, Draft, Query, Source
from kagura_kernel.memory.drafts import memory_of
from kagura_kernel.memory.ranking import has_to_do_with
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.recall_corpus.making import LANGUAGES, make_corpus

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
