from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.cockpit.lines.words import unquoted, words_of
from tests.support.effort import examples

LINES = st.text(alphabet="ab =,-\\'\" \t\n@é", max_size=30)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES)
def test_a_line_is_split_as_a_shell_splits_it(line):
    words = words_of(line)
    try:
        expected = shlex.split(line)
    except ValueError:
        assert words[-1].unfinished
    else:
        assert [word.text for word in words] == expected
        assert not any(word.unfinished for word in words)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES)
def test_every_word_stands_where_it_says(line):
    for word in words_of(line):
        assert line[word.start : word.end] == word.raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("'a b'", "a b"),
        ('"a \\"b\\" c"', 'a "b" c'),
        ("x=df['a']", "x=df['a']"),
        ("'a' + 'b'", "'a' + 'b'"),
        ('"a" + "b"', '"a" + "b"'),
        ("'open", "'open"),
        ("", ""),
    ],
)
def test_only_quotes_around_the_whole_are_taken_away(raw, text):
    assert unquoted(raw) == text
