from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.memory.words import german_stem, is_german


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
