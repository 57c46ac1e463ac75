"""JSON, YAML and TOML stay what they are: where a marker may stand in them, and what their strings mean."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.spans import Span, put_markers
from kagura_kernel.kit.redaction.values import is_word
from kagura_kernel.kit.redaction.visible import Gathered, View, plainly_harmless

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


def inner_texts(data: bytes, document: Region) -> Iterator[View]:
    """What strings with escapes mean, when it could hold a secret."""
    group: list[tuple[int, int]] = []
    for found in _STRING.finditer(data, *document):
        name = data[found.end() : found.end() + 8].lstrip()[:1] == b":"
        if group and (name or data[group[-1][1] + 1 : found.start()].strip() != b","):
            yield from _decoded(data, group)
            group = []
        group.append(found.span(1))
    yield from _decoded(data, group)


def _decoded(data: bytes, group: Sequence[tuple[int, int]]) -> Iterator[View]:
    if not group or not any(b"\\" in data[start:end] for start, end in group):
        return
    meant = Gathered()
    for start, end in group:
        for part in _PART.finditer(data, start, end):
            meant.put(_means(part.group()), *part.span())
    view = meant.view()
    if len(view.data) >= _LEAST and not plainly_harmless(view.data):
        yield view


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


_MOST = 4 * 1024 * 1024
_MOST_UNNAMED = 64 * 1024
_YAML_FORMS_COMMENT = re.compile(rb"#[^\n]*")
LINE_ENDS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""What ends a line for Unicode, and so for YAML, and for nobody else: NEL and the two separators."""
_BLANKS = (b" ", b"\t", b"\n", b"\r", *LINE_ENDS)
_ESCAPES = {
    '"': re.compile(rb"\\(?:x..|u....|U........|\r\n|.)", re.DOTALL),
    "'": re.compile(rb"''"),
}
_NO_TEXTS = frozenset(("!!", kind) for kind in ("null", "bool", "int", "float", "timestamp", "binary"))
"""Tags under which a marker, which is a text, could not stand."""
_SAID_BEFORE = frozenset({"password", "token", "secret", "session", "api-key"})
"""Kinds of what counts for the name before it; a key has none."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a secret may stand: a value, a key or a comment."""

    start: int  # where its text begins, behind an opening quote
    end: int  # before a closing quote
    # `"`, `'`, `|` or `>`; `#` of a comment, empty of a plain value, `!` of one with the tag of a number, a truth or
    # nothing, which is a part of it.
    style: str
    key: bool = False  # whether a value follows it
    flow: bool = False  # whether it stands in brackets or braces


def fitted_to_yaml(data: bytes, spans: Sequence[Span]) -> list[Span] | None:
    """The same secrets, each within one value, key or comment; None when the text is no YAML.

    A plain value that begins with a marker, or stands in brackets, becomes a marker in quotes as a whole.
    """
    places = _places(data)
    if places is None:
        return None
    begins = [place.start for place in places]
    out: list[Span] = []
    for span in spans:
        before: _Place | None = None
        number = max(bisect_right(begins, span.start) - 1, 0)
        while number < len(places) and begins[number] < span.end:
            place = places[number]
            piece = _piece(data, span, place)
            if piece is not None and not (place.key and (before is not None or span.kind in _SAID_BEFORE)):
                out.append(piece)
                before = place
            number += 1
    return _each_once(out)


def _each_once(spans: Sequence[Span]) -> list[Span]:
    """Two secrets of one plain value are one marker."""
    out: list[Span] = []
    for span in spans:
        if out and span.start < out[-1].end:
            out[-1] = replace(out[-1], end=max(out[-1].end, span.end), quotes=out[-1].quotes or span.quotes)
        else:
            out.append(span)
    return out


def broken_yaml(data: bytes, spans: Sequence[Span]) -> bool:
    """Whether this text of no known kind is a document of YAML, and would be none or another one with its markers.

    A single line is a document only when its marker breaks it: most such lines are of logs and of talks.
    """
    if not spans or len(data) > _MOST_UNNAMED:
        return False
    before = _lists(data)
    if before is None or (not _FLOW.match(data) and any(_CODE.match(_line_before(data, span)) for span in spans)):
        return False
    after = _lists(put_markers(data, list(spans))[0])
    return after is None or (after > before and b"\n" in data.strip())


_CODE = re.compile(rb"[ \t]*(?!-[ \t])[^\s\"'#:{\[](?:[^:\n#]|:(?!\s))*[\"'{\[`]")
"""A key that YAML takes as it stands and nobody writes: a command or a call up to the first colon of its literal.

As a member of a list it is one that somebody wrote, and a parser takes it for a mapping. Within brackets around all
of it there are no such keys, and a line may begin in the middle of a value.
"""
_FLOW = re.compile(rb"\s*[{\[]")


def _line_before(data: bytes, span: Span) -> bytes:
    return data[data.rfind(b"\n", 0, span.start) + 1 : span.start]


def _lists(data: bytes) -> int | None:
    """How many lists in brackets this document has, as a marker without quotes is one; None when it is no document."""
    import yaml

    try:
        events = list(yaml.parse(data.decode("utf-8", "replace"), Loader=_loader()))
    except (yaml.YAMLError, RecursionError):
        return None
    if not any(isinstance(event, yaml.CollectionStartEvent) for event in events[2:3]):
        return None
    return sum(isinstance(event, yaml.SequenceStartEvent) and bool(event.flow_style) for event in events)


def _loader() -> Any:
    """The parser in C where it is built, which is fifty times as fast."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _places(data: bytes) -> list[_Place] | None:
    import yaml

    if len(data) > _MOST:
        return None
    text = data.decode("utf-8", "surrogatepass")
    bytes_at = _BytesAt(text)
    places: list[_Place] = []
    tag: int | None = None
    key = False
    depth = at = 0
    try:
        for token in yaml.scan(text.removeprefix("\ufeff"), Loader=_loader()):
            if not isinstance(token, yaml.ScalarToken | yaml.AnchorToken):
                named = isinstance(token, yaml.TagToken) and token.value in _NO_TEXTS
                tag = bytes_at(token.start_mark.index) if named else None
            if isinstance(token, yaml.ScalarToken):
                start, end = bytes_at(token.start_mark.index), bytes_at(token.end_mark.index)
                places += _comments(data, at, start if tag is None else tag)
                place = _scalar(data, (start, end), token.style or "", key=key, flow=depth > 0)
                places.append(place if tag is None else replace(place, start=tag, end=end, style="!"))
                key, at, tag = False, end, None
            elif isinstance(token, yaml.KeyToken | yaml.ValueToken):
                key = isinstance(token, yaml.KeyToken)
            elif isinstance(token, yaml.FlowMappingStartToken | yaml.FlowSequenceStartToken):
                depth += 1
            elif isinstance(token, yaml.FlowMappingEndToken | yaml.FlowSequenceEndToken):
                depth -= 1
    except (yaml.YAMLError, RecursionError, UnicodeError):
        return None
    places += _comments(data, at, len(data))
    return places


class _BytesAt:
    """Places of characters as places of bytes; asked in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._mark = int(text.startswith("\ufeff"))
        self._ascii = text.isascii()
        self._at = self._bytes = 0

    def __call__(self, index: int) -> int:
        index += self._mark
        if self._ascii:
            return index
        if index < self._at:
            self._at = self._bytes = 0
        self._bytes += len(self._text[self._at : index].encode("utf-8", "surrogatepass"))
        self._at = index
        return self._bytes


def _comments(data: bytes, start: int, end: int) -> Iterator[_Place]:
    for found in _YAML_FORMS_COMMENT.finditer(data, start, end):
        yield _Place(*found.span(), "#")


def _scalar(data: bytes, place: tuple[int, int], style: str, *, key: bool, flow: bool) -> _Place:
    start, end = place
    if style in {'"', "'"}:
        return _Place(start + 1, end - 1, style, key, flow)
    if style in {"|", ">"}:
        start = data.find(b"\n", start, end) + 1 or end
        value = data[start:end]
        end = end_before(data, start, end, _BLANKS)
        return _Place(min(start + len(value) - len(value.lstrip()), end), end, style, key, flow)
    return _Place(start, start + len(data[start:end].rstrip()), style, key, flow)


def end_before(data: bytes, start: int, end: int, endings: tuple[bytes, ...]) -> int:
    """Where what stands there ends without any of these endings; in time that grows with their number alone."""
    while end > start and (ending := next((one for one in endings if data.endswith(one, start, end)), b"")):
        end -= len(ending)
    return end


def _piece(data: bytes, span: Span, place: _Place) -> Span | None:
    """What of a secret stands in one place."""
    start, end = max(span.start, place.start), min(span.end, place.end)
    if start >= end:
        return None
    if place.style == "!":
        return replace(span, start=place.start, end=place.end, quotes='"')
    if not place.style:
        if start == place.start or place.flow:
            return replace(span, start=place.start, end=place.end, quotes='"')
        return replace(span, start=start, end=end)
    if place.style in _ESCAPES:
        # What begins in the middle of an escape, or ends there, takes all of it.
        for escape in _ESCAPES[place.style].finditer(data, place.start, place.end):
            if escape.start() <= start < end <= escape.end():
                return None  # one character, however it is written
            if escape.start() < start < escape.end():
                start = escape.start()
            if escape.start() < end < escape.end():
                end = escape.end()
    return replace(span, start=start, end=end)


_YAML = Lazy(
    r"(?:\xef\xbb\xbf)?[ \t]*(?:-[ \t]+|\?[ \t]+)*(?:(?:[^\s\"'#:{}\[\],&*!|>%@`-][^\"'#{}\[\],]*|\"[^\"]*\"|'[^']*'):[ \t]+|-[ \t]+)(?:[&!]\S+[ \t]+)*"
)
_IN_FLOW = Lazy(r"(?:^|[:\-,{\[][ \t]*)[{\[]")
_TOML = Lazy(r"[ \t]*[\w.\"'\-]+[ \t]*=[ \t]*")
_COMMENT = re.compile(rb"\s#")
_FLOW_END = re.compile(rb"[,}\]]")


PIECE = "piece"
"""The name of what is only a part of something, whose language is not guessed at."""


def fitted_to_lines(data: bytes, spans: Sequence[Span], name: str) -> list[Span]:
    """The same secrets, with quotes where a bare marker would be a list: told by the file's name.

    A text without a name is left alone, unless it is YAML and would not be any more.
    """
    spans = [
        _whole_escape(data, _yaml_before_escape(data, _before_line_end(data, _within_literal(data, span))))
        for span in spans
    ]
    suffix = name.lower().rpartition(".")[2]
    if suffix == "toml":
        return [_fitted(data, span, toml=True) for span in spans]
    if not spans or (suffix not in {"yaml", "yml"} and (name or not broken_yaml(data, spans))):
        return spans
    fitted = fitted_to_yaml(data, spans)
    # Templates and broken files are no YAML yet; their lines mostly are.
    return fitted if fitted is not None else [_fitted(data, span, toml=False) for span in spans]


def _within_literal(data: bytes, span: Span) -> Span:
    """Without the end of the literal that it begins in, and what follows there: `note('密码是…')`."""
    value = data[span.start : span.end]
    if b"\n" in value or not _QUOTE.search(value):
        return span
    before = data[max(data.rfind(b"\n", 0, span.start) + 1, span.start - _REACH) : span.start]
    open_ones = _OPENER.findall(_CLOSED.sub(b"", before))
    for found in _LITERAL_END.finditer(value, 1):
        if found[0] in open_ones:
            return replace(span, end=span.start + found.start())
    return span


_QUOTE = re.compile(rb"[\"'`]")
_LITERAL_END = re.compile(rb"(?<!\\)[\"'`](?=[)\]},;:\s]|\Z)")
_OPENS = rb"(?<![0-9A-Za-z])[bBrRuUfFN]{0,2}"
"""Behind a letter a quote is an apostrophe, unless the letter says of what kind the literal is."""
_CLOSED = re.compile(_OPENS + rb"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`[^`]*+`)")
_OPENER = re.compile(_OPENS + rb"([\"'`])")
_REACH = 500


def _before_line_end(data: bytes, span: Span) -> Span:
    """Without the ends of lines behind the secret that only Unicode, and so YAML, takes for such."""
    end = end_before(data, span.start, span.end, LINE_ENDS)
    return span if end == span.end else replace(span, end=end)


def _yaml_before_escape(data: bytes, span: Span) -> Span:
    """Without the sign that keeps a quote from ending the text around the secret."""
    if data[span.end : span.end + 1] not in {b'"', b"'"}:
        return span
    value = data[span.start : span.end]
    # Two of them are a backslash of the secret.
    odd = (len(value) - len(value.rstrip(b"\\"))) % 2
    return replace(span, end=span.end - 1) if odd else span


def _whole_escape(data: bytes, span: Span) -> Span:
    """With the backslash of the escape that it begins in: one before a marker is no escape."""
    if not _ESCAPED.match(data, span.start):
        return span
    before = data[max(0, span.start - _REACH) : span.start]
    odd = (len(before) - len(before.rstrip(b"\\"))) % 2
    return replace(span, start=span.start - 1) if odd else span


_ESCAPED = re.compile(rb"u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}")


def _fitted(data: bytes, span: Span, *, toml: bool) -> Span:
    if span.quotes or b"\n" in data[span.start : span.end]:
        return span
    begin = data.rfind(b"\n", 0, span.start) + 1
    end = data.find(b"\n", span.end)
    end = len(data) if end < 0 else end
    before, rest = data[begin : span.start], data[span.end : end]
    if toml:
        return replace(span, quotes='"') if _TOML.fullmatch(before) and not rest.startswith((b'"', b"'")) else span
    if _YAML.fullmatch(before) is not None:
        comment = _COMMENT.search(rest)
        rest = rest[: comment.start()] if comment is not None else rest
    elif _IN_FLOW.search(before) is not None and before.count(b'"') % 2 == 0 and before.count(b"'") % 2 == 0:
        closed = _FLOW_END.search(rest)
        rest = rest[: closed.start()] if closed is not None else rest
        opened = max(before.rfind(mark) + len(mark) for mark in (b"{", b"[", b",", b": "))
        start = begin + opened + len(before[opened:]) - len(before[opened:].lstrip())
        return replace(span, start=start, end=span.end + len(rest.rstrip()), quotes='"')
    else:
        return span
    # What goes on behind the secret is of the same plain value: a quoted text cannot be followed by anything.
    return replace(span, end=span.end + len(rest.rstrip()), quotes='"')
