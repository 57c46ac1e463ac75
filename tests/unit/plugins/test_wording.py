from __future__ import annotations

import pytest

from kagura_kernel.plugins.text import distance, hint, meant, unseen


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("", "", 0),
        ("fs-read", "fs-read", 0),
        ("fs-raed", "fs-read", 1),
        ("fs-rea", "fs-read", 1),
        ("fsread", "fs-read", 1),
        ("fs-write", "fs-read", 4),
        ("kitten", "sitting", 3),
        ("a", "abcde", 4),
    ],
)
def test_how_far_words_are_apart(one, other, edits):
    assert distance(one, other) == distance(other, one) == edits


def test_the_nearest_word_within_three_is_meant():
    known = ["fs-read", "fs-write", "fetch", "sql-read"]
    assert meant("fs-raed", known) == "fs-read"
    assert meant("fsrd", known) == ""
    assert meant("fs_wirte", known) == "fs-write"
    assert meant("postgres", known) == ""
    assert meant("x", []) == ""


def test_case_is_no_difference():
    assert meant("BASEDIR", ["baseDir"]) == "baseDir"


def test_a_short_word_is_not_taken_for_any_other():
    assert meant("ab", ["xyz"]) == ""


def test_the_hint_fits_behind_a_problem():
    assert hint("fetsh", ["fetch"]) == ", did you mean 'fetch'?"
    assert hint("zzzzzz", ["fetch"]) == ""


@pytest.mark.parametrize(
    "sign",
    ["\u202e", "\u200b", "\ufeff", "\0", "\x1b", "\n", "\udc80", "\u2028", "\ue000", "\u00ad", "\u3164", "\U000e0147"],
)
def test_what_a_reader_would_not_see_is_named(sign):
    assert unseen(f"a{sign}b") == f"U+{ord(sign):04X}"


def test_what_a_reader_sees_is_fine():
    assert unseen("plain, größer, 日本語, 👍") == ""
    assert unseen("two\n\tlines", lines=True) == ""
