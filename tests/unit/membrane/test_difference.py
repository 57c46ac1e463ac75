from __future__ import annotations

from kagura_kernel.membrane.difference import MAX_DIFF_LINES, is_text, unified_diff


def test_text_is_utf8_without_nul() -> None:
    assert is_text("grüße 神楽".encode())
    assert not is_text(b"a\0b")
    assert not is_text(b"\xff\xfe")


def test_a_diff_names_both_sides_and_marks_a_missing_newline() -> None:
    diff = unified_diff("a.txt", b"one\ntwo\n", b"one\nthree")
    assert diff.splitlines()[:2] == ["--- a/a.txt", "+++ b/a.txt"]
    assert "-two\n+three\n\\ No newline at end of file\n" in diff


def test_equal_texts_have_no_diff() -> None:
    assert unified_diff("a", b"same\n", b"same\n") == ""


def test_a_long_diff_is_cut_and_says_how_much_is_left_out() -> None:
    new = "".join(f"{n}\n" for n in range(MAX_DIFF_LINES + 500)).encode()
    diff = unified_diff("a", b"", new)
    assert len(diff.splitlines()) == MAX_DIFF_LINES + 1
    assert diff.endswith("more lines\n")


def test_texts_too_long_to_compare_are_told_by_their_size() -> None:
    assert "too many to compare" in unified_diff("a", b"x\n" * 15_000, b"y\n" * 15_000)
