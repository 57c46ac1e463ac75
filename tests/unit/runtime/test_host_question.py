from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.runtime.router import host_arguments, host_detail


def test_the_values_are_exactly_what_would_be_used():
    assert host_arguments("ls", "/p", b"") == {"command": "ls", "directory": "/p"}
    assert host_arguments("cat", "/p", "é\r\n".encode())["stdin"] == "é\r\n"


def test_input_that_is_no_text_differs_from_the_text_it_is_shown_as():
    odd, text = host_arguments("cat", "/p", b"\xff"), host_arguments("cat", "/p", b"\\xff")
    assert odd["stdin"] == text["stdin"] == "\\xff"
    assert base64.b64decode(odd["stdin_base64"]) == b"\xff"
    assert odd != text


def test_each_part_stands_under_its_heading_behind_a_bar():
    assert host_detail("a\nb", "/p", "in\n") == "Command:\n| a\n| b\n\nDirectory:\n| /p\n\nStandard input:\n| in\n| "


@pytest.mark.parametrize("char", ["\r", "\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\u202e", "\u200b", "\0", "\udcff"])
def test_what_cannot_be_seen_or_would_move_the_rest_is_written_out(char):
    assert host_detail(f"a{char}b", "/p", "").startswith(f"Command:\n| a⟨U+{ord(char):04X}⟩b\n\nDirectory:")


@given(command=st.text(), directory=st.text(), stdin=st.text(min_size=1))
def test_no_text_can_pose_as_another_part(command, directory, stdin):
    lines = host_detail(command, directory, stdin).split("\n")
    bare = [line for line in lines if not line.startswith("| ")]
    assert bare == ["Command:", "", "Directory:", "", "Standard input:"]
    assert len(lines) - len(bare) == 3 + sum(text.count("\n") for text in (command, directory, stdin))
    assert all(len(line.splitlines()) <= 1 for line in lines)
