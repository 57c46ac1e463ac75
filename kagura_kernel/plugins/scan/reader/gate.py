"""Looks at a source's bytes before anything parses them: what a person would see must be what Python reads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

MAX_BYTES = 1 << 20
MAX_LINE = 20_000
MAX_LINES = 50_000

Report = Callable[[str, str, int], None]
"""Takes a rule, a message and a line."""

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN = frozenset({b"utf-8", b"utf8", b"utf_8", b"u8"})
_ODD = re.compile(
    # Everything but tabs, line ends and what can be seen in ASCII.
    "[\x00-\x08\x0b-\x1f\x7f]"
)
_PAGE = re.compile(r"[ \t]*\f[ \t]*")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
_LINE_ENDS = frozenset("\x85\u2028\u2029")
_JOINER, _EMOJI, _TEXT = "\u200d", "\ufe0f", "\ufe0e"


def text_of(data: bytes, report: Report) -> str | None:
    """The source as text; None when it cannot be scanned any further."""
    if len(data) > MAX_BYTES:
        report("too-large", f"The file is larger than {MAX_BYTES >> 20} MiB.", 0)
        return None
    if b"\0" in data:
        report("control-character", "There is a NUL in the file.", data[: data.index(b"\0")].count(b"\n") + 1)
        return None
    _look_for_cookies(data, report)
    if data.startswith(b"\xef\xbb\xbf"):
        report("byte-order-mark", "The file begins with a byte order mark; save it without.", 1)
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        report("not-utf-8", "The file is not UTF-8.", data[: error.start].count(b"\n") + 1)
        return None
    _look_at_lines(text, report)
    return text


def _look_for_cookies(data: bytes, report: Report) -> None:
    for number, line in enumerate(data.split(b"\n", 2)[:2], start=1):
        for part in line.split(b"\r"):
            found = _COOKIE.match(part)
            if found and found[1].lower() not in _PLAIN:
                name = found[1].decode("ascii", "replace")
                report("coding-cookie", f"The file asks to be read as {name!r}; a plugin's files are UTF-8.", number)


def _look_at_lines(text: str, report: Report) -> None:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        report("too-large", f"The file has more than {MAX_LINES} lines.", 0)
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            report("long-line", f"The line has more than {MAX_LINE} characters; nobody reads it.", number)
        if not (line.isascii() and line.isprintable()):
            for rule, message in _odd(line.removesuffix("\r")):
                report(rule, message, number)


def _odd(line: str) -> Iterator[tuple[str, str]]:
    if found := _ODD.search(line):
        if found[0] == "\r":
            yield "control-character", "A carriage return in the middle of a line hides what stands before it."
        elif not _PAGE.fullmatch(line):
            yield "control-character", f"The line holds the control character U+{ord(found[0]):04X}."
    if line.isascii():
        return
    for place, letter in enumerate(line):
        if letter > "\x7f" and (why := _unseen(letter, line, place)):
            yield "invisible-character", f"The line holds U+{ord(letter):04X}, {why}."
            return


def _unseen(letter: str, line: str, place: int) -> str:
    """Why a character is not what a person sees; empty when it is."""
    if letter in _LINE_ENDS:
        return "which some programs take for the end of a line"
    if letter in _FILLERS:
        return "which cannot be seen"
    kind = unicodedata.category(letter)
    if kind == "Cc":
        return "a control character"
    if letter in (_EMOJI, _TEXT, _JOINER) and place and _is_picture(line[place - 1]):
        return ""
    if kind == "Cf":
        bidi = unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        return "which changes the order in which text is shown" if bidi else "which cannot be seen"
    if "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef":
        return "which cannot be seen and can carry hidden text"
    if kind in ("Co", "Cs"):
        return "which every font shows as something else"
    return ""


def _is_picture(letter: str) -> bool:
    return (
        letter in (_EMOJI, _JOINER, "#", "*") or letter.isdigit() or unicodedata.category(letter) in ("So", "Sk", "Sm")
    )
