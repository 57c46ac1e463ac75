"""The forms in which a secret turns up in text: plain, quoted, escaped, in hexadecimal, inside longer base64.

Decides, does nothing. What a program does to a secret on purpose (reversing it, say) is not a usual form.
"""

from __future__ import annotations

import base64
import html
import json
import quopri
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import quote, quote_plus

from kagura_kernel.membrane.credentials.folding import WIDE
from kagura_kernel.membrane.credentials.secret import Secret

SHORTEST = 4
"""Characters; a shorter secret would hide ordinary words and is left alone."""

_SHORTEST_ENCODED = 8
_SHORTEST_LINE = 16

_JSON_ESCAPED = ("&<>", "&<>'", "&<>'\"+`")
"""What writers of JSON besides Python's escape by number: Go's, those for web pages, .NET's."""

_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKUP: tuple[Mapping[str, str], ...] = (
    {"&": "&amp;", "<": "&lt;"},
    {"&": "&amp;", "<": "&lt;", '"': "&quot;"},
    {"&": "&amp;", "<": "&lt;", '"': "&quot;", "'": "&apos;"},
    _NAMED,
    _NAMED | {'"': "&quot;"},
    _NAMED | {'"': "&quot;", "'": "&#x27;"},
    _NAMED | {'"': "&quot;", "'": "&#39;"},
    _NAMED | {'"': "&quot;", "'": "&#039;"},
    _NAMED | {'"': "&quot;", "'": "&apos;"},
    _NAMED | {'"': "&#34;", "'": "&#39;"},
    _NAMED | {'"': "&#34;", "'": "&#39;", "+": "&#43;"},
    _NAMED | {'"': "&quot;", "'": "&#x27;", "`": "&#x60;", "=": "&#x3D;"},
)
"""What writers of HTML and XML make of signs: with and without quotes, and each with its own names for those."""


def needles(secrets: Iterable[Secret]) -> tuple[str, ...]:
    """All forms of all secrets, without line ends, the longest first."""
    found: set[str] = set()
    for secret in secrets:
        value = secret.reveal()
        found |= {form for form in _plain(value) if len(form) >= SHORTEST}
        if len(value) >= SHORTEST:
            found |= {form for form in _encoded(value) if len(form) >= _SHORTEST_ENCODED}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def exact_forms(secrets: Iterable[Secret]) -> set[str]:
    """The plain forms that begin or end with what does not count in other forms, and would be left standing."""
    plain = {form for secret in secrets for form in _plain(secret.reveal()) if len(form) >= SHORTEST}
    dropped = WIDE.dropped.decode("ascii")
    return {form for form in plain if form.strip(dropped) != form}


def as_bytes(forms: Iterable[str]) -> tuple[bytes, ...]:
    """The same forms as bytes of UTF-8 and, where that can be, Latin-1, the longest first.

    What was no UTF-8 in the first place is itself again.
    """
    found: set[bytes] = set()
    for form in forms:
        found.add(form.encode("utf-8", "surrogatepass"))
        with suppress(UnicodeEncodeError):
            found.add(form.encode("latin-1"))
        try:
            found.add(form.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            # A surrogate that stands for no byte.
            continue
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _plain(value: str) -> set[str]:
    flat = flatten(value)
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    # The guards of a PEM block are no secret.
    return {flat} | {line for line in lines if not line.startswith("-----")}


def _encoded(value: str) -> set[str]:
    data = value.encode("utf-8", "surrogatepass")
    forms = _numbers(data) | _escaped(value) | _marked_up(value) | _shell(value)
    for quoted in (quote(value, safe="", errors="replace"), quote(value, errors="replace")):
        forms |= {quoted, _small_hex(quoted)}
    plus = quote_plus(value, errors="replace")
    forms |= {plus, _small_hex(plus)}
    printable = re.sub(r"=\r?\n", "", quopri.encodestring(data, quotetabs=True).decode("ascii"))
    forms |= {printable, quopri.encodestring(data).decode("ascii").replace("=\n", "")}
    with suppress(UnicodeEncodeError):
        # Read as Latin-1 what is UTF-8, and the other way round: what old servers do with a header.
        forms |= {data.decode("latin-1"), "".join(chr(byte) for byte in value.encode("latin-1"))}
    wide = value.encode("utf-16-le", "surrogatepass")
    # Of ASCII the zeros lie between the letters whichever half comes first.
    forms |= {wide.strip(b"\0").decode("latin-1"), value.encode("utf-16-be", "surrogatepass").decode("latin-1")}
    for inner in {data, wide, wide.strip(b"\0"), value.encode("utf-16-be", "surrogatepass")}:
        for offset in range(3):
            core = _base64_core(inner, offset)
            forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {flatten(form) for form in forms}


def _numbers(data: bytes) -> set[str]:
    """As bytes are listed; what stands at the beginning of a list alone is left out."""
    forms = {", ".join(map(str, data)), " ".join(map(str, data))}
    for plain in (data.hex(" "), data.hex(" ").upper()):
        digits = plain.split(" ")
        forms |= {"".join(digits), ":".join(digits), plain, "x" + "\\x".join(digits)}
        forms |= {glue.join(f"0x{pair}" for pair in digits) for glue in (", ", ",", " ")}
    return forms


def _escaped(value: str) -> set[str]:
    """As programs write it between quotes."""
    forms = {repr(value)[1:-1], ascii(value)[1:-1], value.encode("unicode_escape").decode("ascii")}
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        forms |= {escaped, escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1]}
        for signs in _JSON_ESCAPED:
            numbered = escaped.replace('\\"', "\\u0022") if '"' in signs else escaped
            for digits in ("04x", "04X"):
                names = {ord(sign): f"\\u{ord(sign):{digits}}" for sign in signs}
                forms |= {numbered.translate(names), json.dumps(numbered.translate(names))[1:-1]}
    return forms


def _marked_up(value: str) -> set[str]:
    tables = [{ord(sign): name for sign, name in names.items()} for names in _MARKUP]
    tables += [
        {ord(sign): name.format(ord(sign)) for sign in value if not sign.isalnum()}
        for name in ("&#{};", "&#x{:x};", "&#x{:X};")
    ]
    return {value.translate(table) for table in tables} | {html.escape(html.escape(value))}


def _shell(value: str) -> set[str]:
    """As shells write one word: between quotes of either sort, or sign by sign."""
    forms = {shlex.quote(value).strip("'"), value.replace("'", "'\\''")}
    special = (r"([\"\\$`])", r"([^\w@%+=:,./-])", r"(\W)")
    return forms | {re.sub(signs, r"\\\1", value) for signs in special}


def flatten(text: str) -> str:
    """The text without line ends: tools wrap what is long."""
    return text.replace("\n", "").replace("\r", "")


def _small_hex(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return head + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _base64_core(data: bytes, offset: int) -> str:
    """Those base64 digits that the data alone decides when it stands `offset` bytes (modulo 3) into a longer text."""
    digits = base64.b64encode(bytes(offset) + data).decode("ascii").rstrip("=")
    start = (0, 2, 3)[offset]
    return digits[start:] if (offset + len(data)) % 3 == 0 else digits[start:-1]
