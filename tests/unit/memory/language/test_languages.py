import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import example, given, strategies as st

from kagura_kernel.memory.words import english_stem, german_stem, is_german

_ENDINGS = (
    "s es ies sses ed eed ing ational tional izer ation iveness fulness ousness aliti icate ative alize"
    " ical ful ness ement ion able ll e y"
)


@pytest.fixture(scope="module")
def porter() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE word USING fts5(text, tokenize='porter ascii')")
    connection.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(word, 'row')")
    yield connection
    connection.close()


def _stem(connection: sqlite3.Connection, word: str) -> str:
    connection.execute("DELETE FROM word")
    connection.execute("INSERT INTO word VALUES (?)", (word,))
    found: str = connection.execute("SELECT term FROM stem").fetchone()[0]
    return found


@given(
    start=st.text("abcdeilmnorstuvwyz", min_size=1, max_size=7),
    ending=st.sampled_from(["", *_ENDINGS.split()]),
)
@example(start="i", ending="es")
@example(start="s", ending="ses")
def test_a_stem_is_that_of_the_porter_tokenizer_of_sqlite(porter, start, ending):
    assert english_stem(start + ending) == _stem(porter, start + ending)


def test_what_is_no_english_word_stays_as_it_is():
    assert [english_stem(word) for word in ("x1s", "故障", "as", "42")] == ["x1s", "故障", "as", "42"]


@pytest.mark.parametrize(
    "forms",
    [
        ("server", "servern"),
        ("hund", "hunde", "hunds"),
        ("sicherung", "sicherungen"),
        ("tier", "tiere", "tieren"),
        ("neue", "neuen"),
    ],
)
def test_inflected_forms_have_one_stem(forms):
    assert len({german_stem(form) for form in forms}) == 1


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1))
def test_a_stem_is_the_beginning_of_its_word_and_not_empty(word):
    stem = german_stem(word)

    assert stem
    assert word.startswith(stem)


def test_a_language_is_known_by_its_little_words():
    assert is_german(["wann", "wurde", "der", "server"])
    assert not is_german(["when", "was", "the", "server"])
    assert not is_german(["docker"])
