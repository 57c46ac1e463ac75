"""Long texts are looked through in parts, in two threads and by several patterns at once; nothing of that may show."""

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.patterns import BETWEEN, Lazy, Nearby, Text
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.redaction.rules import assignments, keys
from kagura_kernel.kit.redaction.spans import Span
from tests.bench.redaction import LETTERS, hostile_texts
from tests.support.redactors import shared_redactor

LINE = "2026-03-04 11:02:51 INFO  worker 7 took order 48211 from the queue in 14 ms and wrote 3 rows\n"
SECRETS = (
    "postgres://app:S3cretPw1@db/x\n",
    "sshpass -p tigerlily ssh u@h\n",
    "machine api.host\n  login bob\n  password kd93mslq\n",
    "requirepass kD93jdkQ2\n",
    "the staging password is Tr4ub0dor&9\n",
    'token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"\n',
    "auth: Z2l0aHViX3Rva2VuID0gZ2hwX3dXUHc1azRhWGNhVDRmTlAwVWNuWndKVVZGazZMTzBwSU5VeA==\n",
)
PATTERNS = tuple(
    kind(text)
    for kind in (Lazy, Nearby)
    for text in (
        r"(?:^|\n)kagura-head\d+",
        r"\bkagura-word[a-z]*\b",
        r"[^\w]kagura-behind\d",
        r"kagura-open[a-z (\n]{0,100}\{[a-z]*\}",
        r"kagura-end[ \t]*(?:\n|$)",
        r"[0-9]{9,}",
        r"(kagura)-(group)(s?)",
        r"kagura-(?:last|least)\d?",
    )
)
PIECES = (
    b"kagura-head1", b"\nkagura-head22", b" kagura-word ", b"kagura-wordy", b".kagura-behind3", b"kagura-open(a\n{b}",
    b"{b}", b"kagura-end  \n", b"kagura-end", b"123456789", b"12345678901", b"kagura-groups", b"kagura-least4",
    BETWEEN, b"\n", b" ",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_a_pattern_finds_the_same_in_a_text_that_is_looked_through_in_parts_as_in_all_of_it(seed):
    chance = random.Random(seed)
    filler = bytes(chance.choices(b"abc def\n", k=400))
    data = b"".join(chance.choice(PIECES) + filler[: chance.randrange(400)] for _ in range(600))
    for _ in range(2):
        text = Text.of(data)
        for pattern in PATTERNS:
            within = [(found.start(), found.end()) for found in pattern.finditer(text)]
            assert within == [(found.start(), found.end()) for found in pattern.finditer(data)]
            assert within


def test_a_secret_in_a_long_text_is_marked_as_it_is_in_a_short_one():
    redactor = shared_redactor()
    filler = LINE * 300
    long = "".join(filler + secret for secret in SECRETS) + filler
    assert len(long) > 3 * 64 * 1024
    clean = [redactor.redact(secret).text for secret in SECRETS]
    assert not [one for one, secret in zip(clean, SECRETS, strict=True) if one == secret]
    assert redactor.redact(long).text == "".join(filler + one for one in clean) + filler


def test_what_stands_in_a_text_again_and_again_is_marked_each_time():
    part = LINE * 9 + SECRETS[4] + LINE * 9 + "api_key = 'a8Kd93jsLq02mxZ7'\n" + LINE * 9
    redactor = shared_redactor()
    once = redactor.redact(part)
    again = redactor.redact(part * 60)
    assert len(once.findings) == 2
    assert again.text == once.text * 60
    assert [finding.kind for finding in again.findings] == [finding.kind for finding in once.findings] * 60


def test_a_signature_beside_a_secret_is_no_key_when_the_text_around_the_secret_is_looked_at_again():
    chance = random.Random(4)
    lines = ["".join(chance.choices(LETTERS, k=64)) + "\n" for _ in range(9)]
    signed = f"-----BEGIN PGP SIGNATURE-----\n\n{''.join(lines)}-----END PGP SIGNATURE-----\n"
    text = f"{LINE * 900}{signed}login 4711 password = Tr4ub0dor&9\n{signed}{LINE * 9}"
    assert shared_redactor().redact(text).text == text.replace("Tr4ub0dor&9", "[REDACTED:password]")


@dataclass(frozen=True)
class _Known:
    """What the scanner library gives for one token."""

    location: dict[str, int]
    rule_id: str = "own.example-token"


class _Library:
    """Finds every `tok_` and the letters behind it, however many it is shown."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def scan(self, data: bytes) -> list[_Known]:
        self.shown.append(len(data))
        found: list[_Known] = []
        at = data.find(b"tok_")
        while at >= 0:
            found.append(_Known({"start_offset": at, "end_offset": at + 24}))
            at = data.find(b"tok_", at + 1)
        return found


def test_the_library_is_shown_a_long_text_in_pieces_and_what_stands_on_their_borders_is_found_once():
    token = b"tok_x7Kd83jskQ1LmN0pQrSt"
    data = b"".join(b"%s and %s\n" % (token, b"word " * (number % 40)) for number in range(3000))
    library = _Library()
    spans = list(engine._spans(library, data))
    assert [span.start for span in spans] == [found.location["start_offset"] for found in _Library().scan(data)]
    assert {data[span.start : span.end] for span in spans} == {token}
    assert max(library.shown) < 80 * 1024
    assert sum(library.shown) < 1.3 * len(data)


def test_a_line_without_end_is_shown_in_pieces_too():
    data = b"tok_x7Kd83jskQ1LmN0pQrSt;" * 12000
    library = _Library()
    assert len(list(engine._spans(library, data))) == 12000
    assert max(library.shown) < 80 * 1024


def test_a_long_text_is_not_shown_either_when_the_scanner_cannot_be_had(monkeypatch):
    def broken(_: object) -> None:
        raise OSError

    monkeypatch.setattr(engine, "scanner", broken)
    with pytest.raises(RedactionUnavailable):
        Redactor(None).redact((LINE * 1000) + SECRETS[0])


def test_each_string_of_a_document_is_judged_by_itself_though_all_are_looked_through_at_once():
    notes = [f"line {number}\nTOKEN=9dk3kd02kd9slq1mz{number}\n" for number in range(10, 40)]
    document = {"notes": [{"text": note, "tail": "a\tb"} for note in notes]}
    after = json.loads(shared_redactor().redact(json.dumps(document)).text)
    assert [one["text"] for one in after["notes"]] == [
        f"line {number}\nTOKEN=[REDACTED:token]\n" for number in range(10, 40)
    ]
    assert {one["tail"] for one in after["notes"]} == {"a\tb"}


def test_wide_lines_without_a_frame_are_judged_once_for_all_of_them(monkeypatch):
    chance = random.Random(4)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = "the rest was\n" + "".join("".join(chance.choices(letters, k=64)) + "\n" for _ in range(2000))
    walked: list[int] = []
    body = keys._body

    def counting(data: bytes, at: int) -> list[Span]:
        walked.append(at)
        return body(data, at)

    monkeypatch.setattr(keys, "_body", counting)
    spans = list(keys.find_keys(text.encode()))
    assert len(walked) < 10
    assert sum(span.end - span.start for span in spans) > 0.99 * 64 * 2000


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many functions are called in this thread."""
    calls = [0]

    def count(_: FrameType, event: str, __: object) -> None:
        calls[0] += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


SMALL = 12 * 1024


@pytest.mark.parametrize("name", hostile_texts(64))
def test_four_times_the_text_is_at_most_five_times_the_work(name):
    redactor = shared_redactor()
    work = []
    for size in (SMALL, 4 * SMALL):
        text = hostile_texts(size)[name]
        redactor.redact(text)
        with counted() as calls:
            redactor.redact(text)
        work.append(calls[0])
    assert work[1] <= 5 * work[0] + 2000


class _Counted:
    """A pattern that counts the bytes it has gone through to what it found."""

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern
        self.bytes = 0

    def search(self, *arguments: Any) -> Any:
        return self._found(self._pattern.search(*arguments))

    def match(self, *arguments: Any) -> Any:
        return self._found(self._pattern.match(*arguments))

    def _found(self, found: Any) -> Any:
        self.bytes += 0 if found is None else found.end() - found.start()
        return found


@pytest.mark.parametrize("unit", ["mnemonic,", "userPassword:${X}a/b.py:12:-H"])
def test_a_word_without_end_that_is_full_of_names_is_not_read_to_its_end_for_each(monkeypatch, unit):
    patterns = [_Counted(assignments._ASSIGNED), _Counted(assignments._ASSIGNED_SOMEWHERE)]
    monkeypatch.setattr(assignments, "_ASSIGNED", patterns[0])
    monkeypatch.setattr(assignments, "_ASSIGNED_SOMEWHERE", patterns[1])
    redactor = shared_redactor()
    work = []
    for size in (SMALL, 4 * SMALL):
        before = sum(one.bytes for one in patterns)
        redactor.redact(unit * (size // len(unit)))
        work.append(sum(one.bytes for one in patterns) - before)
    assert 0 < work[1] <= 5 * work[0]


def test_a_value_behind_a_long_word_of_names_is_found() -> None:
    redactor = shared_redactor()
    for names in ("token," * 700, "PASSWORD=${X}" * 300):
        for more in (".", ".a" * 255, ".a" * 256):
            text = f'{names}{more}.db_password = "Zk4!mp9QqLw"\napi_key = "a8Kd93jsLq02mxZ7"\n'
            clean = redactor.redact(text).text
            assert "Zk4!mp9QqLw" not in clean
            assert "a8Kd93jsLq02mxZ7" not in clean
