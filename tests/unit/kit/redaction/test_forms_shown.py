"""Texts from a terminal or a page: colours, links, overstrikes and invisible letters hide nothing and stay."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kagura_kernel.kit.redaction.places import Span
from kagura_kernel.kit.redaction.visible import as_shown
from tests.support.effort import examples
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS
from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.judging import gone
from tests.support.redactors import shared_redactor

# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    80,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
COLOURS = ("\x1b[31m", "\x1b[0m", "\x1b[1;4m", "\x1b[38;5;208m", "\x1b[K")
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
TOKEN = "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"


def redact(text: str) -> str:
    return shared_redactor().redact(text).text


def strewn(text: str, what: tuple[str, ...], seed: int) -> str:
    """The text with these put behind every tenth or so of its letters."""
    digits = Chance(seed).digits(2 * len(text))
    return "".join(
        letter + (what[int(digits[2 * at + 1]) % len(what)] if letter.isalnum() and digits[2 * at] == "7" else "")
        for at, letter in enumerate(text)
    )


CARRIERS: dict[str, Callable[[str, int], str]] = {
    "colours between and in words": lambda text, seed: strewn(text, COLOURS, seed),
    "zero-width spaces": lambda text, seed: strewn(text, ("\u200b", "\u2060"), seed),
    "soft hyphens": lambda text, seed: strewn(text, ("\u00ad",), seed),
    "bold by overstriking": lambda text, _: re.sub(r"[A-Za-z0-9]", r"\g<0>\b\g<0>", text),
    "underlined by overstriking": lambda text, _: re.sub(r"[A-Za-z0-9]", "_\b\\g<0>", text),
    "no-break spaces": lambda text, _: re.sub(r" ?([=:]) (?=\S)", lambda found: found[0].replace(" ", "\u00a0"), text),
    "carriage returns": lambda text, _: text.replace("\n", "\r"),
    "zeros for line ends": lambda text, _: text.replace("\n", "\0"),
}


def shown(text: str) -> str:
    """What a reader sees of it."""
    view = as_shown(text.encode())
    return text if view is None else view.data.decode()


PLANTED = st.sampled_from([one for one in SECRETS if one.form not in {"json", "ipynb"}])


@EXAMPLES
@given(PLANTED, st.sampled_from(sorted(CARRIERS)), st.integers(0, 99))
def test_a_secret_is_gone_however_it_is_shown(planted, carrier, seed):
    left = redact(CARRIERS[carrier](planted.text, seed))
    assert gone(planted, shown(left)) or not gone(planted, redact(planted.text))
    assert redact(left) == left


@EXAMPLES
@given(PLANTED, st.integers(0, 99))
def test_no_colour_is_lost(planted, seed):
    text = strewn(planted.text, COLOURS, seed)
    left = redact(text)
    assert COLOUR.findall(left) == COLOUR.findall(text)
    assert left.count("\n") == text.count("\n")


@EXAMPLES
@given(st.sampled_from(LOOK_ALIKES), st.integers(0, 99))
def test_colours_make_no_secret_of_a_look_alike(one, seed):
    text = strewn(one.text, COLOURS, seed)
    assert redact(text) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\x1b[31mtoken\x1b[0m=\x1b[32mKd83jskQ2x\x1b[0m\n", "\x1b[31mtoken\x1b[0m=\x1b[32m[REDACTED:token]\x1b[0m\n"),
        ("pass\x1b[1mword\x1b[0m: Kd83!\x1b[4mjskQ\x1b[0m end", None),
        ("5%\rpassword: Kd83!jskQ\rdone\r\n", "5%\rpassword: [REDACTED:password]\rdone\r\n"),
        ("A=1\0DB_PASSWORD=Kd83!jskQ\0B=2\0", "A=1\0DB_PASSWORD=[REDACTED:password]\0B=2\0"),
        ("password\u00a0=\u00a0Kd83!jskQ\n", "password\u00a0=\u00a0[REDACTED:password]\n"),
        (
            "\x1b]8;;https://ada:Kd83jskQ@example.com/\x1b\\the page\x1b]8;;\x1b\\\n",
            "\x1b]8;;https://ada:[REDACTED:uri-password]@example.com/\x1b\\the page\x1b]8;;\x1b\\\n",
        ),
    ],
)
def test_what_is_shown_decides_and_what_is_not_stays(before, after):
    left = redact(before)
    assert left == (after or "pass\x1b[1mword\x1b[0m: [REDACTED:password]\x1b[4m[REDACTED:password]\x1b[0m end")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\x1b[31mb\x1b[0mc", "abc"),
        ("p\bpa\bas\bs _\bx", "pas x"),
        ("p\0a\0s\0s\0", "pass\n"),
        ("\x1b[10;20Hfoo\x1b[3Cbar", "\nfoo bar"),
        ("\x1b]0;title\x07hi", "hi\n\0\n0;title"),
        ("\x1b[?25l\x1b(Bx", "x"),
        ("pass\u200bword\u00ad=\u00a0x", "password= x"),
    ],
)
def test_a_text_is_seen_as_it_is_shown(text, seen):
    assert shown(text) == seen


@pytest.mark.parametrize("text", ["plain\n", "a\r\nb\r\n", "naïve – “quoted”\n", "a\n\0\nb", "\x1b[31"])
def test_a_text_that_hides_nothing_is_not_gone_through_again(text):
    assert as_shown(text.encode()) is None


@EXAMPLES
@given(st.lists(st.sampled_from([*COLOURS, "ab", "\n", "\r", "\0", "\b", "x\by"]), max_size=12))
def test_every_letter_that_is_seen_maps_back_to_where_it_stands(pieces):
    data = "".join(pieces).encode()
    view = as_shown(data)
    for at in range(len(view.data) if view else 0):
        assert view is not None
        for one in view.outside([Span(at, at + 1, "x")]):
            assert view.data[at : at + 1] == data[one.end - 1 : one.end]


def test_a_stream_with_colours_holds_a_key_to_its_end():
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDKd83jskQ1LmN0"
    lines = ["-----BEGIN PRIVATE KEY-----", *([body] * 60), "-----END PRIVATE KEY-----"]
    stream = shared_redactor().stream()
    out = "".join(stream.feed(f"\x1b[2mweb_1  |\x1b[0m {line}\n") for line in lines) + stream.finish()
    assert body not in out
    assert out.count("\x1b[2mweb_1  |\x1b[0m ") == len(lines)
    assert out.count("\n") == len(lines)
