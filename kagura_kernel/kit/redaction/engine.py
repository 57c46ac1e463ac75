"""Where the secrets of one text are: what every rule and the scanner for known formats say, and what is left after doubts."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.kit.redaction.false_positives import false_positive, named_openly
from kagura_kernel.kit.redaction.files import decoded_text
from kagura_kernel.kit.redaction.formats import fitted_to_json, fitted_to_lines, inner_texts, json_documents
from kagura_kernel.kit.redaction.known_rules import scanner
from kagura_kernel.kit.redaction.patterns import Lazy, Nearby, Text
from kagura_kernel.kit.redaction.rules import assignments, commands
from kagura_kernel.kit.redaction.rules.configurations import find as find_in_configurations
from kagura_kernel.kit.redaction.rules.documents import find_in_manifests, find_in_markup, find_in_rows, find_members
from kagura_kernel.kit.redaction.rules.keys import find_keys, find_seeds
from kagura_kernel.kit.redaction.rules.sentences import find_adjacent, find_said
from kagura_kernel.kit.redaction.rules.source import find_arguments, find_joined
from kagura_kernel.kit.redaction.rules.tokens import (
    ADDRESS_FORMS,
    SERVICE_FORMS,
    TOKEN_FORMS,
    find_in_addresses,
    find_in_headers,
    find_services,
    find_tokens,
)
from kagura_kernel.kit.redaction.spans import (
    Span,
    in_each,
    leaves_something,
    merged,
    places,
    said_places,
    said_regions,
    windows,
)
from kagura_kernel.kit.redaction.values import is_word, password, placeholder, published
from kagura_kernel.kit.redaction.visible import View, as_shown, without_prefixes

_LEAST = 8
"""Bytes of a text in base64 that could hold a secret."""
T = TypeVar("T")


def meanwhile(work: Callable[[], T], name: str = "kagura-redaction-scan") -> Future[T]:
    """Begin to work in a thread that keeps no process from ending: what comes of it, or what it raises."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        # Whatever it is, it is raised again where the result is asked for.
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    # A process that has all the threads it is allowed does it at once.
    except RuntimeError:
        run()
    return future


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
    if view is None:
        return _whole(data, scan)
    seen = view.outside(_whole(view.data, scan))
    # Letters that others were put over are not seen, and are still there.
    return chain(seen, _whole(data, scan)) if b"\x08" in data else seen


def _within_strings(texts: Sequence[View], scan: Scan) -> Iterator[Span]:
    """What is found in what strings mean, as places of the text around them."""
    views = [as_shown(text.data) for text in texts]
    shown = [text.data if view is None else view.data for text, view in zip(texts, views, strict=True)]
    found: dict[int, list[Span]] = {}
    for number, span in in_each(shown, lambda joined: _whole(joined, scan)):
        found.setdefault(number, []).append(span)
    for number, spans in found.items():
        view = views[number]
        yield from texts[number].outside(spans if view is None else view.outside(spans))


def _whole(data: bytes, scan: Scan) -> Iterator[Span]:
    # The scanner leaves the interpreter to others while it works.
    known = meanwhile(lambda: scan(data)).result if len(data) >= _LONG else lambda: scan(data)
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
    for number, span in in_each(list(starts), look):
        for shift in shifts[number]:
            yield Span(span.start + shift, span.end + shift, span.kind, span.quotes)


def _said(data: bytes, scan: Scan) -> Iterator[Span]:
    text = Text.of(data)
    yield from _believed(text)
    yield from find_joined(text, lambda joined: _plain(joined, scan))


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
    for number in dict.fromkeys(number for number, _ in in_each(texts, lambda joined: _plain(joined, scan))):
        yield places[number]


def _login(data: bytes, at: int, text: bytes) -> bool:
    """Whether this is a user and a password behind a name such as `auth`."""
    user, colon, word = text.partition(b":")
    return bool(colon and user != word and b"auth" in data[max(0, at - 60) : at].lower()) and password(
        word, certain=True
    )


_NOT_SECRET = re.compile(
    r"(?:client-id|user-api-id|access-id|account-id|key-id|token-id|app-id|application-id|tenant-id|account-name|cloud-name|token-name|"
    r"browserstack-username|-host|-url|-domain|-address|pub-key|public-key|pub-api-key|client-key|planetscale-id|service-account-id|"
    r"-repository|jfrog-url|project-url|public-api-token)$"
)
"""Rules for what goes with a secret and is none; webhooks are their own secret."""
_SECRET_ANYWAY = frozenset({"betterleaks.slack-webhook-url", "betterleaks.aws-access-token"})
_OURS = frozenset(
    {
        "betterleaks.private-key",
        "betterleaks.kubernetes-secret-yaml",
        "betterleaks.jwt",
        "betterleaks.generic-credential-uri",
        "betterleaks.curl-auth-user",
        "betterleaks.curl-auth-header",
        "betterleaks.nuget-config-password",
    }
)
"""What our own rules judge with more care: the frame of a key, the examples of standards, placeholders."""
_INNER = re.compile(rb"(?i);(?:sharedaccesskey|accountkey|password|pwd)=([^;\"'\s]+)")
"""What is secret in a connection string; some rules take all of it."""

_PIECE = 64 * 1024
"""Bytes that it is shown at once."""
_MARGIN = 2 * 1024
"""Bytes on both sides that it is shown with them: no known format is longer, nor are its parts further from each other."""


class KnownFormats:
    """Finds what has a known format. Safe to share between threads.

    Args:
        cache_dir: Where the compiled rules are kept, made as 0700; None keeps none.
    """

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._compiled: Future[Any] | None = None

    def warm(self) -> Future[Any]:
        """The compiled rules, which are begun unless they were, and again where that failed; returns at once."""
        with self._lock:
            if self._compiled is None or (self._compiled.done() and not self.ready):
                self._compiled = meanwhile(lambda: scanner(self._cache_dir), "kagura-redaction")
            return self._compiled

    @property
    def ready(self) -> bool:
        """Whether a scan answers at once."""
        return self._compiled is not None and self._compiled.done() and self._compiled.exception() is None

    def scan(self, data: bytes) -> Sequence[Span]:
        """What is known of a text of UTF-8; waits until the rules are compiled.

        Raises:
            RedactionUnavailable: They cannot be.
        """
        try:
            rules = (self._compiled or self.warm()).result()
        # The library is native: whatever it raises, nothing may be shown without it.
        except Exception as error:
            raise RedactionUnavailable(f"{type(error).__name__} while its rules were compiled") from error
        return list(_spans(rules, data))


def _spans(scanner: Any, data: bytes) -> Iterator[Span]:
    """What it finds in a text, which it is shown piece by piece: what it needs for one finding grows with the text."""
    for start, end in _pieces(data):
        low = max(0, start - _MARGIN)
        for found in scanner.scan(data[low : end + _MARGIN]):
            span = _span(data, low, found)
            if span is not None and start <= span.start < end:
                yield span


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    """Parts of a text that are together all of it, each up to a line's end if there is one."""
    at = 0
    while len(data) - at > _PIECE:
        end = data.rfind(b"\n", at + _PIECE // 2, at + _PIECE) + 1 or at + _PIECE
        yield at, end
        at = end
    yield at, len(data)


def _span(data: bytes, shift: int, found: Any) -> Span | None:
    rule = found.rule_id
    if not _judged(rule):
        return None
    place = found.location
    start, end = shift + place["start_offset"], shift + place["end_offset"]
    value = data[start:end]
    # The values of a whole document are judged by their names.
    inner = _INNER.search(value)
    if inner is not None:
        start, end, value = start + inner.start(1), start + inner.end(1), inner[1]
    if value.startswith(b"{") or placeholder(value) or published(value) or is_word(value) or len(value) < 6:
        return None
    return Span(start, end, kind(rule))


@cache
def _judged(rule: str) -> bool:
    """Whether what this rule finds is a secret, and none that our own rules judge."""
    return rule not in _OURS and (rule in _SECRET_ANYWAY or _NOT_SECRET.search(rule) is None)


@cache
def kind(rule: str) -> str:
    """The kind in the marker of what a rule of the scanner found: `betterleaks.github-pat` is `github-pat`."""
    name = re.sub(r"[^a-z0-9]+", "-", rule.rpartition(".")[2].rpartition("/")[2].lower()).strip("-")
    return name if name[:1].isalpha() else f"key-{name}"
