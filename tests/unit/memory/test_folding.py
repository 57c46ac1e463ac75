from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.memory.words import fold, unfold_umlauts


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
