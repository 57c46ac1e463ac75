import base64
import html
import json
import pprint
import quopri
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.needles import needles
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

AWKWARD = "p&ss<w>rd+\"q'2/x=yyyZyyyWyy\\K`8"
TOKEN = "ghs_16C7e42F292c6912E7710c838347Ae178B4aXYZ0"


def scrubber(*values: str) -> Scrubber:
    secrets = [Secret(value) for value in values]
    return Scrubber(lambda: secrets)


def escaped(signs: str, digits: str) -> Callable[[str], str]:
    names = {ord(sign): f"\\u{ord(sign):{digits}}" for sign in signs}
    return lambda value: json.dumps(value)[1:-1].replace('\\"', '"' if '"' in signs else '\\"').translate(names)


def marked_up(**names: str) -> Callable[[str], str]:
    table = {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {"'\"+"[int(key[1:])]: name for key, name in names.items()}
    return lambda value: value.translate({ord(sign): name for sign, name in table.items()})


def bytes_of(value: str, glue: str, form: str) -> str:
    return glue.join(form.format(byte) for byte in value.encode())


WRITERS: dict[str, Callable[[str], str]] = {
    "Go's JSON": escaped("&<>", "04x"),
    "JSON for web pages": escaped("&<>'", "04x"),
    ".NET's JSON": escaped("&<>'\"+`", "04X"),
    "JSON in JSON": lambda value: json.dumps(json.dumps(value)),
    "JSON with slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "HTML": html.escape,
    "HTML text": lambda value: html.escape(value, quote=False),
    "HTML of HTML": lambda value: html.escape(html.escape(value)),
    "Go's HTML": marked_up(q0="&#39;", q1="&#34;"),
    "Go's templates": marked_up(q0="&#39;", q1="&#34;", q2="&#43;"),
    "XML": marked_up(q0="&apos;", q1="&quot;"),
    "PHP's HTML": marked_up(q0="&#039;", q1="&quot;"),
    "HTML by number": lambda value: "".join(sign if sign.isalnum() else f"&#{ord(sign)};" for sign in value),
    "HTML by hexadecimal number": lambda value: "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in value),
    "a shell's word": shlex.quote,
    "a shell's trace": lambda value: "+ X='" + value.replace("'", "'\\''") + "'",
    "a shell's word, sign by sign": lambda value: re.sub(r"(\W)", r"\\\1", value),
    "Python's repr": repr,
    "Python's bytes": lambda value: repr(value.encode()),
    "quoted-printable": lambda value: quopri.encodestring(value.encode(), quotetabs=True).decode(),
    "large hexadecimal with colons": lambda value: value.encode().hex(":").upper(),
    "small hexadecimal with blanks": lambda value: value.encode().hex(" "),
    "hexadecimal of a string": lambda value: bytes_of(value, "", "\\x{:02x}"),
    "large hexadecimal of a string": lambda value: bytes_of(value, "", "\\x{:02X}"),
    "an array in C": lambda value: bytes_of(value, ", ", "0x{:02x}"),
    "a list of bytes": lambda value: str(list(value.encode())),
    "a list of bytes, a line each": lambda value: pprint.pformat(list(value.encode())),
    "percent": lambda value: quote(value, safe="").lower(),
    "UTF-16, the small end first": lambda value: value.encode("utf-16-le").decode("latin-1"),
    "UTF-16, the large end first": lambda value: value.encode("utf-16-be").decode("latin-1"),
    "base64 of UTF-16": lambda value: base64.b64encode(value.encode("utf-16-le")).decode(),
    "base64 of UTF-16 within": lambda value: base64.b64encode(f"$x='{value}';".encode("utf-16-be")).decode(),
}


@pytest.mark.parametrize("value", [TOKEN, AWKWARD])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_common_writers_make_of_a_secret_is_hidden(writer: str, value: str) -> None:
    text = WRITERS[writer](value)
    shown = scrubber(value).scrub(f"x {text} y")
    assert HIDDEN in shown
    assert shown.startswith("x ")
    assert shown.endswith(" y")
    assert len(shown) < len(HIDDEN) + 30, "all of it but what surrounds it"


@pytest.mark.parametrize("value", ["a:b'c&d", "hunter2!", "tok-1_x9"])
@pytest.mark.parametrize("writer", sorted(set(WRITERS) - {"base64 of UTF-16 within"}))
def test_short_secrets_are_hidden_in_those_forms_too(writer: str, value: str) -> None:
    assert HIDDEN in scrubber(value).scrub(f"x {WRITERS[writer](value)} y")


CUTS = {
    "grep in colour": "\x1b[01;31m\x1b[K",
    "a colour of 24 bits": "\x1b[38;2;10;20;30m",
    "YAML's folding": "\n    ",
    "a frame": " │\n│ ",
    "a thick frame": " ┃\r\n┃ ",
    "a table of ASCII": " |\n| ",
    "a wrapped line with a colour": "\x1b[0m\n\x1b[36m│\x1b[0m ",
    "a list of strings": '"\n  "',
    "a shell's long line": "\\\n",
    "quoted-printable": "=\r\n",
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("form", ["plain", "base64", "hexadecimal"])
def test_a_secret_that_tools_wrap_frame_or_colour_is_hidden(cut: str, form: str) -> None:
    text = {"plain": TOKEN, "base64": base64.b64encode(TOKEN.encode()).decode(), "hexadecimal": TOKEN.encode().hex()}
    for place in range(1, len(TOKEN) - 1):
        wrapped = text[form][:place] + CUTS[cut] + text[form][place:]
        shown = scrubber(TOKEN).scrub(f"x {wrapped} y")
        assert re.fullmatch(r"x \(hidden\)\S{0,2} y", shown), (place, shown)


signs = st.sampled_from(sorted(CUTS.values()))


@given(
    st.lists(st.tuples(st.integers(1, 43), signs), max_size=6),
    st.lists(st.integers(0, 400), max_size=10),
    st.sampled_from(["", "\n", " │ ", "gh", "ghs_1\n", "\x1b[0m", "=", "\x1b["]),
)
def test_any_glue_and_any_cut_hide_it(glue: list[tuple[int, str]], cuts: list[int], before: str) -> None:
    text = TOKEN
    for place, sign in sorted(glue, reverse=True):
        text = text[:place] + sign + text[place:]
    data = f"before{before} {text} after".encode()
    one = scrubber(TOKEN).filter()
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    shown = b"".join(one.feed(data[start:end]) for start, end in pairwise(ends)) + one.finish()
    left = shown.decode().removeprefix(f"before{before} ").removesuffix(" after")
    assert HIDDEN in left
    # What may be seen of it: three letters that ended a finished line.
    assert sum(sign.isalnum() for sign in left.replace(HIDDEN, "").replace("[0", "").replace("[", "")) <= 3 + sum(
        sum(letter.isalnum() for letter in sign) for _, sign in glue
    )
    assert not any(TOKEN[at : at + 6] in left for at in range(len(TOKEN) - 5))


@given(st.text(st.sampled_from("abcdefgh |,:'\"\\=_-\t"), max_size=60))
def test_a_short_secret_hides_nothing_that_is_written_otherwise(text: str) -> None:
    """Blanks, quotes and case tell short words apart; only long secrets are found through all of it."""
    scrub = scrubber("abcd", "Head", "a-b_c")
    if not any(word in text for word in ("abcd", "Head", "a-b_c")):
        assert scrub.scrub(text) == text


@pytest.mark.parametrize(
    "text", ["pass word", "PASSWORD", "pass|word", "'pass','word'", "pass-word", "p a s s w o r d"]
)
def test_a_short_secret_does_not_hide_words_like_it(text: str) -> None:
    assert scrubber("password").scrub(text) == text


def test_a_short_secret_is_hidden_where_a_line_end_cuts_it() -> None:
    assert scrubber("hunter-22").scrub("x hunt\n    er-22 y │ hunter- │\n│ 22 │") == f"x {HIDDEN} y │ {HIDDEN} │"


@pytest.mark.parametrize("value", ["'quoted': yes|", "::::::::", "|=|=|", " a b ", '"" \'\' ""', "abcdefghijklmnop=="])
def test_a_secret_of_signs_that_do_not_count_is_hidden_whole(value: str) -> None:
    assert scrubber(value).scrub(f"x{value}y") == f"x{HIDDEN}y"


def test_the_forms_of_an_ordinary_token_stay_few() -> None:
    assert len(needles([Secret(TOKEN)])) < 60
    assert len(needles([Secret(AWKWARD)])) < 160
