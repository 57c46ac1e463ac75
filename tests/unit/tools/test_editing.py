import codecs

import pytest
from hypothesis import assume, given, strategies as st

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.tools.text_file import decode_text, is_binary, replace_passage


def edit(data: bytes, old: str, new: str, *, everywhere: bool = False) -> bytes:
    return replace_passage(decode_text(data), old, new, everywhere=everywhere)[0].encoded()


@given(
    st.binary()
    | st.tuples(st.sampled_from([codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8]), st.binary()).map(b"".join)
)
def test_every_file_comes_back_as_it_was(data):
    assert decode_text(data).encoded() == data


@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_only_the_passage_changes(before, old, new, after):
    text = before + old + after
    assume(old != new and text.count(old) == 1 and "\r" not in text + new)
    try:
        data = text.encode()
        expected = (before + new + after).encode()
    except UnicodeEncodeError:
        return
    assume(not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)))
    assert edit(data, old, new) == expected


def test_windows_line_ends_stay_and_come_with_the_new_text():
    assert edit(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz") == b"x\r\ny\r\nz\r\nc\r\n"
    assert edit(b"a\r\nb\r\n", "a", "x\ny") == b"x\r\ny\r\nb\r\n"


def test_mixed_line_ends_are_left_alone():
    assert edit(b"a\r\nb\nc\n", "b", "x\ny") == b"a\r\nx\ny\nc\n"


def test_byte_order_marks_and_utf_16_stay():
    assert edit(codecs.BOM_UTF8 + b"a b", "a", "ä") == codecs.BOM_UTF8 + "ä b".encode()
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        assert edit(mark + "a b".encode(encoding), "a", "ä") == mark + "ä b".encode(encoding)


def test_bytes_that_are_no_text_stay_as_they_are():
    assert edit(b"caf\xe9 a", "a", "b", everywhere=True) == b"cbf\xe9 b"
    with pytest.raises(UsageError, match="not valid UTF-8"):
        edit(b"caf\xe9 x", "x", "ü")


def test_a_passage_that_is_not_unique_says_where_it_is():
    with pytest.raises(UsageError, match=r"occurs 3 times \(lines 1, 2, 4\)"):
        edit(b"a\na\nb\na\n", "a", "c")
    assert edit(b"a\na\nb\na\n", "a", "c", everywhere=True) == b"c\nc\nb\nc\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("zzz", "does not occur in the file. It"),
        ("if x:\n  y()", "with other blanks or line breaks"),
        ("if x:\n    z()", "its first line does, in line 2"),
    ],
)
def test_a_passage_that_is_missing_gets_a_hint(old, hint):
    with pytest.raises(UsageError) as caught:
        edit(b"#\nif x:\n    y()\n", old, "new")
    assert hint in caught.value.message


def test_changing_nothing_is_refused():
    with pytest.raises(UsageError, match="nothing to change"):
        edit(b"a", "a", "a")


def test_binary_files_are_told_from_text():
    assert is_binary(b"\x7fELF\0")
    assert not is_binary(b"text")
    assert not is_binary(codecs.BOM_UTF16_LE + b"a\0")
