"""JSON stays JSON: secrets are looked for in what its strings mean, and a marker never crosses the end of a string."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kagura_kernel.kit.redaction.harmless import harmless
from kagura_kernel.kit.redaction.spans import Span

_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_PART = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"\\": b"\\", b"/": b"/"}
_LEAST = 8
_MOST_LINES = 20000

Region = tuple[int, int]
"""Where a document begins and ends."""


@dataclass(frozen=True, slots=True)
class InnerText:
    """What one string means, or strings that follow one another in a list, such as the lines of a notebook's cell.

    Attributes:
        data: UTF-8.
        places: For each piece: where it begins in `data`, where in the document, and where it ends there.
    """

    data: bytes
    places: Sequence[tuple[int, int, int]]

    def outside(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The same secrets, as places of the document."""
        begins = [place[0] for place in self.places]
        for span in spans:
            further = span.further
            number = max(bisect_right(begins, span.start) - 1, 0)
            while number < len(self.places) and begins[number] < span.end:
                begin, start, end = self.places[number]
                upto = begins[number + 1] if number + 1 < len(begins) else len(self.data)
                same = upto - begin == end - start
                first = start + max(0, span.start - begin) if same else start
                last = start + min(upto, span.end) - begin if same else end
                if last > first and span.start < upto:
                    yield Span(first, last, span.kind, further=further)
                    further = True
                number += 1


def json_documents(data: bytes) -> list[Region]:
    """The JSON in a text: all of it, or its lines that are each a document."""
    begin = data[:64].lstrip()[:1]
    if begin not in {b"{", b"["}:
        return []
    if _parses(data):
        return [(0, len(data))]
    documents = []
    at = 0
    for line in data.split(b"\n", _MOST_LINES)[:_MOST_LINES]:
        if line[:1] in {b"{", b"["} and line.rstrip()[-1:] in {b"}", b"]"} and _parses(line):
            documents.append((at, at + len(line)))
        at += len(line) + 1
    return documents


def _parses(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8", "surrogatepass"))
    # A document may be nested deeper than the parser goes; then it is no document for us either.
    except (ValueError, RecursionError):
        return False
    return True


def inner_texts(data: bytes, document: Region) -> Iterator[InnerText]:
    """What strings with escapes mean, when it could hold a secret."""
    group: list[tuple[int, int]] = []
    for found in _STRING.finditer(data, *document):
        name = data[found.end() : found.end() + 8].lstrip()[:1] == b":"
        if group and (name or data[group[-1][1] + 1 : found.start()].strip() != b","):
            yield from _meant(data, group)
            group = []
        group.append(found.span(1))
    yield from _meant(data, group)


def _meant(data: bytes, group: Sequence[tuple[int, int]]) -> Iterator[InnerText]:
    if not group or not any(b"\\" in data[start:end] for start, end in group):
        return
    out: list[bytes] = []
    places: list[tuple[int, int, int]] = []
    length = 0
    for start, end in group:
        for part in _PART.finditer(data, start, end):
            meant = _means(part.group())
            places.append((length, *part.span()))
            out.append(meant)
            length += len(meant)
    text = b"".join(out)
    if len(text) >= _LEAST and not harmless(text):
        yield InnerText(text, places)


def _means(part: bytes) -> bytes:
    if part[:1] != b"\\":
        return part
    if part[1:2] == b"u":
        return bytes.fromhex(part[2:].decode()).decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return _SIMPLE.get(part[1:], part)


def fitted_to_json(data: bytes, spans: Sequence[Span], document: Region) -> list[Span]:
    """The same secrets, cut at the ends of strings; numbers stay."""
    if not any(document[0] <= span.start < document[1] for span in spans):
        return list(spans)
    strings = [found.span(1) for found in _STRING.finditer(data, *document)]
    begins = [start for start, _ in strings]
    out: list[Span] = []
    for span in spans:
        if not document[0] <= span.start < document[1]:
            out.append(span)
            continue
        out += _pieces(data, span, strings, begins)
    return out


def _pieces(data: bytes, span: Span, strings: Sequence[tuple[int, int]], begins: Sequence[int]) -> Iterator[Span]:
    further = span.further
    number = max(bisect_right(begins, span.start) - 1, 0)
    while number < len(strings) and strings[number][0] < span.end:
        inner, outer = strings[number]
        start, end = max(span.start, inner), min(span.end, outer)
        if start > inner and _escaped(data, inner, start):
            start += 1
        if end < outer and _escaped(data, inner, end):
            end -= 1
        if end > start:
            yield replace(span, start=start, end=end, further=further)
            further = True
        number += 1


def _escaped(data: bytes, begin: int, at: int) -> bool:
    """Whether the byte there belongs to the backslash before it."""
    count = at - 1
    while count >= begin and data[count] == 0x5C:
        count -= 1
    return (at - 1 - count) % 2 == 1
