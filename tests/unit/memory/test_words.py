import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.memory.words import fold, index_terms, marks_in, marks_of, query_terms, unfold_umlauts


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


def test_a_question_does_not_ask_for_the_words_that_say_that_somebody_spoke():
    assert [term.label for term in query_terms("What did Ellen say about bees?")] == ["ellen", "bees"]
    assert [term.label for term in query_terms("Was hat Anna von Bienen erzählt?")] == ["anna", "bienen"]
    assert [term.label for term in query_terms("What was said?")] == ["what", "was", "said"]


def test_a_title_after_a_name_is_no_part_of_it():
    assert {"田中", "田", "中"} == {term.label for term in query_terms("田中さん")}


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("café", "CAFE"),
        ("cafe\u0301", "café"),
        ("Ｄｏｃｋｅｒ", "docker"),
        ("サーバー", "サーバ"),
        ("サーバー", "さば"),
        ("ﾃﾞｰﾀ", "データ"),
        ("ガ", "が"),
        ("Łódź", "lodz"),
        ("Ærø", "aero"),
        ("co\u00adoperate", "cooperate"),
    ],
)
def test_spellings_that_a_reader_takes_for_the_same_are_folded_to_the_same(one, other):
    assert fold(one) == fold(other)


@pytest.mark.parametrize(("one", "other"), [("か", "が"), ("は", "ぱ"), ("cat", "cut"), ("東京", "京都")])
def test_what_a_reader_tells_apart_stays_apart(one, other):
    assert fold(one) != fold(other)


@given(st.text())
def test_what_was_folded_is_not_changed_by_folding_again(text):
    assert fold(fold(text)) == fold(text)


@given(st.text())
def test_composed_and_decomposed_text_are_folded_to_the_same(text):
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


def test_umlauts_are_written_out_as_two_letters():
    assert unfold_umlauts("Müller") == "mueller"
    assert unfold_umlauts("u\u0308ber") == "ueber"
    assert unfold_umlauts("plain") == "plain"


@pytest.mark.parametrize(
    ("question", "marks"),
    [
        ("What did she buy on 8 May, 2023?", {"x0508", "t202305"}),
        ("on May 8", {"x0508"}),
        ("the 3rd of June 2022", {"x0603", "t202206"}),
        ("June 27, 2023", {"x0627", "t202306"}),
        ("in May", {"m05"}),
        ("May 2023", {"t202305"}),
        ("in 2022", {"y2022"}),
        ("2024-05-07", {"x0507", "t202405"}),
        ("am 12.03.2024", {"x0312", "t202403"}),
        ("Was geschah im März?", {"m03"}),
        ("am 3. Mai 2024", {"x0503", "t202405"}),
        ("2024年5月3日の障害", {"x0503", "t202405"}),
        ("5月に", {"m05"}),
        ("2023年の予定", {"y2023"}),
        ("May I ask?", set()),
        ("march on", set()),
        ("port 8080", set()),
        ("2024-99-99", set()),
    ],
)
def test_dates_are_understood_in_three_languages(question, marks):
    assert set(marks_in(fold(question))) == marks


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2089, 12, 31)))  # noqa: DTZ001 - made aware
def test_a_moment_is_found_by_its_own_date(moment):
    aware = moment.replace(tzinfo=UTC)

    assert set(marks_in(fold(f"on {aware:%d %B %Y}"))) <= set(marks_of(aware))
    assert set(marks_in(f"{aware:%Y-%m-%d}")) <= set(marks_of(aware))


@given(st.text())
def test_any_question_can_be_looked_at_for_dates(text):
    assert all(mark[0] in "ymtx" and mark[1:].isdigit() for mark in marks_in(fold(text)))
