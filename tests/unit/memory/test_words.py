from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.memory.words import index_terms, query_terms


def _meets(question: str, text: str) -> set[str]:
    held = set(index_terms(text))
    return {term.label for term in query_terms(text=question) if held.intersection(term.forms)}


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        ("Which kittens were adopted?", "She is adopting a kitten", {"kittens", "adopted"}),
        ("Wann wurden die Server gestartet?", "Der Server startete, neu gestartet am Freitag", {"server", "gestartet"}),
        ("Mueller", "Herr Müller rief an", {"mueller"}),
        ("Muller", "Herr Müller rief an", {"muller"}),
        ("Müller", "Herr Mueller rief an", set()),
        ("naive", "a naïve approach", {"naive"}),
        ("ERR_MEMORY", "it said err_memory", {"err", "memory"}),
        ("version 2", "since version 2.1", {"version", "2"}),
    ],
)
def test_a_question_meets_a_text_in_other_forms_of_its_words(question, text, found):
    assert _meets(question, text) == found


def test_a_script_without_spaces_is_found_by_parts_of_it():
    assert {"故障", "さば"} <= _meets("サーバの故障", "昨夜サーバーが故障した")
    assert "京" in _meets("京", "東京へ行った")
    assert _meets("สวัสดี", "สวัสดีครับ")
    assert _meets("서울", "서울에서 만났다")


def test_words_that_say_nothing_are_left_out_of_a_question_that_has_others():
    assert [term.label for term in query_terms("When did she go to the shop?")] == ["go", "shop"]
    assert [term.label for term in query_terms("Wann war die Hat-Party im Garten?")] == ["party", "garten"]


def test_a_question_of_words_that_say_nothing_asks_for_them():
    assert [term.label for term in query_terms("who are you")] == ["who", "are", "you"]


def test_a_word_is_asked_for_once_however_often_it_stands_there():
    assert [term.label for term in query_terms("deploy deployed Deploys")] == ["deploy"]


def test_a_text_holds_a_word_as_often_as_it_has_it():
    assert index_terms("run, running, runs").count("run") == 3


@given(st.text())
def test_terms_are_words_of_the_index_whatever_the_text_is(text):
    terms = [*index_terms(text), *(form for term in query_terms(text) for form in term.forms)]

    assert not any(set(term) & set(" \"'()*:^-+\0") or not term for term in terms)


@given(st.text(min_size=1))
def test_a_text_is_found_by_itself(text):
    terms = query_terms(text)

    held = set(index_terms(text))
    assert all(held.intersection(term.forms) for term in terms)
