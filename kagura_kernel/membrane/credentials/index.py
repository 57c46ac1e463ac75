"""Many needles found at once in folded bytes, in a time that hardly hangs on how many or how long they are. Pure.

Every eighth byte (or every sixteenth, where the needles are long enough) eight bytes are looked up: a needle cannot
stand there, nor a longer beginning of one at the end, without one of its own eight bytes being met.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from kagura_kernel.membrane.credentials.folding import Fold, Places, Spelling

Span = tuple[int, int]

_WORD = 8
_ORDER = sys.byteorder
_MOST_STEPS = 4
_LONG = 2 * _WORD - 1
_STRICT_BELOW = 16
_HEAD = 4


class NeedleIndex:
    """Needles under one fold.

    Attributes:
        fold: How a text has to be folded for it.
        longest: Bytes of the longest needle.

    Args:
        forms: What is looked for, not folded; each has four bytes at least when it is.
        fold: How they are folded.
        strict: Whether short ones must be spelt as they are.
    """

    def __init__(self, forms: Iterable[bytes], fold: Fold, *, strict: bool) -> None:
        self.fold = fold
        self._spelt: dict[bytes, list[Spelling]] = {}
        needles: set[bytes] = set()
        for form in forms:
            needle = fold(form)
            needles.add(needle)
            if strict and len(needle) < _STRICT_BELOW:
                self._spelt.setdefault(needle, []).append(Spelling(form))
        self._sorted = sorted(needles)
        self.longest = max(map(len, needles), default=0)
        self._short = [needle for needle in self._sorted if len(needle) < _LONG]
        long = [needle for needle in self._sorted if len(needle) >= _LONG]
        least = min(map(len, long), default=_LONG)
        self._step = min((least - _WORD + 1) // _WORD, _MOST_STEPS)
        self._words: dict[int, list[tuple[bytes, int]]] = {}
        for needle in long:
            for offset in range(self._step * _WORD):
                word = int.from_bytes(needle[offset : offset + _WORD], _ORDER)
                self._words.setdefault(word, []).append((needle, offset))
        self._near = max((self._step + 1) * _WORD, max(map(len, self._short), default=0))
        heads = sorted({needle[:_HEAD] for needle in self._sorted})
        self._heads = re.compile(b"|".join(map(re.escape, heads)) or rb"(?!)", re.DOTALL)
        self._stubs = {head[:size] for head in heads for size in range(1, _HEAD)}

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def look(self, flat: bytes, text: bytes) -> tuple[list[Span], int]:
        """Where needles stand, in order, what overlaps as one; and from where on the end might be a needle's beginning.

        Args:
            flat: The fold
            text: of this text.
        """
        spans, waits_from = self._met(flat)
        for needle in self._short:
            at = flat.find(needle)
            while at >= 0:
                spans.append((at, at + len(needle)))
                at = flat.find(needle, at + 1)
        spans.sort()
        if self._spelt and spans:
            spans = self._as_spelt(spans, flat, text)
        return _merged(spans), self._beginning(flat, waits_from)

    def beginnings(self, flat: bytes) -> list[bytes]:
        """The needles that begin so, and go on."""
        first = bisect_left(self._sorted, flat)
        those = takewhile(lambda needle: needle.startswith(flat), self._sorted[first:])
        return [needle for needle in those if len(needle) > len(flat)]

    def _met(self, flat: bytes) -> tuple[list[Span], int]:
        """The long needles, and the earliest long beginning."""
        spans: list[Span] = []
        waits_from = len(flat)
        words = memoryview(flat)[: len(flat) // _WORD * _WORD].cast("Q")[:: self._step]
        if self._words.keys().isdisjoint(words):
            return spans, waits_from
        for number, word in enumerate(words):
            for needle, offset in self._words.get(word, ()):
                start = number * self._step * _WORD - offset
                if start < 0:
                    continue
                if start + len(needle) > len(flat):
                    if start < waits_from and needle.startswith(flat[start:]):
                        waits_from = start
                elif flat.startswith(needle, start):
                    spans.append((start, start + len(needle)))
        return spans, waits_from

    def _beginning(self, flat: bytes, known: int) -> int:
        """The earliest beginning, when that of the long ones is known."""
        found = self._heads.search(flat, max(0, len(flat) - self._near))
        while found is not None and found.start() < known:
            if self._begins(flat[found.start() :]):
                return found.start()
            found = self._heads.search(flat, found.start() + 1)
        for size in range(min(_HEAD - 1, len(flat)), 0, -1):
            if len(flat) - size < known and flat[-size:] in self._stubs:
                return len(flat) - size
        return known

    def _begins(self, flat: bytes) -> bool:
        place = bisect_left(self._sorted, flat)
        place += place < len(self._sorted) and self._sorted[place] == flat
        return place < len(self._sorted) and self._sorted[place].startswith(flat)

    def _as_spelt(self, spans: Sequence[Span], flat: bytes, text: bytes) -> list[Span]:
        places = Places(text, self.fold)
        return [span for span in spans if self._fits(flat[slice(*span)], span, text, places.of)]

    def _fits(self, needle: bytes, span: Span, text: bytes, place: Callable[[int], int]) -> bool:
        spellings = self._spelt.get(needle)
        if spellings is None:
            return True
        shown = text[place(span[0]) : place(span[1] - 1) + 1]
        return any(spelling.fits(shown) for spelling in spellings)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
