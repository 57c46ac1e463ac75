import pytest

from kagura_kernel.plugins.text import hint, unseen


@pytest.mark.parametrize(
    ("word", "near"),
    [("fs-raed", "fs-read"), ("fs_wirte", "fs-write"), ("FETSH", "fetch"), ("postgres", ""), ("zz", "")],
)
def test_the_nearest_word_is_meant_and_fits_behind_a_problem(word, near):
    assert hint(word, ["fs-read", "fs-write", "fetch", "sql-read"]) == (near and f", did you mean {near!r}?")
    assert hint(word, []) == ""


def test_a_hint_is_the_word_as_it_is_written():
    assert hint("BASEDIR", ["baseDir"]) == ", did you mean 'baseDir'?"


@pytest.mark.parametrize(
    "sign",
    ["\u202e", "\u200b", "\ufeff", "\0", "\x1b", "\n", "\udc80", "\u2028", "\ue000", "\u00ad", "\u3164", "\U000e0147"],
)
def test_what_a_reader_would_not_see_is_named(sign):
    assert unseen(f"a{sign}b") == f"U+{ord(sign):04X}"


def test_what_a_reader_sees_is_fine():
    assert unseen("plain, größer, 日本語, 👍") == ""
    assert unseen("two\n\tlines", lines=True) == ""
