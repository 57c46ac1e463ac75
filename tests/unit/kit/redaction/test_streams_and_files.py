"""Texts in pieces, and files in the encodings they have."""

import gzip
import random
from itertools import pairwise

import pytest
import yaml

from kagura_kernel.kit.redaction import redactor
from kagura_kernel.kit.redaction.redactor import RedactedStream
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS
from tests.support.redactors import shared_redactor

TOKEN = "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"


@pytest.fixture(autouse=True)
def _rules_are_compiled() -> None:
    shared_redactor().wait()


def test_a_token_cut_over_pieces_is_never_shown_and_whole_lines_come_at_once():
    stream = shared_redactor().stream()
    assert stream.feed("starting up\n") == "starting up\n"
    shown = [stream.feed(piece) for piece in ("token ", TOKEN[:9], TOKEN[9:30], TOKEN[30:] + "\n", "done")]
    assert shown == ["", "", "", "token [REDACTED:github-pat]\n", ""]
    assert stream.finish() == "done"


def test_plain_words_of_an_unfinished_line_are_shown_at_once_and_it_stops_at_what_may_be_a_secret():
    stream = shared_redactor().stream()
    pieces = ("I am looking", " at the tables **carefully** and", " then its pas", "sword is Kd83", "!jskQ", "\n")
    assert [stream.feed(piece) for piece in pieces] == [
        *("I am ", "looking at the tables **carefully** ", "and then its ", "", ""),
        "password is [REDACTED:password]\n",
    ]
    assert [stream.feed(piece) for piece in ("Kd83!jskQ", " is the", " new password\n")] == [
        *("", ""),
        "[REDACTED:password] is the new password\n",
    ]


def test_a_line_that_announces_something_is_shown_before_what_it_announces():
    stream = shared_redactor().stream()
    assert stream.feed("Building wheels for these:\n") == "Building wheels for these:\n"
    assert stream.feed("Waiting for the token:\n") == "Waiting for the token:\n"
    assert stream.feed("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\n") == ""
    assert stream.feed("That was it.\n") == "[REDACTED:github-pat]\nThat was it.\n"


@pytest.mark.parametrize("size", [1, 20, 200])
@pytest.mark.parametrize("within", ["Kd83jskQ\nLmN047Tx", "Kd83jskQLmN047Tx\n", "Kd83jskQ\r\n  LmN047Tx\r\n"])
def test_a_value_of_markup_that_goes_on_in_the_next_line_is_hidden_in_a_stream_too(within, size):
    data = f"<login>\n  <user>ada</user>\n  <password>{within}</password>\n</login>\n".encode()
    stream = shared_redactor().byte_filter()
    shown = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.finish()
    assert shown == shared_redactor().redact(data.decode()).text.encode()
    assert b"Kd83" not in shown
    assert b"LmN0" not in shown


@pytest.mark.parametrize("size", [1, 7, 64])
def test_bytes_in_any_pieces_come_out_as_the_whole_does(size):
    text = (
        f"hello\nexport GITHUB_TOKEN={TOKEN}\n-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDKd83jskQ1LmN0\n" * 6
        + "-----END PRIVATE KEY-----\nパスワードはHanabi2024!です\n"
    )
    data = text.encode() + b"\xff\xfe raw\n"
    stream = shared_redactor().byte_filter()
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.finish()
    assert out == shared_redactor().redact(text).text.encode() + b"\xff\xfe raw\n"
    assert TOKEN.encode() not in out


def test_lines_that_are_looked_at_together_come_out_as_one_by_one(monkeypatch):
    chance = random.Random(20)
    texts = [one.text for one in (*SECRETS, *LOOK_ALIKES)]
    together = []

    def pieces(text: str) -> list[str]:
        cuts = sorted(chance.choices(range(len(text) + 1), k=chance.randrange(4)))
        return [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]

    def given(parts: list[str]) -> list[str]:
        stream = shared_redactor().stream()
        return [*(stream.feed(part) for part in parts), stream.finish()]

    for _ in range(150):
        plain = "".join(f"{number} of 9 files\n" for number in range(chance.randrange(9)))
        parts = pieces("\n".join((plain, *chance.choices(texts, k=2), plain)))
        with monkeypatch.context() as patched:
            patched.setattr(redactor, "_stand_alone", lambda _: False)
            one_by_one = given(parts)
        assert given(parts) == one_by_one
        together += [redactor._stand_alone(part) for part in parts]
    assert together.count(True) > 20


def test_until_the_rules_are_ready_a_stream_gives_out_what_is_harmless_and_holds_the_rest():
    ready = []
    stream = RedactedStream(lambda text: text.replace("Tr4ub0dor&9", "*"), lambda: bool(ready))
    assert stream.feed("hello there\n") == "hello there\n"
    assert stream.feed("the password is Tr4ub0dor&9\n") == ""
    ready.append(True)
    assert stream.feed("hello again\n") == "the password is *\nhello again\n"


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("utf-8", "grüße"),
        ("utf-8-sig", "grüße"),
        ("utf-16", "grüße"),
        ("utf-16-be", "hello"),
        ("utf-32", "grüße"),
        ("cp1252", "grüße – “ja”"),
        ("shift_jis", "これは設定ファイルです。接続先のサーバーを書きます。"),
        ("gb18030", "这是我们的配置文件，请不要修改其中的内容。"),
        ("euc_jp", "これは設定ファイルです。接続先のサーバーを書きます。"),
    ],
)
def test_a_file_is_written_back_in_the_encoding_it_has(encoding, word):
    text = f"# {word}\npassword = Kd83!jskQ\n"
    done = shared_redactor().redact_file(text.encode(encoding), "app.conf")
    assert done.data is not None
    assert done.data.decode(encoding) == f"# {word}\npassword = [REDACTED:password]\n"
    assert done.kinds == ("password",)


def test_media_are_copied_and_what_cannot_be_looked_into_is_left_out_with_a_reason():
    redactor = shared_redactor()
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    assert redactor.redact_file(picture, "a.png").data == picture
    for data, name in ((gzip.compress(b"x"), "a.gz"), (b"PK\x03\x04rest", "a.docx"), (bytes(range(256)) * 4, "a.bin")):
        left = redactor.redact_file(data, name)
        assert left.data is None
        assert left.reason


@pytest.mark.parametrize(
    "begin", ["ID3 tags are ", "GIF89a\n", "%PDF-1.4\n", "RIFF0000WAVE\n", "....ftyp\n", "#!AMR\n", "icns\n"]
)
def test_a_note_that_begins_like_a_medium_is_a_note(begin):
    done = shared_redactor().redact_file(f"{begin}\npassword = Kd83!jskQ\n".encode(), "note.md")
    assert done.data == f"{begin}\npassword = [REDACTED:password]\n".encode()


@pytest.mark.parametrize(
    "begin", [b"\x89PNG\r\n\x1a\n\x00\x00", b"\xff\xd8\xff\xe0", b"ID3\x04\x00\x00", b"%PDF-1.7\n%\xe2\xe3"]
)
def test_a_medium_in_which_a_secret_stands_legibly_is_left_out(begin):
    left = shared_redactor().redact_file(begin + b"\x00\x01\n\npassword = Kd83!jskQ\n\x00\xff\x00", "picture")
    assert left.data is None
    assert "legibly" in left.reason


def test_a_plain_value_of_yaml_stays_one_text():
    text = b"password: Kd83!jskQ  # of the db\nlist: [a, Kd]\n"
    done = shared_redactor().redact_file(text, "app.yaml")
    assert done.data is not None
    assert yaml.safe_load(done.data) == {"password": "[REDACTED:password]", "list": ["a", "Kd"]}
    assert b"# of the db" in done.data
