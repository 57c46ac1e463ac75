"""Places of secrets in a text, and putting markers there. All positions are bytes of UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kagura_kernel.domain.kit import MARKER, marker

_MARKER = re.compile(MARKER.pattern.encode())
_REST_OF_LINES = re.compile(rb"(?:\r?\n[ \t]*)+")
_REST_OF_ESCAPED_LINES = re.compile(rb"(?:\r?\n[ \t]*|\\r|\\n|\\u000[aAdD])+")
_KEY = "private-key"
"""The kind whose lines are one secret, also where their ends are written as escapes."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """One secret, or a piece of one.

    Attributes:
        start: Where it begins.
        end: Behind its last byte.
        kind: Of what kind, as in the marker.
        quotes: Those that its marker needs on both sides to be one text in the language of the file; mostly none.
    """

    start: int
    end: int
    kind: str
    quotes: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """A marker that was put into a text: its kind, and where it stands in the new text."""

    kind: str
    start: int
    end: int


def merged(data: bytes, spans: Iterable[Span]) -> list[Span]:
    """The spans in order, none touching another or a marker that already stands there.

    Of two that overlap one is made, with the kind of the one that begins first (of the longer, if both begin there),
    and of two pieces of a kind with nothing between them but the ends of a key's lines.
    """
    joined: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if span.end <= span.start:
            continue
        last = joined[-1] if joined else None
        if last is not None and (span.start < last.end or _goes_on(data, last, span)):
            joined[-1] = Span(last.start, max(last.end, span.end), last.kind, last.quotes or span.quotes)
        else:
            joined.append(span)
    if b"[REDACTED:" in data:
        joined = [piece for span in joined for piece in _around_markers(data, span)]
    return joined


def _goes_on(data: bytes, before: Span, span: Span) -> bool:
    if before.kind != span.kind or before.quotes or span.quotes:
        return False
    between = data[before.end : span.start]
    return not between or (span.kind == _KEY and _REST_OF_ESCAPED_LINES.fullmatch(between) is not None)


def _around_markers(data: bytes, span: Span) -> list[Span]:
    """What of a span is no marker; nothing when all that is left is too short to be of use to anybody."""
    pieces = []
    at = span.start
    # A marker may begin before the span and reach into it.
    for found in _MARKER.finditer(data, max(0, span.start - 80), min(len(data), span.end + 80)):
        if found.end() <= span.start or found.start() >= span.end:
            continue
        pieces.append((at, found.start()))
        at = max(at, found.end())
    if not pieces:
        return [span]
    pieces.append((at, span.end))
    return [Span(start, end, span.kind) for start, end in pieces if len(data[start:end].strip()) >= 8]


def put_markers(data: bytes, spans: list[Span]) -> tuple[bytes, list[Put]]:
    """The text with a marker for each span; line ends within a span stay, so that lines keep their numbers."""
    out: list[bytes] = []
    puts: list[Put] = []
    at = length = 0
    for span in spans:
        kept = data[at : span.start]
        new = marker(span.kind).encode()
        quote = span.quotes.encode()
        out += [kept, quote, new, quote]
        length += len(kept) + len(quote)
        puts.append(Put(span.kind, length, length + len(new)))
        length += len(new) + len(quote)
        ends = _REST_OF_ESCAPED_LINES if span.kind == _KEY else _REST_OF_LINES
        for lines in ends.findall(data, span.start, span.end):
            out.append(lines)
            length += len(lines)
        at = span.end
    out.append(data[at:])
    return b"".join(out), puts


def leaves_something(data: bytes, put: tuple[int, int]) -> bool:
    """Whether the line of a marker has a digit outside markers: without one there is no second value in it."""
    begin, end = data.rfind(b"\n", max(0, put[0] - _LONGEST_LINE), put[0]) + 1, data.find(b"\n", put[1])
    if not begin or end < 0 or end - begin > _LONGEST_LINE:
        return True
    rest = _MARKER.sub(b"", data[begin:end])
    return rest.translate(None, _DIGITS) != rest


_DIGITS = b"0123456789"
_LONGEST_LINE = 4 * 1024


def moved(puts: list[Put], spans: list[Span], new: list[Put]) -> list[Put]:
    """Where earlier markers stand after `spans` were replaced; `new` are the markers put for those that get one."""
    out = []
    gained = at = 0
    for put in puts:
        while at < len(spans) and spans[at].start < put.start:
            size = spans[at].end - spans[at].start
            gained += new[at].end - new[at].start + 2 * len(spans[at].quotes) - size
            at += 1
        out.append(Put(put.kind, put.start + gained, put.end + gained))
    return out
