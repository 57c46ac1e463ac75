"""Secrets that a program puts together from two literals or more."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kagura_kernel.kit.redaction.doubts import CLOSED, within_text
from kagura_kernel.kit.redaction.letters import drawn
from kagura_kernel.kit.redaction.patterns import Nearby
from kagura_kernel.kit.redaction.regions import line_start
from kagura_kernel.kit.redaction.spans import Span

_STRING = r"(?:[bBrRuUfF@$]{0,2}\"[^\"\n\\]*\"|[bBrRuUfF@$]{0,2}'[^'\n\\]*'|`[^`\n\\]*`)"
_JOIN = r"(?:\s*\)\s*\+\s*(?:[\w:]{1,40}\(\s*)?|\s*\+\s*[\w:]{1,40}\(\s*|\s*[&+]\s*_\s*\r?\n\s*|\s*(?:\+|\.\.|\.|&|\|\||~|<>|\+\+)\s*\\?\s*|\s*\\\r?\n\s*|\s*\r?\n\s*|[ \t]+|)"
_ROW = Nearby(rf"{_STRING}(?:{_JOIN}{_STRING})+")
_LIST = Nearby(
    rf"(?:[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)\s*,?\s*[\])]\s*\.\s*join|join\(?\s*\(?[\"'](?:[\"'])?\s*,?\s*\(?\s*[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)|"
    rf"join\(\s*[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)|"
    rf"(?:concat!?|implode|Concat|CONCAT|paste0|string\.Concat|os\.path\.join|strcat|StringBuilder)\s*\(?(?:\s*\(?[\"'][\"']\s*,)?\s*\[?\(?\s*({_STRING}(?:\s*,\s*{_STRING})+))"
)
_PIECE = Nearby(r"[bBrRuUfF@$]{0,2}(?:\"([^\"\n\\]*)\"|'([^'\n\\]*)'|`([^`\n\\]*)`)")
_NAMED = Nearby(
    rf"([A-Za-z_$][\w$]*)(?:\s*:\s*\w+)?\s*(?::=|=)\s*{_STRING}[ \t]*(?:;|,|#[^\n]*|//[^\n]*)?[ \t]*(?:\r|\n|;|$)"
)
_SUM = Nearby(
    r"([A-Za-z_$][\w$]*)\s*(?:\+|\.\.|\.|&|\|\||~)\s*([A-Za-z_$][\w$]*)(?:\s*(?:\+|\.\.|\.|&|\|\||~)\s*([A-Za-z_$][\w$]*))?(?:\s*(?:\+|\.\.|\.|&)\s*([A-Za-z_$][\w$]*))?"
)
_FILLED = Nearby(
    r"\$?\{([A-Za-z_$][\w$]*)\}[\"']?\s?[\"']?\$?\{([A-Za-z_$][\w$]*)\}(?:\$?\{([A-Za-z_$][\w$]*)\})?|\$([A-Za-z_]\w*)\$([A-Za-z_]\w*)|\"?\$\{?([A-Za-z_]\w*)\}?\"?\"?\$\{?([A-Za-z_]\w*)\}?"
)
_GROWN = Nearby(
    rf"(?m:^)[ \t]*(?:(?:export|local|readonly|my|our|let|var|const|private|val|String|string)[ \t]+)?([$@]?[A-Za-z_]\w*)[ \t]*(:=|=|\+=|\.=|\.\.=|&=|<>=)[ \t]*(?:\w+[ \t]*\+[ \t]*)?({_STRING}|[\w@%+/.:=\-]+(?:\r|\n|;|$))"
)
_LEADS = frozenset({b":", b"=", b" ", b"/"})
"""How a literal ends that leads to a secret in the next: `postgres://app:`, `Password=`, `Bearer `."""
_MOST_NAMES = 400
_LEAST = 8
_MADE = re.compile(rb"(?:(?:std::)?w?string|String|concat!|[bBrRuU]?(?:\"\"|'')\s{0,9}\.)\s{0,9}\(?\s{0,9}\Z")
"""What makes one text of several, before the first of them."""
_WIDEST = 400
"""Bytes of a statement before a literal of it."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """What literals are together, and where each piece of it stands in the source.

    Attributes:
        text: The line before the first literal, and all of them as one.
        shift: Where they begin in it.
        pieces: Where each one is in the source.
    """

    text: bytes
    shift: int
    pieces: Sequence[tuple[int, int]]


_BETWEEN = b"\n\x00\n"
"""What no secret goes across."""


def find(data: bytes, look: Callable[[bytes], Sequence[Span]]) -> Iterator[Span]:
    """Secrets over several literals.

    Args:
        data: The source.
        look: Finds the secrets of a text in one piece; it is asked once for all that was joined.
    """
    joined = list(_joined(data))
    if not joined:
        return
    texts = list(dict.fromkeys(one.text for one in joined))
    begins = [0]
    for text in texts:
        begins.append(begins[-1] + len(text) + len(_BETWEEN))
    found: dict[bytes, list[Span]] = {}
    for span in look(_BETWEEN.join(texts)):
        number = bisect_right(begins, span.start) - 1
        begin = begins[number]
        if span.end <= begin + len(texts[number]):
            own = found.setdefault(texts[number], [])
            own.append(Span(span.start - begin, span.end - begin, span.kind))
    for one in joined:
        if (spans := found.get(one.text, ())) and not within_text(data, one.pieces[0][0]):
            begins = list(accumulate((last - first for first, last in one.pieces), initial=one.shift))
            later = frozenset(one.pieces[1:])
            for span in spans:
                yield from _outside(one, span, begins, later)


def _joined(data: bytes) -> Iterator[_Joined]:
    for found in _ROW.finditer(data):
        yield from _row(data, found.start(), found.start(), found.end())
    if b"join" in data or b"oncat" in data or b"implode" in data or b"paste0" in data or b"CONCAT" in data:
        for found in _LIST.finditer(data):
            group = next(number for number in (1, 2, 3, 4) if found.group(number) is not None)
            yield from _row(data, found.start(), found.start(group), found.end(group))
    if b"+=" in data or b".=" in data or b"&=" in data:
        yield from _grown(data)
    yield from _variables(data)


def _grown(data: bytes) -> Iterator[_Joined]:
    """What is put together by one name that is added to: `TOKEN="…"`, `TOKEN+="…"`."""
    grown: dict[bytes, list[tuple[int, int]]] = {}
    for found in _GROWN.finditer(data):
        name = (found.group(1) or b"").lstrip(b"$@")
        size = len((found.group(3) or b"").rstrip(b"\r\n;"))
        places = _pieces(data, found.start(3), found.end(3)) or [(found.start(3), found.start(3) + size)]
        if found.group(2) in {b"=", b":="}:
            grown[name] = places[:1]
        elif name in grown:
            grown[name].append(places[0])
    for name, pieces in grown.items():
        if len(pieces) > 1:
            yield _together(data, name + b" =", pieces)


def _row(data: bytes, before: int, start: int, end: int) -> Iterator[_Joined]:
    pieces = _pieces(data, start, end)
    if data.find(b"\n", start, end) >= 0:
        pieces = _of_one_statement(data, pieces)
    if pieces and data[pieces[-1][1] + 1 : pieces[-1][1] + 8].lstrip(b" \t").startswith((b":", b"=")):
        pieces.pop()  # it is the name of what follows
    if len(pieces) < 2 or sum(last - first for first, last in pieces) < _LEAST:
        return
    if sum(b" " in data[first:last] for first, last in pieces) * 2 > len(pieces):
        return
    line = data.rfind(b"\n", max(0, before - 300), before) + 1
    head = data[line:before] if line and before - line < 300 else data[max(0, before - 120) : before]
    yield _together(data, _MADE.sub(b"", head).rstrip().rstrip(b"([{"), pieces)


def _of_one_statement(data: bytes, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces up to a line that begins a statement of its own: no deeper than the first, outside of brackets."""
    for number, (before, after) in enumerate(pairwise(pieces), 1):
        between = data[before[1] + 1 : after[0] - 1]
        if b"\n" not in between or between.strip(b" \t\r\nbBrRuUfF@$"):
            continue  # a sign joins them
        first, second = line_start(data, pieces[0][0], _WIDEST), line_start(data, after[0], _WIDEST)
        if _commented(data, first) is not _commented(data, second) or _words(data[after[0] : after[1]]):
            return pieces[:number]
        if _indent(data, second) <= _indent(data, first) and not _in_brackets(data, pieces[0][0]):
            return pieces[:number]
    return pieces


def _words(piece: bytes) -> bool:
    """Whether a literal on a line of its own says something, and goes on with no secret."""
    words = piece.decode("utf-8", "replace").split()
    return all(word.isalpha() for word in words) and not any(drawn(word.encode()) for word in words)


def _commented(data: bytes, at: int) -> bool:
    return data[at : at + _WIDEST].lstrip(b" \t").startswith((b"#", b"//", b"--", b"*", b"/*", b";"))


def _indent(data: bytes, at: int) -> int:
    line = data[at : at + _WIDEST]
    return len(line) - len(line.lstrip(b" \t"))


def _in_brackets(data: bytes, at: int) -> bool:
    """Whether a bracket is open there, by the lines above up to one that ends a statement or is empty."""
    window = CLOSED.sub(b"", data[max(0, at - _WIDEST) : at - 1])
    window = window[window.rfind(b"\n\n") + 1 :]
    depth = 0
    for byte in reversed(window):
        if byte in b")]}":
            depth += 1
        elif byte in b"([{":
            if not depth:
                return True
            depth -= 1
    return False


def _pieces(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    pieces = []
    for found in _PIECE.finditer(data, start, end):
        group = next(number for number in (1, 2, 3) if found.group(number) is not None)
        if found.end(group) > found.start(group):
            pieces.append((found.start(group), found.end(group)))
    return pieces


def _together(data: bytes, head: bytes, pieces: Sequence[tuple[int, int]]) -> _Joined:
    whole = b"".join(data[first:last] for first, last in pieces)
    return _Joined(head + b' "' + whole + b'"\n', len(head) + 2, pieces)


def _outside(joined: _Joined, span: Span, begins: Sequence[int], later: Collection[tuple[int, int]]) -> list[Span]:
    """The same secret as places of the source; nothing when it is only a part of one literal, which tells it itself.

    Args:
        joined: What literals are together.
        span: The secret in it.
        begins: Where each piece begins in it.
        later: All pieces but the first.
    """
    inside: list[Span] = []
    number = max(0, bisect_right(begins, span.start) - 1)
    while number < len(joined.pieces) and begins[number] < span.end:
        (first, last), at = joined.pieces[number], begins[number]
        lower, upper = max(span.start, at), min(span.end, at + last - first)
        if upper > lower:
            inside.append(Span(first + lower - at, first + upper - at, span.kind))
        number += 1
    before = joined.text[span.start - 1 : span.start]
    whole = len(inside) == 1 and before in _LEADS and (inside[0].start, inside[0].end) in later
    return inside if len(inside) > 1 or whole else []


def _variables(data: bytes) -> Iterator[_Joined]:
    named: dict[bytes, tuple[int, int]] = {}
    for number, found in enumerate(_NAMED.finditer(data)):
        if number >= _MOST_NAMES:
            return
        places = _pieces(data, found.end(1), found.end())
        if len(places) == 1:
            named[found.group(1) or b""] = places[0]
    if len(named) < 2:
        return
    for pattern, groups in ((_SUM, 4), (_FILLED, 7)):
        for number, found in enumerate(pattern.finditer(data)):
            if number >= _MOST_NAMES:
                break
            names = [found.group(group) for group in range(1, groups + 1)]
            pieces = [named[name] for name in names if name is not None and name in named]
            if len(pieces) >= 2:
                line = line_start(data, found.start(), 300)
                yield _together(data, data[line : found.start()].rstrip(b"f$\"'` ("), pieces)
