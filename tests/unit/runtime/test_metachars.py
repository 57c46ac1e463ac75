from __future__ import annotations

import pytest

from kagura_kernel.runtime.routing import name_of, split_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -la src", ("ls", "-la", "src")),
        ("  ls\t-l  ", ("ls", "-l")),
        ("grep 'a|b;c' f", ("grep", "a|b;c", "f")),
        ('grep "two words" f', ("grep", "two words", "f")),
        ("echo a'b c'd", ("echo", "ab cd")),
        ("echo '' x", ("echo", "", "x")),
        ("grep --include=x.py a", ("grep", "--include=x.py", "a")),
        ("grep '日本語' f", ("grep", "日本語", "f")),
        ("", ()),
    ],
)
def test_a_plain_line_is_split_into_its_words(line, words):
    split = split_line(line)
    assert (split.words, split.meta) == (words, ())


@pytest.mark.parametrize(
    ("line", "meta"),
    [
        ("ls; rm", ";"),
        ("ls & rm", "&"),
        ("ls | sh", "|"),
        ("ls > f", ">"),
        ("cat < f", "<"),
        ("echo $HOME", "$"),
        ("echo `id`", "`"),
        ("echo \\x", "\\"),
        ("ls *.py", "*"),
        ("ls ?", "?"),
        ("ls [ab]", "[]"),
        ("ls {a,b}", "{}"),
        ("(ls)", "()"),
        ("ls ~", "~"),
        ("ls #x", "#"),
        ("! ls", "!"),
        ("ls\nrm", "\n"),
        ("ls\rrm", "\r"),
        ("ls\x0brm", "\x0b"),
        ("ls\0", "\0"),
        ("X=1 ls", "="),
        ("ls\u00a0-l", "\u00a0"),
        ("ｌｓ", "ｌｓ"),
        ("ls\uff1brm", "\uff1b"),
        ('echo "$HOME"', "$"),
        ('echo "`id`"', "`"),
        ('echo "a\\"', "\\"),
        ("echo 'x\ny'", "\n"),
        ("echo 'x\u202ey'", "\u202e"),
        ("echo 'open", "'"),
        ('echo "open', '"'),
    ],
)
def test_what_needs_a_shell_is_found(line, meta):
    assert split_line(line).meta == tuple(meta)


def test_a_character_is_told_once_and_in_order():
    assert split_line("a; b; c | d").meta == (";", "|")


def test_invisible_characters_are_told_by_name():
    assert [name_of(char) for char in ";\n\r\0\u00a0"] == [";", "newline", "carriage return", "NUL", "U+00A0"]
