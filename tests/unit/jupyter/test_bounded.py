from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.render.bounded import Bounded, bounded


def test_a_short_text_is_shown_as_it_is():
    assert bounded("a\nb\n") == Bounded("a\nb")
    assert bounded("a").whole() == "a"


def test_the_end_of_a_long_text_is_shown_too():
    text = "\n".join(map(str, range(100)))
    assert bounded(text, lines=8).whole("full.txt") == (
        "0\n1\n2\n3\n4\n5\n… 92 more lines, full text in full.txt …\n98\n99"
    )


def test_an_endless_line_is_cut_in_its_middle():
    part = bounded("a" * 500 + "z" * 500, characters=100)
    assert part.whole() == "a" * 75 + "\n… more …\n" + "z" * 25


def test_text_that_lies_elsewhere_in_full_says_so_even_when_all_is_shown():
    assert bounded("a").remark("full.txt") == "full text in full.txt"


@given(st.text(st.sampled_from("ab\n")), st.integers(1, 12), st.integers(8, 40))
def test_no_text_is_longer_than_allowed_and_nothing_is_lost_unsaid(text, lines, characters):
    part = bounded(text, lines=lines, characters=characters)
    assert len(part.head) + len(part.tail) <= characters
    assert part.head.count("\n") + bool(part.tail) + part.tail.count("\n") <= max(lines, 1)
    if not part.remark():
        assert part.whole() == text.rstrip("\n")


@pytest.mark.parametrize(("missing", "words"), [(1, "… 1 more line …"), (1234, "… 1,234 more lines …")])
def test_what_is_missing_is_counted(missing, words):
    assert Bounded("", missing).remark() == words


def test_a_text_that_came_with_a_gap_is_counted_in_bytes_since_nobody_knows_its_lines():
    text = "\n".join([*(["ab"] * 100), "… 5000 bytes left out …", *(["cd"] * 100)])
    part = bounded(text, lines=8)
    shown = len(part.head) + len(part.tail)
    marker = len("… 5000 bytes left out …")
    assert part.remark("full.txt") == f"… {5000 + len(text) - marker - shown:,} more bytes, full text in full.txt …"
    assert "line" not in part.remark()


def test_a_gap_that_is_shown_itself_leaves_the_other_lines_counted():
    text = "\n".join(["… 5000 bytes left out …", *(["ab"] * 100)])
    assert bounded(text, lines=8).remark() == "… 93 more lines …"
