"""JSON stays JSON: secrets are looked for in what its strings mean, and a marker never crosses the end of a string."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kagura_kernel.kit.redaction.plausible import is_word
from kagura_kernel.kit.redaction.sights import Place, Sight, plainly_harmless
from kagura_kernel.kit.redaction.spans import Span

_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_PART = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"\\": b"\\", b"/": b"/"}
_LINE_END = re.compile(rb"(?<!\\)(?:\\\\)*((?:\\r|\\n|\\u000[aAdD])+)")
_LEAST = 8
_MOST_LINES = 20000
_OF_LINES = frozenset({"private-key", "encoded", "seed-phrase", "recovery-code", "kubernetes-secret"})
"""Kinds of secrets that go over the end of a line or of a string."""

Region = tuple[int, int]
"""Where a document begins and ends."""


def json_documents(data: bytes, near: Sequence[Region] = ()) -> list[Region]:
    """The JSON in a text: all of it, or its lines that are each a document.

    Args:
        data: UTF-8.
        near: Places on whose lines alone documents are looked for; none stands for everywhere.
    """
    begin = data[:64].lstrip()[:1]
    if begin not in {b"{", b"["}:
        return []
    if _parses(data):
        return [(0, len(data))]
    documents = []
    for start, end in _lines_near(data, near) if near else _first_lines(data):
        if data[start : start + 1] in {b"{", b"["} and data[start:end].rstrip()[-1:] in {b"}", b"]"}:
            documents += [(start, end)] if _parses(data[start:end]) else []
    return documents


def _first_lines(data: bytes) -> Iterator[Region]:
    at = 0
    for line in data.split(b"\n", _MOST_LINES)[:_MOST_LINES]:
        yield at, at + len(line)
        at += len(line) + 1


def _lines_near(data: bytes, near: Sequence[Region]) -> Iterator[Region]:
    done = -1
    for place, _ in near:
        if place > done:
            start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
            done = end if end >= 0 else len(data)
            yield start, done


def _parses(data: bytes) -> bool:
    if data[-64:].rstrip()[-1:] not in {b"}", b"]", b""}:
        return False
    try:
        json.loads(data.decode("utf-8", "surrogatepass"))
    # A document may be nested deeper than the parser goes; then it is no document for us either.
    except (ValueError, RecursionError):
        return False
    return True


def inner_texts(data: bytes, document: Region) -> Iterator[Sight]:
    """What strings with escapes mean, when it could hold a secret."""
    group: list[tuple[int, int]] = []
    for found in _STRING.finditer(data, *document):
        name = data[found.end() : found.end() + 8].lstrip()[:1] == b":"
        if group and (name or data[group[-1][1] + 1 : found.start()].strip() != b","):
            yield from _meant(data, group)
            group = []
        group.append(found.span(1))
    yield from _meant(data, group)


def _meant(data: bytes, group: Sequence[tuple[int, int]]) -> Iterator[Sight]:
    if not group or not any(b"\\" in data[start:end] for start, end in group):
        return
    out: list[bytes] = []
    places: list[Place] = []
    length = 0
    for start, end in group:
        for part in _PART.finditer(data, start, end):
            meant = _means(part.group())
            places.append((length, *part.span()))
            out.append(meant)
            length += len(meant)
    text = b"".join(out)
    if len(text) >= _LEAST and not plainly_harmless(text):
        yield Sight(text, places)


def _means(part: bytes) -> bytes:
    if part[:1] != b"\\":
        return part
    if part[1:2] == b"u":
        return bytes.fromhex(part[2:].decode()).decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return _SIMPLE.get(part[1:], part)


def fitted_to_json(data: bytes, spans: Sequence[Span], documents: Sequence[Region]) -> list[Span]:
    """The same secrets, those of a document cut at the ends of its strings; numbers stay."""
    begins = [start for start, _ in documents]
    out: list[Span] = []
    inside: dict[int, list[Span]] = {}
    for span in spans:
        number = bisect_right(begins, span.start) - 1
        if number >= 0 and span.start < documents[number][1]:
            inside.setdefault(number, []).append(span)
        else:
            out.append(span)
    for number, found in inside.items():
        strings = [string.span(1) for string in _STRING.finditer(data, *documents[number])]
        starts = [start for start, _ in strings]
        for span in found:
            out += _pieces(data, span, strings, starts)
    return out


def _pieces(data: bytes, span: Span, strings: Sequence[tuple[int, int]], begins: Sequence[int]) -> Iterator[Span]:
    """A secret as parts of strings; what is none of many lines ends with the line or the string that it begins in."""
    begun = False
    goes_on = span.kind in _OF_LINES
    number = max(bisect_right(begins, span.start) - 1, 0)
    while number < len(strings) and strings[number][0] < span.end and (goes_on or not begun):
        inner, outer = strings[number]
        start, end = max(span.start, inner), min(span.end, outer)
        start = _behind_escape(data, inner, start)
        end = _before_escape(data, inner, end) if end < outer else end
        for first, last in _lines(data, start, end, every=goes_on or (start, end) == (inner, outer)):
            # A word that is left of what went over the end of its line is told by what the string means.
            if goes_on or begun or last == span.end or not is_word(data[first:last]):
                yield replace(span, start=first, end=last)
            begun = True
        number += 1


def _lines(data: bytes, start: int, end: int, *, every: bool) -> Iterator[Region]:
    """The lines of a piece of a string, without the escapes that end them; the first alone, unless all are wanted."""
    at = start
    for found in _LINE_END.finditer(data, start, end):
        if found.start(1) > at:
            yield at, found.start(1)
            if not every:
                return
        at = found.end(1)
    if end > at:
        yield at, end


_LONGEST_ESCAPE = 6


def _before_escape(data: bytes, begin: int, at: int) -> int:
    """The same place, or where an escape begins that it stands in."""
    for start in range(at - 1, max(begin, at - _LONGEST_ESCAPE) - 1, -1):
        if data[start] == _BACKSLASH and not _escaped(data, begin, start):
            return start if at < start + (_LONGEST_ESCAPE if data[start + 1 : start + 2] == b"u" else 2) else at
    return at


def _behind_escape(data: bytes, begin: int, at: int) -> int:
    start = _before_escape(data, begin, at)
    return at if start == at else start + (_LONGEST_ESCAPE if data[start + 1 : start + 2] == b"u" else 2)


_BACKSLASH = 0x5C


def _escaped(data: bytes, begin: int, at: int) -> bool:
    """Whether the byte there belongs to the backslash before it."""
    count = at - 1
    while count >= begin and data[count] == _BACKSLASH:
        count -= 1
    return (at - 1 - count) % 2 == 1
