"""Where the secrets of one text are: what every rule and the scanner say, and what is left after doubts."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from kagura_kernel.kit.redaction.false_positives import false_positive, named_openly
from kagura_kernel.kit.redaction.files import decoded_text
from kagura_kernel.kit.redaction.formats import fitted_to_json, fitted_to_lines, inner_texts, json_documents
from kagura_kernel.kit.redaction.patterns import Lazy, Nearby, Text
from kagura_kernel.kit.redaction.places import (
    Span,
    leaves_something,
    merged,
    places,
    said_places,
    said_regions,
    windows,
)
from kagura_kernel.kit.redaction.rules import assignments, commands
from kagura_kernel.kit.redaction.rules.configurations import find as find_in_configurations
from kagura_kernel.kit.redaction.rules.documents import find_in_manifests, find_in_markup, find_in_rows, find_members
from kagura_kernel.kit.redaction.rules.keys import find_keys, find_seeds
from kagura_kernel.kit.redaction.rules.sentences import find_adjacent, find_said
from kagura_kernel.kit.redaction.rules.source import find_arguments, find_joined
from kagura_kernel.kit.redaction.rules.tokens import SERVICE_FORMS, TOKEN_FORMS, find_services, find_tokens
from kagura_kernel.kit.redaction.rules.web import ADDRESS_FORMS, find_in_addresses, find_in_headers
from kagura_kernel.kit.redaction.values import password, placeholder, published
from kagura_kernel.kit.redaction.visible import BETWEEN, View, as_shown, without_prefixes

_LEAST = 8
"""Bytes of a text in base64 that could hold a secret."""
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

_EVERYWHERE = (find_keys, find_seeds, find_in_manifests, find_in_rows)
"""What says itself that it is a secret, wherever it stands, and may go over many lines."""
_IN_LINES = (find_tokens, find_in_addresses, find_services)
"""The same, within a line or two."""
_WHERE_SAID = (
    find_in_headers, find_in_markup, assignments.find, commands.find, find_in_configurations, find_said,
    find_adjacent, find_arguments, find_members,
)  # fmt: skip
"""What is one because a word nearby says so."""
_THREE = r"[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\-]"
"""Base64 of three bytes that may be signs of ASCII; most runs of letters and digits begin otherwise."""
_BASE64 = Nearby(rf"(?:^|[^A-Za-z0-9+/=_\-])((?:{_THREE}){{4}}[A-Za-z0-9+/_\-]*={{0,2}})", ignore_case=False)
_SAYS_ITSELF = Lazy(
    "|".join(form.shortened(8) for form in (*TOKEN_FORMS, *ADDRESS_FORMS, *SERVICE_FORMS, _BASE64)), ignore_case=False
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
    view = as_shown(data)
    return _whole(data, scan) if view is None else view.outside(_whole(view.data, scan))


def _within_strings(texts: Sequence[View], scan: Scan) -> Iterator[Span]:
    """What is found in what strings mean, as places of the text around them."""
    views = [as_shown(text.data) for text in texts]
    shown = [text.data if view is None else view.data for text, view in zip(texts, views, strict=True)]
    found: dict[int, list[Span]] = {}
    for number, span in _in_each(shown, lambda joined: _whole(joined, scan)):
        found.setdefault(number, []).append(span)
    for number, spans in found.items():
        view = views[number]
        yield from texts[number].outside(spans if view is None else view.outside(spans))


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
    if lines.view.data:
        yield from lines.view.outside(_said_or_not(lines.view.data, scan))


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
    yield from _believed(text)
    yield from find_joined(text, lambda joined: list(_plain(joined, scan)))


def _plain(data: bytes, scan: Scan) -> Iterator[Span]:
    yield from scan(data)
    text = Text.of(data)
    for rule in (*_EVERYWHERE, *_IN_LINES):
        yield from rule(text)
    yield from _believed(text)


def _believed(text: Text) -> Iterator[Span]:
    for rule in _WHERE_SAID:
        for span in rule(text):
            if not false_positive(text, span):
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
