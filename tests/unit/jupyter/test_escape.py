from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.visible import printed, visible
from kagura_kernel.render.escape import escaped, escaped_output, escaped_prose, one_line


@pytest.mark.parametrize(
    "odd", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x00", "\x07", "\x1b", "\x9b", "\u2028", "\U000e0041"]
)
def test_what_cannot_be_seen_is_written_out(odd):
    assert visible(f"a{odd}b") == f"a⟨U+{ord(odd):04X}⟩b"


def test_a_carriage_return_cannot_hide_the_start_of_a_command():
    assert visible("rm -rf ~\rls") == "rm -rf ~⟨U+000D⟩ls"


def test_ordinary_text_stays_as_it_is():
    text = "Grüße, 日本語, עברית, 👩‍👩‍👧\n\ttab"
    assert visible(text) == text


def test_lone_surrogates_do_not_stop_the_message_from_being_sent():
    visible("\udc80").encode("utf-8")


def test_colours_of_a_program_are_dropped_and_other_sequences_are_shown():
    assert printed("\x1b[1;31mred\x1b[0m\x1b[2J") == "red⟨U+001B⟩[2J"


def test_a_progress_bar_becomes_lines():
    assert printed("10%\r20%\r\ndone") == "10%\n20%\ndone"


@given(st.text())
def test_nothing_escapes_from_escaped_text(text):
    for result in (escaped(text), escaped_output(text)):
        assert not re.search(r"[<>\"']", result)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", result)


def test_code_in_our_own_messages_is_set_as_code_and_stays_escaped():
    assert escaped_prose("use `--new` <b>") == "use <code>--new</code> &lt;b&gt;"


def test_a_long_text_is_cut_to_one_line():
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
