"""Passwords in sentences of other encodings, in files and in what a box prints."""

import pytest

from kagura_kernel.kit.redaction.files import encoding_of
from kagura_kernel.kit.redaction.spans import Finding
from tests.support.redactors import shared_redactor

WORD = "Kd83!jskQ2"
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
JAPANESE = ("shift_jis", "euc_jp", "iso2022_jp")
SENTENCES = {
    f"本番のパスワードは{WORD}です。\n": (*JAPANESE, *WIDE),
    f"お疲れ様です。\n管理画面のパスワードは「{WORD}」に変更しました。よろしくお願いします。\n": (*JAPANESE, *WIDE),
    f"メモ：DBの初期パスワードは {WORD} です。変更してください。\nサーバーは明日停止します。\n": (*JAPANESE, *WIDE),
    f"数据库密码是 {WORD} ，不要外传\n": ("gb18030", "gbk", *WIDE),
    f"运维同学：\n新的管理员密码已改为 {WORD}，旧的今天失效。\n": ("gb18030", "gbk", *WIDE),
    f"密码:{WORD}\n": ("gb18030", *WIDE),
    f"資料庫密碼是 {WORD} ，請勿外傳\n": ("big5", *WIDE),
    f"운영 서버 비밀번호는 {WORD} 입니다\n": ("euc_kr", *WIDE),
    f"пароль: {WORD} для сервера\n": ("cp1251", "koi8_r", *WIDE),
    f"Das Passwort für den Testserver lautet {WORD}. Schöne Grüße\n": ("cp1252", *WIDE),
}
CASES = [
    pytest.param(text, encoding, id=f"{number}-{encoding}")
    for number, (text, encodings) in enumerate(SENTENCES.items())
    for encoding in encodings
]


@pytest.mark.parametrize(("text", "encoding"), CASES)
def test_a_password_in_a_sentence_of_a_file_is_gone_and_the_rest_is_as_it_was(text, encoding):
    done = shared_redactor().redact_file(text.encode(encoding), "notes.txt")
    assert done.data is not None
    before, after = text.split(WORD)
    left = done.data.decode(encoding)
    assert left.startswith(before)
    assert left.endswith(after)
    assert left[len(before) :].startswith("[REDACTED:")
    assert len(done.findings) == 1


@pytest.mark.parametrize(("text", "encoding"), CASES)
def test_a_password_in_a_sentence_that_is_printed_is_gone_and_the_rest_is_as_it_was(text, encoding):
    stream = shared_redactor().byte_filter()
    out = stream.feed(text.encode(encoding)) + stream.finish()
    before, after = text.split(WORD)
    assert out.decode(encoding).startswith(before)
    assert out.decode(encoding).endswith(after)
    assert WORD not in out.decode(encoding)


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp", "gb18030"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_printed_pieces_of_another_encoding_give_what_the_whole_gives(encoding, size):
    text = "接続先を書きます。\npassword = 1\nパスワードはHanabi2024!です。\nls -la\n"
    data = text.encode(encoding)
    stream = shared_redactor().byte_filter()
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.finish()
    assert out.decode(encoding) == text.replace("Hanabi2024!", "[REDACTED:password]")


def test_lines_of_two_encodings_are_each_read_in_their_own():
    lines = ["設定のパスワードはHanabi2024!です。\n".encode(code) for code in ("utf-8", "shift_jis", "utf-8")]
    stream = shared_redactor().byte_filter()
    out = stream.feed(b"".join(lines)) + stream.finish()
    assert out == b"".join(line.replace(b"Hanabi2024!", b"[REDACTED:password]") for line in lines)


def test_bytes_that_are_no_text_in_any_encoding_pass_as_they_are():
    data = bytes(range(256)) * 8 + b"\n" + b"\x00\x01\xff" * 99
    stream = shared_redactor().byte_filter()
    assert stream.feed(data) + stream.finish() == data


def test_a_finding_in_an_encoding_that_was_mistaken_for_another_says_where_its_marker_stands():
    text = f"ключ\n密码:{WORD}\n"
    data = text.encode("gb18030")
    done = shared_redactor().redact_file(data, "notes.txt")
    assert done.data is not None
    [found] = done.findings
    assert isinstance(found, Finding)
    shown = done.data.decode(done.encoding)
    assert shown[found.start : found.end] == f"[REDACTED:{found.kind}]"
    assert found.line == 2


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe und Übergröße, naïve façade\n", "cp1252"),
        ("Résumé déjà vu, à bientôt\n", "cp1252"),
        ("これは設定ファイルです。\n", "shift_jis"),
        ("これは設定ファイルです。\n", "euc_jp"),
        ("这是我们的配置文件。\n", "gb18030"),
        ("Это файл настроек\n", "cp1251"),
        ("Это файл настроек\n", "koi8_r"),
    ],
)
def test_the_encoding_of_a_line_is_told_by_the_letters_that_its_language_is_full_of(text, encoding):
    assert encoding_of(text.encode(encoding)) in {encoding, encoding.replace("_", "-")}
