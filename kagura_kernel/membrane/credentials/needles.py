"""The forms in which a secret turns up in text, and finding many of them at once. Pure.

Forms: plain, quoted, escaped, in hexadecimal, inside longer base64. What a program does to a secret on purpose
(reversing it, say) is not a usual form. Folds: what a text is reduced to before a secret is looked for in it, for tools
wrap, indent, quote, colour and frame. A fold decides for each byte alone, so the fold of two pieces is the two folds,
one after the other. The index finds many needles in folded bytes, in a time that hardly hangs on how many or how long
they are: every eighth byte (or every sixteenth, where the needles are long enough) eight bytes are looked up, and a
needle cannot stand there, nor a longer beginning of one at the end, without one of its own eight bytes being met.
"""

from __future__ import annotations

import base64
import html
import json
import quopri
import re
import shlex
import string
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress, takewhile
from urllib.parse import quote, quote_plus

from kagura_kernel.membrane.credentials.secret import Secret


class Fold:
    """A way to reduce bytes.

    Args:
        dropped: The same.
        table: What each of the others counts as.
    """

    def __init__(self, dropped: bytes, table: bytes) -> None:
        self.dropped = dropped  # Bytes that do not count
        self.counting = bytes(byte not in dropped for byte in range(256))  # For each byte, 1 when it counts
        self._table = table

    def __call__(self, data: bytes) -> bytes:
        """The bytes that count."""
        return data.translate(self._table, self.dropped)


EXACT = Fold(b"\r\n", bytes(range(256)))
"""Line ends do not count."""

WIDE = Fold(
    bytes(range(0x21)) + b"\x7f|\\'\",:",
    bytes.maketrans(string.ascii_uppercase.encode() + b"-_", string.ascii_lowercase.encode() + b"+/"),
)
"""Neither blanks, controls (UTF-16 has its zeros there), quotes, nor what separates; small is as large, and the two
alphabets of base64 are one."""

_MARKS = re.compile(
    rb"\x1b\[[0-9;:]{0,32}[mK]"  # colours, and the rest of a line wiped out
    rb"|\xe2[\x94\x95][\x80-\xbf]"  # box drawing, in UTF-8
    rb"|=\r?\n"  # where quoted-printable breaks a line
)
_CUT_MARK = re.compile(rb"(?:\x1b(?:\[[0-9;:]{0,32})?|\xe2[\x94\x95]?|=\r?)\Z")
_LONGEST_MARK = 40
_BLOCK = 256


def has_marks(data: bytes) -> bool:
    """Whether there may be something to veil in it, or the beginning of it; quick."""
    return b"\x1b" in data or b"\xe2" in data or b"=\n" in data or b"=\r" in data or data.endswith(b"=")


def veiled(data: bytes) -> bytes:
    """As many bytes, with zeros for what decorates text although it is made of bytes that count."""
    return _MARKS.sub(lambda found: bytes(len(found[0])), data)


def cut_mark(data: bytes) -> int:
    """How many bytes at the end might be the beginning of a decoration."""
    found = _CUT_MARK.search(data, max(0, len(data) - _LONGEST_MARK))
    return len(data) - found.start() if found else 0


class Places:
    """Where in a text stands what its fold consists of."""

    def __init__(self, data: bytes, fold: Fold) -> None:
        self._data = data
        self._fold = fold
        self._counts = [0]
        """How many bytes of the fold stand before each block."""
        self._block = -1
        self._inside: list[int] = []

    def of(self, number: int) -> int:
        """The place in the text of a place in its fold."""
        while self._counts[-1] <= number:
            at = (len(self._counts) - 1) * _BLOCK
            self._counts.append(self._counts[-1] + len(self._fold(self._data[at : at + _BLOCK])))
        block = bisect_right(self._counts, number) - 1
        if block != self._block:
            data = self._data[block * _BLOCK : (block + 1) * _BLOCK]
            self._block, self._inside = block, list(compress(range(len(data)), data.translate(self._fold.counting)))
        return block * _BLOCK + self._inside[number - self._counts[block]]


_DROPPED = re.compile(b"[" + re.escape(WIDE.dropped) + b"]+")
_ZERO = b"\0"
_GLUE = b" \t|\r\n\0"


class Spelling:
    """One form of a short secret as it is written: large and small letters count, and so does what stands between.

    Only line ends may be added, with blanks and bars around them. Otherwise a short secret would hide ordinary words.
    """

    def __init__(self, form: bytes) -> None:
        self._letters, self._between = _spelt(form)

    def fits(self, text: bytes) -> bool:
        """Whether a text is this form, wrapped or not."""
        letters, between = _spelt(text)
        if letters != self._letters:
            return False
        return all(
            _wrapped(between.get(place, b""), self._between.get(place, b"")) for place in between | self._between
        )


def _spelt(text: bytes) -> tuple[bytes, dict[int, bytes]]:
    between: dict[int, bytes] = {}
    dropped = 0
    for found in _DROPPED.finditer(text):
        between[found.start() - dropped] = found[0]
        dropped += len(found[0])
    return text.translate(None, WIDE.dropped), between


def _wrapped(there: bytes, meant: bytes) -> bool:
    glue = _GLUE if b"\n" in there or b"\r" in there else _ZERO
    return there.translate(None, glue) == meant.translate(None, glue)


Span = tuple[int, int]

_WORD = 8
_ORDER = sys.byteorder
_MOST_STEPS = 4
_LONG = 2 * _WORD - 1
_STRICT_BELOW = 16
_HEAD = 4


class NeedleIndex:
    """Needles under one fold.

    Each form has four bytes at least when it is folded; where it is strict, short ones must be spelt as they are.
    """

    def __init__(self, forms: Iterable[bytes], fold: Fold, *, strict: bool) -> None:
        self.fold = fold  # How a text has to be folded for it
        self._spelt: dict[bytes, list[Spelling]] = {}
        needles: set[bytes] = set()
        for form in forms:
            needle = fold(form)
            needles.add(needle)
            if strict and len(needle) < _STRICT_BELOW:
                self._spelt.setdefault(needle, []).append(Spelling(form))
        self._sorted = sorted(needles)
        self.longest = max(map(len, needles), default=0)  # Bytes of the longest needle
        self._short = [needle for needle in self._sorted if len(needle) < _LONG]
        long = [needle for needle in self._sorted if len(needle) >= _LONG]
        least = min(map(len, long), default=_LONG)
        self._step = min((least - _WORD + 1) // _WORD, _MOST_STEPS)
        self._words: dict[int, list[tuple[bytes, int]]] = {}
        for needle in long:
            for offset in range(self._step * _WORD):
                word = int.from_bytes(needle[offset : offset + _WORD], _ORDER)
                self._words.setdefault(word, []).append((needle, offset))
        self._near = max((self._step + 1) * _WORD, max(map(len, self._short), default=0))
        heads = sorted({needle[:_HEAD] for needle in self._sorted})
        self._heads = re.compile(b"|".join(map(re.escape, heads)) or rb"(?!)", re.DOTALL)
        self._stubs = {head[:size] for head in heads for size in range(1, _HEAD)}

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def look(self, flat: bytes, text: bytes) -> tuple[list[Span], int]:
        """Where needles stand, in order, what overlaps as one; and from where on the end might be a needle's beginning.

        `flat` is the fold of the text.
        """
        spans, waits_from = self._met(flat)
        for needle in self._short:
            at = flat.find(needle)
            while at >= 0:
                spans.append((at, at + len(needle)))
                at = flat.find(needle, at + 1)
        spans.sort()
        if self._spelt and spans:
            spans = self._as_spelt(spans, flat, text)
        return _merged(spans), self._beginning(flat, waits_from)

    def beginnings(self, flat: bytes) -> list[bytes]:
        """The needles that begin so, and go on."""
        first = bisect_left(self._sorted, flat)
        those = takewhile(lambda needle: needle.startswith(flat), self._sorted[first:])
        return [needle for needle in those if len(needle) > len(flat)]

    def _met(self, flat: bytes) -> tuple[list[Span], int]:
        """The long needles, and the earliest long beginning."""
        spans: list[Span] = []
        waits_from = len(flat)
        words = memoryview(flat)[: len(flat) // _WORD * _WORD].cast("Q")[:: self._step]
        if self._words.keys().isdisjoint(words):
            return spans, waits_from
        for number, word in enumerate(words):
            for needle, offset in self._words.get(word, ()):
                start = number * self._step * _WORD - offset
                if start < 0:
                    continue
                if start + len(needle) > len(flat):
                    if start < waits_from and needle.startswith(flat[start:]):
                        waits_from = start
                elif flat.startswith(needle, start):
                    spans.append((start, start + len(needle)))
        return spans, waits_from

    def _beginning(self, flat: bytes, known: int) -> int:
        """The earliest beginning, when that of the long ones is known."""
        found = self._heads.search(flat, max(0, len(flat) - self._near))
        while found is not None and found.start() < known:
            if self._begins(flat[found.start() :]):
                return found.start()
            found = self._heads.search(flat, found.start() + 1)
        for size in range(min(_HEAD - 1, len(flat)), 0, -1):
            if len(flat) - size < known and flat[-size:] in self._stubs:
                return len(flat) - size
        return known

    def _begins(self, flat: bytes) -> bool:
        place = bisect_left(self._sorted, flat)
        place += place < len(self._sorted) and self._sorted[place] == flat
        return place < len(self._sorted) and self._sorted[place].startswith(flat)

    def _as_spelt(self, spans: Sequence[Span], flat: bytes, text: bytes) -> list[Span]:
        places = Places(text, self.fold)
        return [span for span in spans if self._fits(flat[slice(*span)], span, text, places.of)]

    def _fits(self, needle: bytes, span: Span, text: bytes, place: Callable[[int], int]) -> bool:
        spellings = self._spelt.get(needle)
        if spellings is None:
            return True
        shown = text[place(span[0]) : place(span[1] - 1) + 1]
        return any(spelling.fits(shown) for spelling in spellings)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


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


def needles(secrets: Iterable[Secret]) -> set[str]:
    """All forms of all secrets, without line ends."""
    found: set[str] = set()
    for secret in secrets:
        value = secret.reveal()
        found |= {form for form in _plain(value) if len(form) >= SHORTEST}
        if len(value) >= SHORTEST:
            found |= {form for form in _encoded(value) if len(form) >= _SHORTEST_ENCODED}
    return found


def exact_forms(secrets: Iterable[Secret]) -> set[str]:
    """The plain forms that begin or end with what does not count in other forms, and would be left standing."""
    plain = {form for secret in secrets for form in _plain(secret.reveal()) if len(form) >= SHORTEST}
    dropped = WIDE.dropped.decode("ascii")
    return {form for form in plain if form.strip(dropped) != form}


def as_bytes(forms: Iterable[str]) -> set[bytes]:
    """The same forms as bytes of UTF-8 and, where that can be, Latin-1.

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
    return found


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
