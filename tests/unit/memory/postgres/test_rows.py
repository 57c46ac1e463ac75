"""The words of a row are text whatever they are made of, and never more than a row can hold."""

import re
from datetime import UTC, datetime

from hypothesis import given, strategies as st

from kagura_kernel.memory.postgres.search import own_words, quoted
from kagura_kernel.memory.store import memory_of
from kagura_kernel.testing.conformance.memory_rig import draft

NOW = datetime(2026, 3, 7, tzinfo=UTC)


@given(st.text())
def test_a_quoted_word_ends_where_it_should(word):
    told = quoted(word)
    assert (told[0], told[-1]) == ("'", "'")
    inside = told[1:-1].replace("\\\\", "").replace("''", "")
    assert "'" not in inside
    assert "\\" not in inside


def test_a_word_counts_by_where_it_stands():
    words = own_words(
        memory_of(draft("The crane lifts. Crane, crane, crane!", summary="Harbour", tags=("rope",), speaker="Ann"), NOW)
    )
    marks = dict(re.findall(r"'(\w+)':(\S+)", words))
    assert marks["harbour"] == "1A"
    assert marks["rope"] == "1A"
    assert marks["ann"] == "1C"
    assert marks["y2026"] == "1C"
    assert marks["crane"] == "1B,2B,3B"


def test_the_words_of_a_wide_text_leave_room_for_those_of_its_neighbours():
    wide = "".join(chr(0x4E00 + number * 7919 % 20_900) for number in range(16_000))
    words = own_words(memory_of(draft(wide, summary="Wide"), NOW))
    assert len(words.encode()) < 400_000
    assert "'wide':1A" in words
