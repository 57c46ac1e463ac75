"""A text as its reader sees it: without colours, invisible letters and what tools put before each line."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.patterns import BETWEEN, Lazy
from kagura_kernel.kit.redaction.spans import Span, said_places, says_something

_SUSPICIOUS = Lazy(
    r"pass|pwd|pw\b|p/w|secret|token|key|auth|cred|log-?in|sign.?in|pin\b|code|kennw|zugang|contrase|clave|senha|wachtwoord|mdp|seed|phrase|"
    r"mnemonic|wallet|recovery|psk|identified|require|machine|cookie|sess|bearer|basic|private|begin|community|crypt|vault|connect|/user:|"
    r"://[^\s/]*[:@]|@|[?&;][\w\-]+=|[^\s\x00-\x7f]|[\x00-\x08\x0b\x0e-\x1f\x7f]|(?:[a-z]{3,8}[^a-z\n]{1,4}){11}|\S*[A-Za-z]\S*\d\S*[!@#$%^&*]\S*|"
    r"\"[^\"]*\"\s*(?:\+|\.|&)?\s*\"|\s-{1,2}[pPuUwWaAkKhXSyN](?:[^\s\w]|\s*\S)|<<<|\$\w+\$|:[^\s:]+:[^\s:]+:|[A-Za-z]\w{0,30}\d\w{3,}|"
    r"\d\w{0,3}[A-Za-z]\w{4,}|(?:echo|printf)\b[^\n]*\||\s>[^\s>&/=]|</"
)
_RUN = Lazy(r"[A-Za-z0-9+/=_\-.~%]{16,}")
_CHANCE = late_pattern(rb"\d|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{20,}|[=~%+]")
"""What the runs of letters in words, names and paths do not have."""
_LEAST, _MOST = 5, 4096
"""Bytes of a text below which it is no secret, and those that are looked at whole."""


def harmless(data: bytes) -> bool:
    """Whether there is no word that announces a secret, no run that could be one, and nothing outside printed ASCII."""
    if len(data) > _MOST or _SUSPICIOUS.search(data) is not None or says_something(data):
        return False
    return not any(_CHANCE.search(run.group() or b"") for run in _RUN.finditer(data))


Place = tuple[int, int, int]
"""Where a piece begins in what is seen, where it begins in the text, and where it ends there."""


@dataclass(frozen=True, slots=True)
class View:
    """What a text means, shows or says without what stands around it."""

    data: bytes  # UTF-8
    # For each piece of it, in order. A piece as long as its place is the same bytes; of another one only the whole
    # can be replaced, and one whose place is empty stands for something that stays.
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


class Gathered:
    """What is seen of a text so far."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._places: list[Place] = []
        self._length = 0

    def put(self, seen: bytes, start: int, end: int) -> None:
        """What is seen for a place of the text."""
        if seen:
            self._places.append((self._length, start, end))
            self._out.append(seen)
            self._length += len(seen)

    def view(self) -> View:
        """All of it."""
        return View(b"".join(self._out), self._places)


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
_UNSEEN = late_pattern(_NOISE)
_UNSEEN_OR_STRUCK = late_pattern(_NOISE + rb"| (?:" + _LETTER + rb"\x08)+(?P<last>" + _LETTER + rb")")
"""The same, and letters that others were put over; looked for only where there is a backspace."""
_ODD = (b"\x1b", b"\x08", b"\x00")
_PIECE = 4 * 1024
"""Bytes that are asked together whether they are all of ASCII, which is far quicker than looking for others."""


def as_shown(data: bytes) -> View | None:
    """The text as a terminal or a page shows it; None when there is nothing in it that is not shown.

    Colours and invisible letters are gone, what moves to another place ends a line, overstruck letters are the last of
    them, and what only a program reads (the address of a link, a title) stands behind everything else.
    """
    if not may_hide(data):
        return None
    gathered = Gathered()
    apart: list[tuple[int, int]] = []
    at = 0
    for found in _unseen(data):
        start, end = found.span()
        gathered.put(data[at:start], at, start)
        match found.lastgroup:
            case "said":
                apart.append(found.span("said"))
            case "last":
                gathered.put(found["last"], start, end)
            case "space":
                gathered.put(b" ", start, start)
            case "line":
                gathered.put(b"\n", start, start)
        at = end
    if not at:
        return None
    gathered.put(data[at:], at, len(data))
    for start, end in apart:
        gathered.put(BETWEEN, start, start)
        gathered.put(data[start:end], start, end)
    return gathered.view()


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


def plainly_harmless(data: bytes) -> bool:
    """Whether a text is plainly without secrets, and what is seen of it is all that it is."""
    return (len(data) < _LEAST or harmless(data)) and not may_hide(data)


def may_hide(data: bytes) -> bool:
    """Whether there is anything in it that is not shown; far quicker than looking for each."""
    if any(byte in data for byte in _ODD) or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return True
    return not data.isascii() and any(_foreign(data[start:end]) for start, end in _pieces(data))


_BAR = rb"(?:\||\xe2\x94[\x82\x83\x86\x87\x8a\x8b]|\xe2\x95\x91|\xe2\x96[\x8c-\x8f]|\xe2\x86\x92)"
_KINDS: dict[str, bytes] = {
    # 2026-03-04T11:02:51.123Z, [11:02:51], Mar  4 11:02:51, I0304 11:02:51.123 7 main.go:12], #12 0.345
    "time": rb"[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/.]\d\d[-/.]\d{4}|\d\d/[A-Z][a-z]{2}/\d{4})"
    rb"(?:[T _:]{1,2}\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?)?(?:[ ]?(?:Z|UTC|[+\-]\d\d:?\d\d))?[\])]?[:,|]?[ \t]?"
    rb"|[\[(]?\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?[\])]?[ \t]"
    rb"|(?:[A-Z][a-z]{2}[ ])?[A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ](?:[\w.\-]{1,60}[ ](?=[\w./@\-]{1,40}(?:\[\d{1,7}\])?:[ ]))?"
    rb"|[IWEF]\d{4}[ ]\d\d:\d\d:\d\d\.\d+[ ]+\d+[ ][\w./\-]+:\d+\][ ]?|\[[ ]*\d+\.\d+\][ ]|#\d+[ ]\d+\.\d+[ ]|\d{10}\.\d+[ ]",
    "level": rb"[\[(<]?\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL|LOG|"
    rb"trace|debug|info|notice|warn(?:ing)?|err(?:or)?|critical|fatal)\b[\])>]?[:|]?[ \t]{1,2}",
    "process": rb"(?:[\w.\-]{1,60}[ ])?[\w./@\-]{1,40}\[\d{1,7}\]:?[ ]?|(?:stdout|stderr)[ ][FP][ ]",
    "bracket": rb"\[[^\[\]\n\"']{1,60}\]:?[ \t]?",
    "column": rb"[\w@][\w.@/\-]{0,60}[ \t]{0,20}" + _BAR + rb"[ ]?",
    "job": rb"[^\t\n]{1,60}\t[^\t\n]{1,60}\t(?=\d{4}-)",
    "place": rb"[\w./~@+\-]{1,200}?[:\-]\d{1,6}[:\-]|\d{1,6}[:\-]|[\w~@+\-]{0,60}[./][\w./@+\-]{1,140}:(?!//)",
    "number": rb"[ \t]*\d{1,6}(?:[ ]{0,2}(?:\t|" + _BAR + rb")|[.)](?=[ ])|[ ]{1,2}(?=[^\d\s]))[ ]?",
    "quote": rb"[ \t]?(?:>[ ]?){1,8}",
    "bar": rb"[ \t]*" + _BAR + rb"[ ]?",
    "comment": rb"[ \t]*(?:#{1,6}|//[/!]?|--(?=[ \t])|;{1,3}|%{1,2}|/\*{1,2}|\*(?=[ \t\n])|<!--|dnl[ ]|REM[ ]|rem[ ]|\xe2\x80[\xa2\xa3])[ ]?",
    "prompt": rb"(?:[\w.\-]+@[\w.\-]+:[^\s$#]{0,80})?[$%][ ]|\.\.\.[ ]|In[ ]\[\d+\]:[ ]|PS[^>\n]{0,60}>[ ]?|(?:mysql|sql|redis)[\w:.\-]{0,40}>[ ]|E[ ]{3}",
    "diff": rb"[+\-](?=-{5}[BE]|[^+\-]|-[ ])",
    "logger": rb"[\w.$:]{2,80}[ ]{1,2}[\-:][ ]|-[ ]",
}
"""How a prefix looks, by what puts it there."""
_FIRST = frozenset({"diff", "place", "number", "job", "prompt", "bar"})
"""What stands at the beginning of a line alone."""
_SURE = frozenset({"time", "level", "process", "job", "quote", "comment"})
"""What is no part of a secret, whatever it looks like."""
_ANY = late_pattern(b"|".join(b"(?P<%s>%s)" % (name.encode(), text) for name, text in _KINDS.items()))
_FURTHER = late_pattern(
    b"|".join(b"(?P<%s>%s)" % (name.encode(), text) for name, text in _KINDS.items() if name not in _FIRST)
)
_MAY_BE = Lazy(
    r"(?:^|\n)(?:[ \t]{0,40}(?:#|/[/*]|--[ \t]|;|%|\*(?:[ \t]|(?m:$))|<!--|[•│┃║▌▏|]|\d{1,13}[.)\t |→│]|dnl |REM |rem )|"
    r"[ \t]?>|[+\-]|[$%] |\$[\w.$:]{1,80} |\[[^\[\]\n\"']|[\[(<](?:TRACE|DEBUG|INFO|NOTICE|WARN|ERR|CRITICAL|FATAL|LOG|trace|debug|info|notice|warn|err|critical|fatal)|"
    r"[\[(]?\d{1,13}[-/.:,)\t |]|[A-Z][a-z]{2} |[IWEF]\d{4} |\.\.\. |E   |In \[|PS|"
    r"(?:stdout|stderr) |(?:TRACE|DEBUG|INFO|NOTICE|WARN|ERR|CRITICAL|FATAL|LOG)\b|(?:mysql|sql|redis)[\w:.\-]*>|[\w.@/~+\-]{1,200}(?:[ \t]{0,20}[|│]|:\d|-\d+-|\[\d|@)|"
    r"[\w~@+\-]*[./][\w./@+\-]+:|[^\t\n]{1,60}\t[^\t\n]{1,60}\t\d{4}-)",
    ignore_case=False,
)
_LONG = Lazy(r"PRIVATE KEY|Private-Lines|kind[\"']?: *[\"']?Secret\b|recovery|backup|phrase|mnemonic|\bseed")
_LINE_END = 10
_MARKED = b"[REDACTED:"
_PREFIX_RUN = late_pattern(rb"[A-Za-z0-9+/]{16,}={0,2}[ \t]*\r?\n?")
"""A line of base64."""
_SURE_WHERE_MANY = frozenset({"diff", "bar"})
_DIGITS = late_pattern(rb"\d+")
_PREFIX_LETTER = late_pattern(rb"[A-Za-z]")
_ENOUGH = 3
"""Lines that do not look alike by chance."""
_MOST_KINDS = 4
_FAR = 120
"""Lines that a key may have."""


@dataclass(frozen=True, slots=True)
class Unprefixed:
    """Lines without their prefixes."""

    view: View  # the lines
    # Where each prefix begins and ends, in order, and whether it can be no part of a secret.
    prefixes: Sequence[tuple[int, int, bool]]

    def spared(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The same secrets without the prefixes of lines that they go over; none that begins within a sure one."""
        ends = [end for _, end, _ in self.prefixes]
        for span in spans:
            at = span.start
            number = bisect_right(ends, span.start)
            if number < len(ends) and self.prefixes[number][0] < at and self.prefixes[number][2]:
                continue
            while number < len(ends) and self.prefixes[number][0] < span.end:
                start, end, sure = self.prefixes[number]
                if sure or start > span.start:
                    if start > at:
                        yield replace(span, start=at, end=start)
                    at = end
                number += 1
            if at < span.end:
                yield replace(span, start=at)


def without_prefixes(
    data: bytes, parts: Sequence[tuple[int, int]], found: Sequence[Span] = (), said: Sequence[int] | None = None
) -> Unprefixed | None:
    """Blocks of lines that have the same kinds of prefixes, without them; None when no line has any.

    Args:
        data: UTF-8.
        parts: Where to look, in order, whole lines. A key is followed to both its ends.
        found: What was found with the prefixes; a line of its own with a secret in it is not looked at again.
        said: Where words stand that announce a secret, in order, if that is known already.
    """
    said = [at for at, _ in said_places(data)] if said is None else said
    blocks = _Blocks(data, sorted(span.start for span in found), said)
    done = 0
    for start, end in parts:
        for begun in _MAY_BE.finditer(data, max(start - 1, 0), end):
            line = begun.start() + (data[begun.start()] == _LINE_END)
            if line >= done and (kinds := _kinds(data, line)):
                done = blocks.add(line, end, kinds, done)
    return blocks.gathered()


def _kinds(data: bytes, at: int) -> tuple[str, ...]:
    """What kinds of prefixes a line has, from left to right."""
    kinds: list[str] = []
    found = _ANY.match(data, at)
    while found is not None and found.end() > at and found.lastgroup and len(kinds) < _MOST_KINDS:
        kinds.append(found.lastgroup)
        at = found.end()
        found = _FURTHER.match(data, at)
    return tuple(kinds)


@lru_cache(maxsize=256)
def _prefix(kinds: tuple[str, ...]) -> re.Pattern[bytes]:
    # Lines of a diff that stay begin with a space.
    return re.compile(b"".join(b"[+\\- ]" if kind == "diff" else b"(?:%s)" % _KINDS[kind] for kind in kinds))


class _Blocks:
    """What is gathered of a text."""

    def __init__(self, data: bytes, found: Sequence[int], said: Sequence[int]) -> None:
        self._data = data
        self._found = found
        self._said = said
        self._lines = Gathered()
        self._prefixes: list[tuple[int, int, bool]] = []

    def add(self, line: int, end: int, kinds: tuple[str, ...], done: int) -> int:
        """Add lines around `line`, up to `end` or as far as a key goes; returns where they end.

        Nothing before `done` is added again.
        """
        kinds = self._shared(line, kinds)
        data, prefix = self._data, _prefix(kinds)
        begin = line = self._first(line, prefix, done)
        lines: list[tuple[int, int, int]] = []
        left = 0
        while line < len(data) and (found := prefix.match(data, line)) is not None:
            stop = data.find(b"\n", line) + 1 or len(data)
            if found.end() > stop:
                break
            if line >= end and _PREFIX_RUN.fullmatch(data, found.end(), stop) is None:
                left = left - 1 if left else _FAR * (_LONG.search(data, begin, line) is not None)
                if not left:
                    break
            lines.append((line, found.end(), stop))
            line = stop
        told = len(lines) == 1 and self._told(begin, line)
        # Prefixes of lines that say nothing hide nothing.
        if told or (lines and _any_within(self._said, begin, line)):
            self._gather(lines, sure=self._sure(kinds, lines), told=told)
        return max(line, begin + 1)

    def _gather(self, lines: Sequence[tuple[int, int, int]], *, sure: bool, told: bool) -> None:
        self._prefixes += [(begin, start, sure) for begin, start, _ in lines]
        if told:
            return
        for _, start, end in lines:
            self._lines.put(self._data[start:end], start, end)
        self._lines.put(BETWEEN, end, end)

    def _told(self, start: int, end: int) -> bool:
        """Whether a secret was found in a line, or was replaced in it."""
        return _any_within(self._found, start, end) or self._data.find(_MARKED, start, end) >= 0

    def _shared(self, line: int, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a line's kinds that the next line has too: what else it begins with is its own."""
        below = self._data.find(b"\n", line) + 1
        shared = [kinds[:count] for count in range(len(kinds), 0, -1)]
        if self._data[line] in b"+-":
            shared.append(("diff",))
        fits = (some for some in shared if below and _prefix(some).match(self._data, below) is not None)
        return next(fits, kinds)

    def _sure(self, kinds: tuple[str, ...], lines: Sequence[tuple[int, int, int]]) -> bool:
        """Whether these are no part of a secret: of a sure kind, or the same on every line but for numbers."""
        if _SURE.issuperset(kinds):
            return True
        if len(lines) < _ENOUGH:
            return False
        prefixes = [self._data[first:last] for first, last, _ in lines]
        if kinds[0] in _SURE_WHERE_MANY or (kinds[0] == "number" and _counts(prefixes)):
            return True
        same = {_DIGITS.sub(b"0", prefix).lstrip() for prefix in prefixes}
        return len(same) == 1 and _PREFIX_LETTER.search(same.pop()) is not None

    def _first(self, line: int, prefix: re.Pattern[bytes], done: int) -> int:
        """Where lines of base64 before this one begin, as those of a key whose beginning was cut off."""
        while line > done:
            before = self._data.rfind(b"\n", 0, line - 1) + 1
            found = prefix.match(self._data, before, line)
            if before < done or found is None or _PREFIX_RUN.fullmatch(self._data, found.end(), line) is None:
                break
            line = before
        return line

    def gathered(self) -> Unprefixed | None:
        """All of it; None when there is nothing."""
        return Unprefixed(self._lines.view(), self._prefixes) if self._prefixes else None


def _any_within(places: Sequence[int], start: int, end: int) -> bool:
    number = bisect_left(places, start)
    return number < len(places) and places[number] < end


def _counts(prefixes: Sequence[bytes]) -> bool:
    """Whether each begins with the number after that of the one before it."""
    numbers = [int(found.group()) for prefix in prefixes if (found := _DIGITS.search(prefix)) is not None]
    return len(numbers) == len(prefixes) and all(after == before + 1 for before, after in pairwise(numbers))
