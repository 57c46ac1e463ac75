"""A text as its reader sees it: without colours, links, overstrikes and invisible letters; and where each byte stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.regions import says_something
from kagura_kernel.kit.redaction.spans import Span

_SUSPICIOUS = Lazy(
    r"pass|pwd|pw\b|p/w|secret|token|key|auth|cred|log-?in|sign.?in|pin\b|code|kennw|zugang|contrase|clave|senha|wachtwoord|mdp|seed|phrase|"
    r"mnemonic|wallet|recovery|psk|identified|require|machine|cookie|sess|bearer|basic|private|begin|community|crypt|vault|connect|/user:|"
    r"://[^\s/]*[:@]|@|[?&;][\w\-]+=|[^\s\x00-\x7f]|[\x00-\x08\x0b\x0e-\x1f\x7f]|(?:[a-z]{3,8}[^a-z\n]{1,4}){11}|\S*[A-Za-z]\S*\d\S*[!@#$%^&*]\S*|"
    r"\"[^\"]*\"\s*(?:\+|\.|&)?\s*\"|\s-{1,2}[pPuUwWaAkKhXSyN](?:[^\s\w]|\s*\S)|<<<|\$\w+\$|:[^\s:]+:[^\s:]+:|[A-Za-z]\w{0,30}\d\w{3,}|"
    r"\d\w{0,3}[A-Za-z]\w{4,}|(?:echo|printf)\b[^\n]*\||\s>[^\s>&/=]|</"
)
_RUN = Lazy(r"[A-Za-z0-9+/=_\-.~%]{16,}")
_CHANCE = re.compile(rb"\d|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{20,}|[=~%+]")
"""What the runs of letters in words, names and paths do not have."""
_MOST = 4096


def harmless(data: bytes) -> bool:
    """Whether there is no word that announces a secret, no run that could be one, and nothing outside printed ASCII."""
    if len(data) > _MOST or _SUSPICIOUS.search(data) is not None or says_something(data):
        return False
    return not any(_CHANCE.search(run.group() or b"") for run in _RUN.finditer(data))


Place = tuple[int, int, int]
"""Where a piece begins in what is seen, where it begins in the text, and where it ends there."""

BETWEEN = b"\n\x00\n"
"""What no secret goes across."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a text means, shows or says without what stands around it.

    Attributes:
        data: UTF-8.
        places: For each piece of it, in order. A piece as long as its place is the same bytes; of another one only
            the whole can be replaced, and one whose place is empty stands for something that stays.
    """

    data: bytes
    places: Sequence[Place]

    def outside(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The same secrets, as places of the text; what is not seen between their pieces stays."""
        begins = [place[0] for place in self.places]
        for span in spans:
            number = max(bisect_right(begins, span.start) - 1, 0)
            while number < len(self.places) and begins[number] < span.end:
                begin, start, end = self.places[number]
                upto = begins[number + 1] if number + 1 < len(begins) else len(self.data)
                same = upto - begin == end - start
                first = start + max(0, span.start - begin) if same else start
                last = start + min(upto, span.end) - begin if same else end
                if last > first and span.start < upto:
                    yield Span(first, last, span.kind)
                number += 1


_INVISIBLE = r"\x{ad}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{feff}"
_WIDE_SPACES = r"\x{a0}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}"
_FOREIGN = Lazy(f"[{_INVISIBLE}{_WIDE_SPACES}]", ignore_case=False)
_LETTER = rb"(?:[\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]+)"
_NOISE = rb"""(?x)
    [\x00\x08\r\x1b\xc2\xe2\xe3\xef](?:
    (?P<gone>
        (?:(?<=\x1b)\[|(?<=\xc2)\x9b)[\x30-\x3f]*[\x20-\x2f]*[@I-RU-_bcg-~]
        | (?<=\xc2)\xad | (?<=\xe2)\x80[\x8b-\x8f\xaa-\xae] | (?<=\xe2)\x81[\xa0-\xa4\xa6-\xa9] | (?<=\xef)\xbb\xbf
        | (?<=[^\x00\n]\x00)(?=[\x20-\x7e]\x00[\x20-\x7e]) | (?<=\x00[^\x00\n]\x00)(?=[\x20-\x7e])
        | (?<=\x08)\x08* | (?<=\x1b)[\x20-\x2f]*[\x30-\x4f\x51-\x57\x59\x5a\x60-\x7e]
    )
    | (?:(?<=\x1b)[\]P^_X]|(?<=\xc2)[\x9d\x90\x9e\x9f\x98])
        (?P<said>[^\x07\x1b\n\xc2]*(?:\xc2[^\x9c\x07\x1b\n][^\x07\x1b\n\xc2]*)*)(?:\x07|\x1b\\|\xc2\x9c)?
    | (?P<space>(?:(?<=\x1b)\[|(?<=\xc2)\x9b)\d*[CGa`]|(?<=\xc2)\xa0|(?<=\xe2)\x80[\x80-\x8a\xaf]|(?<=\xe2)\x81\x9f|(?<=\xe3)\x80\x80)
    | (?P<line>(?:(?<=\x1b)\[|(?<=\xc2)\x9b)[\d;]*[A-HSTdef]|(?<=\r)(?!\n)|(?<=\x00)\x00*(?!\n)|(?<=[^\n]\x00)\x00*)
    )"""
_UNSEEN = re.compile(_NOISE)
_UNSEEN_OR_STRUCK = re.compile(_NOISE + rb"| (?:" + _LETTER + rb"\x08)+(?P<last>" + _LETTER + rb")")
"""The same, and letters that others were put over; looked for only where there is a backspace."""
_ODD = (b"\x1b", b"\x08", b"\x00")
_PIECE = 4 * 1024
"""Bytes that are asked together whether they are all of ASCII, which is far quicker than looking for others."""


def as_shown(data: bytes) -> Sight | None:
    """The text as a terminal or a page shows it; None when there is nothing in it that is not shown.

    Colours and invisible letters are gone, what moves to another place ends a line, overstruck letters are the last of
    them, and what only a program reads (the address of a link, a title) stands behind everything else.
    """
    if not may_hide(data):
        return None
    gathered = _Gathered(data)
    apart: list[tuple[int, int]] = []
    for found in _unseen(data):
        start, end = found.span()
        gathered.upto(start)
        match found.lastgroup:
            case "said":
                apart.append(found.span("said"))
            case "last":
                gathered.put(found["last"], start, end)
            case "space":
                gathered.put(b" ", start, start)
            case "line":
                gathered.put(b"\n", start, start)
        gathered.at = end
    if not gathered.at:
        return None
    gathered.upto(len(data))
    for start, end in apart:
        gathered.put(BETWEEN, start, start)
        gathered.put(data[start:end], start, end)
    return Sight(b"".join(gathered.out), gathered.places)


def _unseen(data: bytes) -> Iterator[re.Match[bytes]]:
    """What is not shown; pieces of a text that have nothing of the kind are passed over."""
    pattern = _UNSEEN_OR_STRUCK if b"\x08" in data else _UNSEEN
    for start, end in _pieces(data):
        piece = data[start:end]
        if b"\r" in piece or any(byte in piece for byte in _ODD) or _foreign(piece) or b"\xc2" in piece:
            yield from pattern.finditer(data, start, end)


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    """Whole lines that are together all of it."""
    at, size = 0, len(data)
    while at < size:
        end = data.find(b"\n", at + _PIECE) + 1 or size
        yield at, end
        at = end


def _foreign(piece: bytes) -> bool:
    return not piece.isascii() and _FOREIGN.search(piece) is not None


class _Gathered:
    """What is seen of a text so far."""

    def __init__(self, data: bytes) -> None:
        self.out: list[bytes] = []
        self.places: list[Place] = []
        self.at = 0
        self._data = data
        self._length = 0

    def upto(self, end: int) -> None:
        """What stands before a place, as it is."""
        self.put(self._data[self.at : end], self.at, end)

    def put(self, seen: bytes, start: int, end: int) -> None:
        """What is seen for a place of the text."""
        if seen:
            self.places.append((self._length, start, end))
            self.out.append(seen)
            self._length += len(seen)


def plainly_harmless(data: bytes) -> bool:
    """Whether a text is plainly without secrets, and what is seen of it is all that it is."""
    return harmless(data) and not may_hide(data)


def may_hide(data: bytes) -> bool:
    """Whether there is anything in it that is not shown; far quicker than looking for each."""
    if any(byte in data for byte in _ODD) or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return True
    return not data.isascii() and any(_foreign(data[start:end]) for start, end in _pieces(data))
