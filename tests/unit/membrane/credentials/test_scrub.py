import base64
import json
import re
import time
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

TOKEN = 'gh/s_Zx9+"Qk7é&T2=w'
DATA = TOKEN.encode()
LONG = "eyJhbGciOiJSUzI1NiJ9." + "aB3" * 200
PEM = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEF
AASCBKcwggSjAgEAAoIBAQC7VJTU
-----END PRIVATE KEY-----
"""


def scrubber(*values: str) -> Scrubber:
    secrets = [Secret(value) for value in values]
    return Scrubber(lambda: secrets)


def in_pieces(scrub: Scrubber, text: str, cuts: list[int]) -> str:
    stream = scrub.stream()
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    shown = [stream.feed(text[start:end]) for start, end in pairwise(places)]
    return "".join(shown) + stream.finish()


FORMS = {
    "plain": TOKEN,
    "hex": DATA.hex(),
    "HEX": DATA.hex().upper(),
    "hex with colons": DATA.hex(":"),
    "json": json.dumps(TOKEN)[1:-1],
    "json, not ascii": json.dumps(TOKEN, ensure_ascii=False)[1:-1],
    "json in json": json.dumps(json.dumps(TOKEN)[1:-1])[1:-1],
    "url": quote(TOKEN, safe=""),
    "url, small": re.sub("%..", lambda found: found[0].lower(), quote(TOKEN, safe="")),
    "form": quote_plus(TOKEN),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_usual_form_is_hidden(form: str) -> None:
    text = f"before {FORMS[form]} after"
    shown = scrubber(TOKEN).scrub(text)
    assert shown == f"before {HIDDEN} after"


@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
def test_base64_of_a_text_around_it_is_hidden(alphabet: object, before: str, after: str) -> None:
    assert callable(alphabet)
    encoded = alphabet(before.encode() + DATA + after.encode()).decode()
    shown = scrubber(TOKEN).scrub(f"Authorization: Basic {encoded}")
    assert HIDDEN in shown
    assert len(shown) < len("Authorization: Basic ") + len(HIDDEN) + 15, "at most the digits that others share are left"


def test_base64_that_a_tool_has_wrapped_is_hidden() -> None:
    wrapped = base64.encodebytes(LONG.encode()).decode()
    assert wrapped.count("\n") > 5
    shown = scrubber(LONG).scrub(f"begin\n{wrapped}end\n")
    assert shown.startswith(f"begin\n{HIDDEN}")
    assert shown.endswith("end\n")
    assert not any(line and line in shown for line in wrapped.split("\n")[:-2])


def test_a_secret_of_many_lines_is_hidden_whole_and_line_by_line() -> None:
    scrub = scrubber(PEM)
    assert "MIIE" not in scrub.scrub(f"x\n{PEM}y")
    assert "MIIE" not in scrub.scrub(PEM.replace("\n", "\r\n"))
    assert scrub.scrub("key: MIIEvQIBADANBgkqhkiG9w0BAQEF;") == f"key: {HIDDEN};"
    assert HIDDEN in scrub.scrub(json.dumps({"key": PEM}))
    assert scrub.scrub("-----BEGIN PRIVATE KEY-----\n") == "-----BEGIN PRIVATE KEY-----\n"


def test_text_without_a_secret_is_left_alone() -> None:
    text = "a\nb\r\n\n gh/s_Zx9 \x1b[0m é " * 20
    assert scrubber(TOKEN).scrub(text) == text
    assert scrubber().scrub(text) == text
    assert scrubber("abc", "").scrub("abc abc") == "abc abc", "too short to be told from words"


def test_secrets_that_overlap_are_hidden_together() -> None:
    assert scrubber("abcdefgh", "fghijklm").scrub("1 abcdefghijklm 2") == f"1 {HIDDEN} 2"
    assert scrubber("abcdefgh", "cdef").scrub("abcdefgh cdef") == f"{HIDDEN} {HIDDEN}"


@given(st.lists(st.integers(0, 10_000), max_size=12), st.sampled_from(sorted(FORMS)), st.text(max_size=30))
def test_wherever_the_text_is_cut_the_result_is_the_same(cuts: list[int], form: str, around: str) -> None:
    scrub = scrubber(TOKEN, "fghijklm")
    text = f"{around}{FORMS[form]}{around}\nfgh{FORMS[form]}fghijkl\nm"
    whole = scrub.scrub(text)
    pieces = in_pieces(scrub, text, cuts)
    assert TOKEN not in pieces
    assert FORMS[form] not in pieces.replace("\n", "")
    assert pieces == whole


def test_one_character_at_a_time_hides_it_too() -> None:
    text = f"a {TOKEN} b {base64.b64encode(DATA).decode()} c\n"
    assert in_pieces(scrubber(TOKEN), text, list(range(len(text)))) == scrubber(TOKEN).scrub(text)


@pytest.mark.parametrize(("other", "between"), [("=later", "=\n"), ("été-later", "=\r\n"), ("€later", "│")])
def test_what_breaks_a_secret_may_begin_another_one(other: str, between: str) -> None:
    scrub = scrubber(TOKEN, other)
    shown = b""
    stream = scrub.filter()
    for byte in f"a {TOKEN[:9]}{between}{TOKEN[9:]} b".encode():
        shown += stream.feed(bytes([byte]))
    assert (shown + stream.finish()).decode() == f"a {HIDDEN} b"


def test_only_what_might_be_the_beginning_of_a_secret_is_held_back() -> None:
    stream = scrubber("SECRET-VALUE-1").stream()
    assert stream.feed("$ ") == "$ "
    assert stream.feed("line ending in S\n") == "line ending in S\n"
    assert stream.feed("SECRET-") == ""
    assert stream.feed("free\n") == "SECRET-free\n"
    assert stream.feed("SECR") == ""
    assert stream.finish() == "SECR"
    assert stream.finish() == ""


def test_a_secret_that_came_later_counts_from_then_on() -> None:
    secrets = [Secret("first-secret")]
    scrub = Scrubber(lambda: secrets)
    stream = scrub.stream()
    assert stream.feed("second-secret ") == "second-secret "
    secrets.append(Secret("second-secret"))
    assert stream.feed("second-secret ") == f"{HIDDEN} "


def test_twice_scrubbed_is_once_scrubbed() -> None:
    scrub = scrubber(TOKEN, LONG)
    once = scrub.scrub(f"{TOKEN}{LONG}x{TOKEN}")
    assert scrub.scrub(once) == once == f"{HIDDEN}{HIDDEN}x{HIDDEN}"


@pytest.mark.parametrize(
    "line", ["nothing of interest in this line\n", LONG[:-1] + "\n", LONG[:300], "e" * 50, LONG + "\n"]
)
def test_hostile_text_takes_no_longer_than_in_proportion(line: str) -> None:
    """Ten times the text takes no more than some forty times as long, so it is not quadratic."""
    scrub = scrubber(LONG, TOKEN)

    def seconds(size: int) -> float:
        text = line * (size // len(line))
        stream = scrub.stream()
        began = time.process_time()
        for start in range(0, len(text), 8192):
            stream.feed(text[start : start + 8192])
        stream.finish()
        return time.process_time() - began

    small = max(seconds(50_000), 0.002)
    assert any(seconds(500_000) < 40 * small for _ in range(3))


@pytest.mark.parametrize(
    "shown",
    [
        "s3cr3t-värdet-längre",
        "s3cr3t-v\\xe4rdet-l\\xe4ngre",
        "s3cr3t-vÃ¤rdet-lÃ¤ngre",
    ],
)
def test_a_secret_that_is_not_ascii_is_hidden_as_programs_write_it(shown: str):
    scrubber = Scrubber(lambda: [Secret("s3cr3t-värdet-längre")])
    assert scrubber.scrub(f"it is {shown}!") == "it is (hidden)!"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_secret_that_is_not_ascii_is_hidden_in_the_encodings_of_programs(encoding: str):
    scrubber = Scrubber(lambda: [Secret("s3cr3t-värdet-längre")])
    stream = scrubber.filter()
    data = "it is s3cr3t-värdet-längre!".encode(encoding)
    assert stream.feed(data) + stream.finish() == b"it is (hidden)!"
