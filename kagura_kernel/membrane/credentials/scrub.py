"""Hiding live secrets in what a box prints, before anyone sees it, stores it, or sends it to a brain.

Streams are scrubbed as they come, also where a secret is cut by the border of two pieces or by line ends. The work is
linear in the text; the number of secrets is a factor.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from kagura_kernel.membrane.credentials.needles import flatten, needles
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

_LINE_END = re.compile("[\r\n]")
_AT_LINE_END = 4
Span = tuple[int, int]


class Scrubber:
    """Knows what must not be shown. What it is told of later counts from the next piece of text on."""

    def __init__(self, secrets: Callable[[], Sequence[Secret]]) -> None:
        """A scrubber for secrets that may become more.

        Args:
            secrets: All of them so far, in the order they came; only ever longer. `CredentialBroker.seen_secrets`.
        """
        self._secrets = secrets
        self._count = -1
        self._needles: tuple[str, ...] = ()

    def scrub(self, text: str) -> str:
        """A whole text with `(hidden)` for every secret, in whatever usual form."""
        stream = self.stream()
        return stream.feed(text) + stream.finish()

    def stream(self) -> ScrubbedStream:
        """For one text that comes in pieces; each stream of output needs its own."""
        return ScrubbedStream(self.needles)

    def needles(self) -> tuple[str, ...]:
        """What is looked for just now."""
        secrets = self._secrets()
        if len(secrets) != self._count:
            self._needles, self._count = needles(secrets), len(secrets)
        return self._needles


class ScrubbedStream:
    """One stream. What might be the beginning of a secret is held back until the next piece, or the end, tells."""

    def __init__(self, look_for: Callable[[], tuple[str, ...]]) -> None:
        self._look_for = look_for
        self._held = ""

    def feed(self, piece: str) -> str:
        """What may be shown after this piece; the rest follows later."""
        text = self._held + piece
        looked_for = self._look_for()
        if not looked_for or not text:
            self._held = ""
            return text
        flat = flatten(text)
        spans = find_all(flat, looked_for)
        held_from = _hold_from(flat, looked_for, at_line_end=text[-1] in "\r\n")
        for start, end in reversed(spans):
            if start < held_from < end:
                held_from = start
        spans = [span for span in spans if span[1] <= held_from]
        breaks = _breaks(text) if len(flat) != len(text) and (spans or held_from < len(flat)) else []
        cut = held_from + bisect_right(breaks, held_from) if held_from < len(flat) else len(text)
        self._held = text[cut:]
        return _replaced(text, spans, breaks, cut)

    def finish(self) -> str:
        """What was held back; the stream is at its end."""
        text, self._held = self._held, ""
        if not text:
            return ""
        flat = flatten(text)
        spans = find_all(flat, self._look_for())
        return _replaced(text, spans, _breaks(text) if spans else [], len(text))


def find_all(flat: str, looked_for: Sequence[str]) -> list[Span]:
    """Where any of these stands, in order; what overlaps is one."""
    spans: list[Span] = []
    for needle in looked_for:
        at = flat.find(needle)
        while at >= 0:
            spans.append((at, at + len(needle)))
            at = flat.find(needle, at + len(needle))
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _hold_from(flat: str, looked_for: Sequence[str], *, at_line_end: bool) -> int:
    """From where on the text might be the beginning of one of these; its length when nowhere.

    At the end of a line so little says nothing: otherwise a finished line would often wait for the next one.
    """
    least = _AT_LINE_END if at_line_end else 1
    earliest = len(flat)
    for needle in looked_for:
        at = flat.find(needle[0], max(0, len(flat) - len(needle) + 1))
        while 0 <= at < earliest and len(flat) - at >= least:
            if needle.startswith(flat[at:]):
                earliest = at
            else:
                at = flat.find(needle[0], at + 1)
    return earliest


def _breaks(text: str) -> list[int]:
    """For each line end, how many other characters stand before it."""
    return [found.start() - number for number, found in enumerate(_LINE_END.finditer(text))]


def _replaced(text: str, spans: Sequence[Span], breaks: Sequence[int], cut: int) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        first = start + bisect_right(breaks, start)
        last = end - 1 + bisect_right(breaks, end - 1)
        pieces += (text[done:first], HIDDEN)
        done = last + 1
    pieces.append(text[done:cut])
    return "".join(pieces)
