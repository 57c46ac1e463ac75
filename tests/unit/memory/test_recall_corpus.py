from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.memory import Query
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.recall_corpus.judging import Retriever, judge
from tests.support.recall_corpus.making import KINDS, LANGUAGES, Corpus, make_corpus
from tests.support.recall_corpus.plain import porter, substring


@pytest.fixture(scope="module", params=[True, False], ids=["threads", "lines"])
def corpus(request: pytest.FixtureRequest) -> Corpus:
    return make_corpus(threads=request.param)


@pytest.fixture(scope="module")
def recall(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    folder: Path = tmp_path_factory.mktemp("corpus")
    store = SqliteMemory(folder / "memory.db")
    store.remember_many(corpus.drafts)
    yield lambda text, most: [found.memory.id for found in store.recall(Query(text, k=most))]
    store.close()


def test_the_corpus_asks_enough_of_every_kind_in_every_language(corpus):
    asked = corpus.questions
    known = {draft.id for draft in corpus.drafts}

    assert len(asked) >= 300
    assert {(one.language, one.kind, one.tuning) for one in asked} == {
        (language, kind, tuning) for language in LANGUAGES for kind in KINDS for tuning in (True, False)
    }
    assert all(set(one.answers) <= known and one.answers for one in asked)
    assert len(known) == len(corpus.drafts)
    assert make_corpus(threads=bool(corpus.drafts[0].thread)) == corpus


@pytest.mark.parametrize("language", LANGUAGES)
def test_recall_finds_more_than_plain_full_text_search_and_parts_of_words(corpus, recall, language):
    asked = [one for one in corpus.questions if one.language == language and not one.tuning]
    ours, plain, parts = (judge(one, asked) for one in (recall, porter(corpus.drafts), substring(corpus.drafts)))

    assert ours.at_10 > plain.at_10 + 0.05
    assert ours.mrr > plain.mrr
    assert ours.at_10 > parts.at_10


@pytest.mark.parametrize("kind", ["dialogue", "several", "note"])
def test_a_question_that_shares_some_words_with_its_answer_finds_it(corpus, recall, kind):
    asked = [one for one in corpus.questions if one.kind == kind and not one.tuning]

    assert judge(recall, asked).at_10 >= 0.9
    assert judge(recall, asked).at_5 >= 0.75


def test_figures_are_the_part_of_the_evidence_and_how_early_it_comes(corpus):
    asked = [one for one in corpus.questions if len(one.answers) == 2][:1]
    answers = asked[0].answers

    figures = judge(lambda _text, _most: ["x", answers[0], "x", "x", "x", answers[1]], asked)

    assert (figures.questions, figures.at_5, figures.at_10, figures.mrr) == (1, 0.5, 1.0, 0.5)
    assert judge(lambda _text, _most: [], asked).mrr == 0
