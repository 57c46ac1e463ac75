"""Texts from a terminal or a page: colours, links, overstrikes and invisible letters hide nothing and stay."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, strategies as st

from kagura_kernel.domain.kit import MARKER
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.visible import as_shown, without_prefixes
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


def test_a_token_whose_last_letter_is_put_over_is_still_one():
    assert redact(f"{TOKEN}\b- made\n") == "[REDACTED:github-pat]\b- made\n"


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


# Many examples beside other work take longer than one test usually may.

Prefix = Callable[[int], str]
PREFIXES: dict[str, Prefix] = {
    "a mail": lambda _: "> ",
    "a mail in a mail": lambda _: ">> ",
    "an added line": lambda _: "+",
    "a removed line": lambda _: "-",
    "a line of a diff that stays": lambda number: " " if number else "+",
    "grep": lambda number: f"deploy/app.conf:{number + 12}:",
    "grep of one file": lambda number: f"{number + 7}:",
    "cat -n": lambda number: f"{number + 1:6}\t",
    "a listing": lambda number: f"{number + 98:6}→",
    "bat": lambda number: f"{number + 1:4} │ ",
    "a time": lambda number: f"2026-03-04T11:02:{number % 60:02}.123Z ",
    "a time and a level": lambda number: f"2026-03-04 11:02:{number % 60:02},123 INFO  ",
    "a time in brackets": lambda number: f"[11:02:{number % 60:02}] [worker-3] ",
    "syslog": lambda number: f"Mar  4 11:02:{number % 60:02} web-1 app[4121]: ",
    "a log of Kubernetes": lambda number: f"I0304 11:02:{number % 60:02}.123456    4121 server.go:81] ",
    "a pod": lambda _: "[pod/web-7d9f8-x2k4l/app] ",
    "a container's log": lambda number: f"2026-03-04T11:02:{number % 60:02}.123456789Z stdout F ",
    "compose": lambda _: "web_1  | ",
    "a job": lambda number: f"build\tRun tests\t2026-03-04T11:02:{number % 60:02}.1234567Z ",
    "a comment": lambda _: "# ",
    "a comment with slashes": lambda _: "// ",
    "a comment with stars": lambda _: " * ",
    "a box": lambda _: "│ ",
}
PREFIX = st.sampled_from(sorted(PREFIXES))
SINGLE = st.sampled_from([one for one in SECRETS if all("\n" not in piece for piece in one.pieces)])
BODY = "\n".join("MIIEpAIBAAKCAQEA7v1Kd83jskQ1LmN0pQrStUvWxYz01234kd93jdAbCdEfGh" + letter for letter in "ABCDEFGH")
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\n"
LONG = [
    pytest.param(KEY, BODY.split("\n"), id="a key"),
    pytest.param(f"(from the page before)\n{BODY}\n-----END RSA PRIVATE KEY-----\n", BODY.split("\n"), id="a cut key"),
    pytest.param("password: |\n  Kd83!jskQ\nuser: app\n", ["Kd83!jskQ"], id="a block of YAML"),
    pytest.param(
        "kind: Secret\nmetadata:\n  name: x\ndata:\n  a: a2QzamRrcTE=\n  b: WngyOWRrIXE=\n",
        ["a2QzamRrcTE=", "WngyOWRrIXE="],
        id="a manifest",
    ),
    pytest.param("machine api.host\n  login bob\n  password kd93mslq\n", ["kd93mslq"], id="a netrc"),
    pytest.param("- name: DB_PASSWORD\n  value: Kd83jskQ\n", ["Kd83jskQ"], id="a pair"),
    pytest.param(
        'token = (\n    "ghp_wWPw5k4aXcaT4f"\n    "NP0UcnZwJUVFk6LO0pINUx"\n)\n',
        ["ghp_wWPw5k4aXcaT4f", "NP0UcnZwJUVFk6LO0pINUx"],
        id="literals",
    ),
    pytest.param("Recovery codes:\n\n8kd3-92ks\nx9d2-k3lq\n", ["8kd3-92ks", "x9d2-k3lq"], id="codes"),
]


def prefixed(text: str, prefix: Prefix) -> str:
    return "".join(prefix(number) + line for number, line in enumerate(text.splitlines(keepends=True)))


def keeps_its_prefixes(text: str, left: str, prefix: Prefix) -> bool:
    """Whether there are as many lines as before, each behind its own prefix."""
    lines = left.splitlines()
    return len(lines) == len(text.splitlines()) and all(
        line.startswith(prefix(number).rstrip()) for number, line in enumerate(lines)
    )


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize(("text", "secrets"), LONG)
def test_a_secret_of_many_lines_is_gone_and_what_stands_before_each_line_stays(text, secrets, name):
    left = redact(prefixed(text, PREFIXES[name]))
    assert [secret for secret in secrets if secret in left] == []
    assert keeps_its_prefixes(text, left, PREFIXES[name])
    assert redact(left) == left


@EXAMPLES
@given(SINGLE, PREFIX)
def test_a_prefix_hides_no_secret_and_is_not_taken_with_it(planted, name):
    left = redact(prefixed(planted.text, PREFIXES[name]))
    assert keeps_its_prefixes(planted.text, left, PREFIXES[name])
    assert gone(planted, left) or not gone(planted, redact(planted.text))


@pytest.mark.parametrize(
    "text",
    [
        "# Passwords\n\nThe password must be at least 8 characters long.\n",
        "> how do I reset my password?\n> the token has expired\nUse the link.\n",
        "+    def login(user: str, password: str) -> None:\n-    def login(user: str, token: str) -> None:\n",
        "12:password=changeme\n13:token=${TOKEN}\n",
        "2026-03-04 11:02:51 INFO  the password of ada was changed\n2026-03-04 11:02:52 INFO  token refreshed\n",
        "| name | password |\n|---|---|\n| ada | (none) |\n",
    ],
)
def test_prefixes_make_no_secret_of_what_is_none(text):
    assert redact(text) == text


def test_codes_that_look_like_numbers_of_lines_go_whole():
    left = redact("Recovery codes:\n1234-8kd3\n5678-x9d2\n9012-p3lq\n")
    assert left == "Recovery codes:\n" + "[REDACTED:recovery-code]\n" * 3


def test_only_blocks_that_say_something_are_looked_at_again():
    data = b"# a note\n# of two lines\nx = 1\n# the password\n# is here\n"
    found = without_prefixes(data, [(0, len(data))])
    assert found is not None
    assert found.view.data.startswith(b"the password\nis here\n")
    assert without_prefixes(b"x = 1\npassword = 2\n", [(0, 19)]) is None


def test_a_block_is_followed_over_a_key_and_no_further():
    tail = "web_1  | and then the next request came in\n" * 300
    data = (prefixed(KEY, PREFIXES["compose"]) + tail).encode()
    found = without_prefixes(data, [(0, data.find(b"\n") + 1)])
    assert found is not None
    assert BODY.encode() in found.view.data
    assert found.view.data.count(b"next request") < 150


# Many examples beside other work take longer than one test usually may.

EXAMPLES_OF_FORMS_TWICE = examples(
    100,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
CORPUS = [*(one.text for one in SECRETS), *(one.text for one in LOOK_ALIKES)]
PREFIX_OF_FORMS_TWICE = st.sampled_from(
    [
        "> ",
        "+",
        "-",
        "# ",
        "12:",
        "app.conf:3:",
        "     7\t",
        "2026-03-04T11:02:51Z ",
        "web_1  | ",
        "[pod/x] ",
        "│ ",
        "  ",
    ]
)


def prefixed_of_forms_twice(text: str, prefix: str) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))


def coloured(text: str) -> str:
    return re.sub(r"\S{6,}", lambda found: f"\x1b[32m{found[0][:4]}\x1b[1m{found[0][4:]}\x1b[0m", text)


def in_json(text: str, indent: int | None) -> str:
    return json.dumps({"source": text.splitlines(keepends=True), "password": text, "x": [text]}, indent=indent)


@st.composite
def combined(draw: st.DrawFn) -> str:
    """One text of the corpus or two, each in up to three carriers, one in the other."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        text = CORPUS[draw(st.integers(0, len(CORPUS) - 1))]
        for carrier in draw(st.lists(st.sampled_from(["prefix", "colour", "json"]), max_size=3)):
            if carrier == "prefix":
                text = prefixed_of_forms_twice(text, draw(PREFIX_OF_FORMS_TWICE))
            else:
                text = coloured(text) if carrier == "colour" else in_json(text, draw(st.sampled_from([None, 1])))
        parts.append(text)
    return "\n".join(parts)


@EXAMPLES_OF_FORMS_TWICE
@given(combined())
def test_redacting_again_changes_nothing_however_a_text_is_carried(text):
    done = shared_redactor().redact(text)
    assert shared_redactor().redact(done.text).text == done.text
    assert done.text.count("\n") == text.count("\n")
    assert len(done.findings) == len(MARKER.findall(done.text)) - len(MARKER.findall(text))


@EXAMPLES_OF_FORMS_TWICE
@given(combined())
def test_a_text_that_changes_has_a_marker_more(text):
    done = shared_redactor().redact(text)
    assert (done.text == text) is (not done.findings)
