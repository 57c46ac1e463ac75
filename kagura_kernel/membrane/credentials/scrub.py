"""Hiding live secrets in what a box prints, before anyone sees it, stores it, or sends it to a brain.

Streams are scrubbed as they come, also where a secret is cut by the border of two pieces or by line ends. The work is
linear in the text; the number of secrets is a factor. What is held back is bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import AnyStr

from kagura_kernel.membrane.credentials.needles import as_bytes, flatten, needles
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

_LINE_END = re.compile("[\r\n]")
_AT_LINE_END = 4
_SEEN = _AT_LINE_END - 1
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
        self._byte_needles: tuple[bytes, ...] = ()

    def scrub(self, text: str) -> str:
        """A whole text with `(hidden)` for every secret, in whatever usual form."""
        looked_for = self.needles()
        if not looked_for or not text:
            return text
        spans = find_all(flatten(text), looked_for)
        return _replaced(text, spans, _breaks(text), len(text)) if spans else text

    def stream(self) -> ScrubbedStream:
        """For one text that comes in pieces; each stream of output needs its own."""
        return ScrubbedStream(self.needles)

    def filter(self) -> ScrubbedBytes:
        """For one stream of bytes in whatever encoding; a `domain.commands.OutputFilter`."""
        return ScrubbedBytes(self.byte_needles)

    def search(self) -> SecretSearch:
        """For asking whether a content that comes in pieces holds a secret."""
        return SecretSearch(self.byte_needles)

    def holds(self, data: bytes) -> bool:
        """Whether a whole content holds a secret, in whatever usual form."""
        return self.search().feed(data)

    def needles(self) -> tuple[str, ...]:
        """What is looked for in text just now, without line ends, the longest first."""
        self._refresh()
        return self._needles

    def byte_needles(self) -> tuple[bytes, ...]:
        """What is looked for in bytes just now, without line ends, the longest first."""
        self._refresh()
        return self._byte_needles

    def _refresh(self) -> None:
        secrets = self._secrets()
        if len(secrets) != self._count:
            self._needles = needles(secrets)
            self._byte_needles = as_bytes(self._needles)
            self._count = len(secrets)


class ScrubbedStream:
    """One stream. What might be the beginning of a secret is held back until the next piece, or the end, tells.

    Of a secret that begins in the last three characters of a finished line those three may be seen, and no more.
    """

    def __init__(self, look_for: Callable[[], tuple[str, ...]]) -> None:
        self._look_for = look_for
        self._held = ""
        self._seen = ""
        """The last characters that were shown, without line ends: a secret may have begun in them."""

    def feed(self, piece: str) -> str:
        """What may be shown after this piece; the rest follows later."""
        text = self._held + piece
        looked_for = self._look_for()
        if not looked_for or not text:
            self._held = self._seen = ""
            return text
        flat = self._seen + flatten(text)
        spans = find_all(flat, looked_for)
        held_from = _hold_from(flat, looked_for, at_line_end=text[-1] in "\r\n")
        for start, end in reversed(spans):
            if start < held_from < end:
                held_from = start
        shown, held = _parted(text, flat, len(self._seen), spans, held_from)
        if len(held) > _most_held(looked_for):
            # Line ends without number, or secrets that overlap without end: no program means them, and what is held
            # back may not fill the memory.
            held_from = len(flat)
            shown, held = _parted(text, flat, len(self._seen), spans, held_from)
        end = max(held_from, len(self._seen))
        self._held, self._seen = held, flat[max(0, end - _SEEN) : end]
        return shown

    def finish(self) -> str:
        """What was held back; the stream is at its end."""
        text, self._held = self._held, ""
        if not text:
            return ""
        flat = self._seen + flatten(text)
        shown, _ = _parted(text, flat, len(self._seen), find_all(flat, self._look_for()), len(flat))
        return shown


class ScrubbedBytes:
    """One stream of bytes, scrubbed like text; every byte that is no part of a secret passes as it is."""

    def __init__(self, look_for: Callable[[], tuple[bytes, ...]]) -> None:
        self._look_for = look_for
        self._known: tuple[bytes, ...] = ()
        self._letters: tuple[str, ...] = ()
        self._stream = ScrubbedStream(lambda: self._letters)
        self._idle = True

    def feed(self, data: bytes) -> bytes:
        """What may be seen after these bytes; the rest follows later."""
        self._look()
        if self._idle:
            return data
        # In Latin-1 every byte is one character, and every character one byte.
        return self._stream.feed(data.decode("latin-1")).encode("latin-1")

    def finish(self) -> bytes:
        """What was held back; the stream is at its end."""
        self._look()
        return self._stream.finish().encode("latin-1")

    def _look(self) -> None:
        known = self._look_for()
        if known is not self._known:
            self._known, self._idle = known, not known
            self._letters = tuple(one.decode("latin-1") for one in known)


class SecretSearch:
    """Whether one content, which comes in pieces, holds a secret; a piece is looked at once."""

    def __init__(self, look_for: Callable[[], tuple[bytes, ...]]) -> None:
        self._look_for = look_for
        self._tail = b""
        self._found = False

    def feed(self, piece: bytes) -> bool:
        """Whether a secret has been found up to here."""
        looked_for = self._look_for()
        if self._found or not looked_for:
            return self._found
        flat = self._tail + piece.replace(b"\n", b"").replace(b"\r", b"")
        self._found = any(needle in flat for needle in looked_for)
        self._tail = flat[-len(looked_for[0]) :]
        return self._found


def find_all(flat: AnyStr, looked_for: Sequence[AnyStr]) -> list[Span]:
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


def _most_held(looked_for: Sequence[str]) -> int:
    return 4 * len(looked_for[0]) + 1024


def _parted(text: str, flat: str, seen: int, spans: Sequence[Span], held_from: int) -> tuple[str, str]:
    """What is shown of a text, and what is held back of it; places are those of `flat`, of which `seen` was shown."""
    whole = held_from >= len(flat)
    hidden = [(max(start - seen, 0), end - seen) for start, end in spans if seen < end <= held_from]
    breaks = _breaks(text) if len(flat) - seen != len(text) and (hidden or not whole) else []
    held = max(held_from - seen, 0)
    cut = len(text) if whole else held + bisect_right(breaks, held)
    return _replaced(text, hidden, breaks, cut), text[cut:]


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
