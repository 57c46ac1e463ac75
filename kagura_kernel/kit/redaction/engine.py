"""Where the secrets of one text are: what every rule and the scanner say, and what is left after doubts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from kagura_kernel.kit.redaction.encoded import decoded_text
from kagura_kernel.kit.redaction.json_forms import fitted_to_json, inner_texts, json_documents
from kagura_kernel.kit.redaction.line_forms import fitted_to_lines
from kagura_kernel.kit.redaction.patterns import Lazy, Text
from kagura_kernel.kit.redaction.plausible import password, placeholder, published
from kagura_kernel.kit.redaction.regions import said_regions, windows
from kagura_kernel.kit.redaction.rules import (
    assignments,
    commands,
    files,
    headers,
    keys,
    kubernetes,
    lists,
    literals,
    markup,
    prose,
    seeds,
    tokens,
    uris,
)
from kagura_kernel.kit.redaction.spans import Span, merged

Scan = Callable[[bytes], Sequence[Span]]
"""Finds what has a known format."""

_EVERYWHERE = (keys.find, tokens.find, uris.find, seeds.find, kubernetes.find, lists.find)
"""What says itself that it is a secret, wherever it stands."""
_WHERE_SAID = (
    headers.find, markup.find, assignments.find, commands.find, files.find, prose.find,
)  # fmt: skip
"""What is one because a word nearby says so."""
_BASE64 = Lazy(r"(?:^|[^A-Za-z0-9+/=_\-])([A-Za-z0-9+/_\-]{16,}={0,2})", ignore_case=False)
_MOST_BASE64 = 20000
_LEAST = 8
_LONG = 64 * 1024


def find(data: bytes, scan: Scan, name: str = "", near: Sequence[tuple[int, int]] = ()) -> list[Span]:
    """The secrets of a text, in order, none touching another.

    Args:
        data: UTF-8.
        scan: The scanner for known formats.
        name: What the text's file is called; its suffix says in which language a marker must be a text.
        near: Places that were changed since it was looked through; a long text is looked through around them alone.
    """
    documents = json_documents(data)
    if near and not documents and len(data) > _LONG:
        spans = list(_together(data, list(windows(data, near)), lambda text: _whole(text, scan)))
    else:
        spans = list(_whole(data, scan))
    for document in documents:
        for text in inner_texts(data, document):
            spans += text.outside(_whole(text.data, scan))
    found = merged(data, spans)
    for document in documents:
        found = fitted_to_json(data, found, document)
    return merged(data, fitted_to_lines(data, found, name))


def _whole(data: bytes, scan: Scan) -> Iterator[Span]:
    yield from scan(data)
    text = Text.of(data)
    for rule in _EVERYWHERE:
        yield from rule(text)
    yield from _encoded(text, scan)
    parts = list(said_regions(text))
    if parts:
        yield from _together(text, parts, lambda said: _said(said, scan))


_BETWEEN = b"\n\x00\n"
"""What no secret goes across."""


def _together(data: bytes, parts: Sequence[tuple[int, int]], look: Callable[[bytes], Iterator[Span]]) -> Iterator[Span]:
    """Looks through all parts at once: many short texts cost far more than a long one."""
    if list(parts) == [(0, len(data))]:
        yield from look(data)
        return
    begins = [0]
    for start, end in parts:
        begins.append(begins[-1] + end - start + len(_BETWEEN))
    for span in look(_BETWEEN.join([data[start:end] for start, end in parts])):
        number = bisect_right(begins, span.start) - 1
        start, end = parts[number]
        shift = start - begins[number]
        if span.end + shift <= end:
            yield Span(span.start + shift, span.end + shift, span.kind, span.further, span.quoted)


def _said(data: bytes, scan: Scan) -> Iterator[Span]:
    text = Text.of(data)
    for rule in _WHERE_SAID:
        yield from rule(text)
    yield from literals.find(text, lambda joined: list(_plain(joined, scan)))


def _plain(data: bytes, scan: Scan) -> Iterator[Span]:
    yield from scan(data)
    text = Text.of(data)
    for rule in (*_EVERYWHERE, *_WHERE_SAID):
        yield from rule(text)


def _encoded(data: bytes, scan: Scan) -> Iterator[Span]:
    """Base64 of a text that holds a secret; one layer."""
    for number, found in enumerate(_BASE64.finditer(data)):
        if number >= _MOST_BASE64:
            return
        value = found.group(1) or b""
        text = decoded_text(value)
        if text is None or len(text) < _LEAST:
            continue
        if placeholder(value) or published(value):
            continue
        if _login(data, found.start(1), text) or next(iter(_plain(text, scan)), None) is not None:
            yield Span(found.start(1), found.end(1), "encoded")


def _login(data: bytes, at: int, text: bytes) -> bool:
    """Whether this is a user and a password behind a name such as `auth`."""
    user, colon, word = text.partition(b":")
    return bool(colon and user != word and b"auth" in data[max(0, at - 60) : at].lower()) and password(
        word, certain=True
    )
