"""Where the secrets of one text are: what every rule and the scanner say, and what is left after doubts."""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from kagura_kernel.kit.redaction.doubts import doubted, named_openly
from kagura_kernel.kit.redaction.encodings import decoded_text
from kagura_kernel.kit.redaction.line_forms import fitted_to_lines
from kagura_kernel.kit.redaction.patterns import Lazy, Nearby, Text
from kagura_kernel.kit.redaction.plausible import is_word, password, placeholder, published
from kagura_kernel.kit.redaction.prefixes import without_prefixes
from kagura_kernel.kit.redaction.regions import places, said_places, said_regions, windows
from kagura_kernel.kit.redaction.rules import (
    adjacent,
    assignments,
    calls,
    commands,
    devices,
    files,
    headers,
    keys,
    kubernetes,
    lists,
    literals,
    markup,
    members,
    prose,
    seeds,
    servers,
    services,
    tokens,
    uris,
)
from kagura_kernel.kit.redaction.sights import BETWEEN, Place, Sight, as_shown, plainly_harmless
from kagura_kernel.kit.redaction.spans import Span, leaves_something, merged

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


T = TypeVar("T")


def meanwhile(work: Callable[[], T]) -> Callable[[], T]:
    """Begin to work; what is returned waits for the end of it and gives its result, or raises what it raised."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        # Whatever it is, it is raised again where the result is asked for.
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="kagura-redaction-scan", daemon=True).start()
    # A process that has all the threads it is allowed does it at once.
    except RuntimeError:
        run()
    return future.result


Scan = Callable[[bytes], Sequence[Span]]
"""Finds what has a known format."""

_EVERYWHERE = (keys.find, seeds.find, kubernetes.find, lists.find)
"""What says itself that it is a secret, wherever it stands, and may go over many lines."""
_IN_LINES = (tokens.find, uris.find, services.find)
"""The same, within a line or two."""
_WHERE_SAID = (
    headers.find, markup.find, assignments.find, commands.find, files.find, prose.find,
    adjacent.find, calls.find, devices.find, members.find, servers.find,
)  # fmt: skip
"""What is one because a word nearby says so."""
_THREE = r"[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\-]"
"""Base64 of three bytes that may be signs of ASCII; most runs of letters and digits begin otherwise."""
_BASE64 = Nearby(rf"(?:^|[^A-Za-z0-9+/=_\-])((?:{_THREE}){{4}}[A-Za-z0-9+/_\-]*={{0,2}})", ignore_case=False)
_SAYS_ITSELF = Lazy(
    "|".join(form.shortened(8) for form in (*tokens.FORMS, *uris.FORMS, *services.FORMS, _BASE64)), ignore_case=False
)
"""Where any of what says itself within a line may stand: one walk, after which the forms look there alone."""
_LONG = 64 * 1024
"""Bytes from which on a text is looked through in two threads, and again only where it was changed."""


def find(data: bytes, scan: Scan, name: str = "", near: Sequence[tuple[int, int]] = ()) -> list[Span]:
    """The secrets of a text, in order, none touching another.

    Args:
        data: UTF-8.
        scan: The scanner for known formats.
        name: What the text's file is called; its suffix says in which language a marker must be a text.
        near: Places that were changed since it was looked through; a long text is looked through around them alone.
    """
    if near and len(data) > _LONG:
        documents = json_documents(data, near)
        again = windows(data, [place for place in near if leaves_something(data, place)])
        spans = list(_together(data, list(again), lambda text: _shown(text, scan)))
    else:
        documents = json_documents(data)
        spans = list(_shown(data, scan))
    spans += _within_strings([text for document in documents for text in inner_texts(data, document)], scan)
    found = merged(data, fitted_to_json(data, spans, documents))
    return merged(data, fitted_to_lines(data, found, name))


def _shown(data: bytes, scan: Scan) -> Iterator[Span]:
    """What is found in a text as its reader sees it."""
    sight = as_shown(data)
    return _whole(data, scan) if sight is None else sight.outside(_whole(sight.data, scan))


def _within_strings(texts: Sequence[Sight], scan: Scan) -> Iterator[Span]:
    """What is found in what strings mean, as places of the text around them."""
    sights = [as_shown(text.data) for text in texts]
    shown = [text.data if sight is None else sight.data for text, sight in zip(texts, sights, strict=True)]
    found: dict[int, list[Span]] = {}
    for number, span in _in_each(shown, lambda joined: _whole(joined, scan)):
        found.setdefault(number, []).append(span)
    for number, spans in found.items():
        sight = sights[number]
        yield from texts[number].outside(spans if sight is None else sight.outside(spans))


def _whole(data: bytes, scan: Scan) -> Iterator[Span]:
    # The scanner leaves the interpreter to others while it works.
    known = meanwhile(lambda: scan(data)) if len(data) >= _LONG else lambda: scan(data)
    text = Text.of(data)
    said = list(said_places(text))
    parts = list(said_regions(text, said))
    seen = list(_seen(text, parts, scan, known))
    lines = without_prefixes(text, parts, seen, [at for at, _ in said])
    if lines is None:
        yield from seen
        return
    yield from lines.spared(seen)
    if lines.sight.data:
        yield from lines.sight.outside(_said_or_not(lines.sight.data, scan))


def _seen(
    text: Text, parts: Sequence[tuple[int, int]], scan: Scan, known: Callable[[], Sequence[Span]]
) -> Iterator[Span]:
    ruled = list(_ruled(text, parts, scan))
    yield from (span for span in known() if not named_openly(text, span))
    yield from ruled


def _ruled(text: Text, parts: Sequence[tuple[int, int]], scan: Scan) -> Iterator[Span]:
    lines = list(windows(text, list(places(text, _SAYS_ITSELF))))
    if lines:
        yield from _together(text, lines, lambda some: _in_lines(some, scan))
    for rule in _EVERYWHERE:
        yield from rule(text)
    if parts:
        yield from _together(text, parts, lambda said: _said(said, scan))


def _in_lines(data: bytes, scan: Scan) -> Iterator[Span]:
    text = Text.of(data)
    for rule in _IN_LINES:
        yield from rule(text)
    yield from _encoded(text, scan)


def _said_or_not(data: bytes, scan: Scan) -> Iterator[Span]:
    text = Text.of(data)
    for rule in (*_EVERYWHERE, *_IN_LINES):
        yield from rule(text)
    yield from _said(text, scan)


def _together(data: bytes, parts: Sequence[tuple[int, int]], look: Callable[[bytes], Iterator[Span]]) -> Iterator[Span]:
    """Looks through parts of a text; what is there more than once (logs, generated code) is looked at once."""
    if list(parts) == [(0, len(data))]:
        yield from look(data)
        return
    starts: dict[bytes, list[int]] = {}
    for start, end in parts:
        starts.setdefault(data[start:end], []).append(start)
    shifts = list(starts.values())
    for number, span in _in_each(list(starts), look):
        for shift in shifts[number]:
            yield Span(span.start + shift, span.end + shift, span.kind, span.quotes)


def _in_each(texts: Sequence[bytes], look: Callable[[bytes], Iterator[Span]]) -> Iterator[tuple[int, Span]]:
    """What is in each of these texts, with its number; many short ones cost far more than all of them as one."""
    if not texts:
        return
    begins = [0]
    for text in texts:
        begins.append(begins[-1] + len(text) + len(BETWEEN))
    for span in look(BETWEEN.join(texts)):
        number = bisect_right(begins, span.start) - 1
        begin = begins[number]
        if span.end - begin <= len(texts[number]):
            yield number, Span(span.start - begin, span.end - begin, span.kind, span.quotes)


def _said(data: bytes, scan: Scan) -> Iterator[Span]:
    text = Text.of(data)
    yield from _undoubted(text)
    yield from literals.find(text, lambda joined: list(_plain(joined, scan)))


def _plain(data: bytes, scan: Scan) -> Iterator[Span]:
    yield from scan(data)
    text = Text.of(data)
    for rule in (*_EVERYWHERE, *_IN_LINES):
        yield from rule(text)
    yield from _undoubted(text)


def _undoubted(text: Text) -> Iterator[Span]:
    for rule in _WHERE_SAID:
        for span in rule(text):
            if not doubted(text, span):
                yield span


def _encoded(data: bytes, scan: Scan) -> Iterator[Span]:
    """Base64 of a text that holds a secret; one layer."""
    places: list[Span] = []
    texts: list[bytes] = []
    for found in _BASE64.finditer(data):
        value = found.group(1) or b""
        text = decoded_text(value)
        if text is None or len(text) < _LEAST or placeholder(value) or published(value):
            continue
        place = Span(found.start(1), found.end(1), "encoded")
        if _login(data, place.start, text):
            yield place
            continue
        places.append(place)
        texts.append(text)
    for number in dict.fromkeys(number for number, _ in _in_each(texts, lambda joined: _plain(joined, scan))):
        yield places[number]


def _login(data: bytes, at: int, text: bytes) -> bool:
    """Whether this is a user and a password behind a name such as `auth`."""
    user, colon, word = text.partition(b":")
    return bool(colon and user != word and b"auth" in data[max(0, at - 60) : at].lower()) and password(
        word, certain=True
    )
