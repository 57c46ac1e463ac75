import pytest

from kagura_kernel.membrane.changes import MAX_DIFF_BYTES, MAX_DIFF_LINES, is_text, size_of, unified_diff


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
    assert diff.splitlines()[-1] == "… 503 lines left out in whole or in part, 3,018 bytes: this is not all"


def test_texts_too_long_to_compare_are_told_by_their_size() -> None:
    assert "too many to compare" in unified_diff("a", b"x\n" * 15_000, b"y\n" * 15_000)


@pytest.mark.parametrize(
    "new", [b"word " * 100_000, b"line of text\n" * 8000, "神楽\n".encode() * 9000, b"x = 1\r" * 9000]
)
def test_a_diff_stays_below_its_bytes_and_its_last_line_says_that_it_is_not_all(new: bytes) -> None:
    diff = unified_diff("a", b"", new)
    assert MAX_DIFF_BYTES // 4 < size_of(diff) <= MAX_DIFF_BYTES
    assert diff.splitlines()[-1].startswith("… ")
    assert diff.endswith(" bytes: this is not all\n")


def test_a_line_that_is_cut_is_marked_where_it_is_cut() -> None:
    diff = unified_diff("a.py", b"", b"x = 1" + b" " * 100_000 + b"; evil()\n")
    line = diff.splitlines()[3]
    assert line.startswith("+x = 1 ")
    assert line.endswith("bytes of this line are left out …")


def test_a_path_never_writes_lines_of_its_own() -> None:
    path = "x\n--- a/README\n+++ b/README\n@@ -1 +1 @@\n-hi\r+ok\x1b[2K\u2028end"
    head = unified_diff(path, b"", b"evil\n").splitlines()
    shown = "x⟨U+000A⟩--- a/README⟨U+000A⟩+++ b/README⟨U+000A⟩@@ -1 +1 @@⟨U+000A⟩-hi⟨U+000D⟩+ok⟨U+001B⟩[2K⟨U+2028⟩end"
    assert head == [f"--- a/{shown}", f"+++ b/{shown}", "@@ -0,0 +1 @@", "+evil"]


def test_a_path_longer_than_the_diff_may_be_leaves_one_honest_line() -> None:
    assert unified_diff("神" * 4000, b"", b"x\n", limit=1000) == (
        "… no diff is shown, there is no room left for it: 0 bytes before, 2 bytes after\n"
    )
