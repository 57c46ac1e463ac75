"""Patterns on an engine that is linear in its text; they match bytes of UTF-8."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Protocol

_MEMORY = 64 << 20
"""Bytes for the states of one pattern; with less, a pattern with many words falls back to a slow walk."""


class Match(Protocol):
    """Where a pattern was found."""

    def start(self, group: int = 0, /) -> int:
        """Where the group begins; -1 when it took no part."""
        ...

    def end(self, group: int = 0, /) -> int:
        """Behind its last byte; -1 when it took no part."""
        ...

    def group(self, group: int = 0, /) -> bytes | None:
        """What it matched; None when it took no part."""
        ...


class _Found:
    """A match on the places that the engine gives; its own wrapper costs more than most searches."""

    __slots__ = ("_data", "_spans")

    def __init__(self, data: bytes, spans: Sequence[tuple[int, int]]) -> None:
        self._data = data
        self._spans = spans

    def start(self, group: int = 0, /) -> int:
        return self._spans[group][0]

    def end(self, group: int = 0, /) -> int:
        return self._spans[group][1]

    def group(self, group: int = 0, /) -> bytes | None:
        start, end = self._spans[group]
        return self._data[start:end] if start >= 0 else None


class Text(bytes):
    """A text that was looked through once for what every pattern must have in it."""

    possible: frozenset[int]
    """The numbers of the patterns that may match."""

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The same bytes, looked through; far quicker than one pattern, and most of them need not be tried then."""
        if type(data) is cls:
            return data
        text = cls(data)
        text.possible = _gate().possible(data)
        return text


class Lazy:
    r"""A pattern that is compiled when it is first used; from then on it may be used by any thread.

    Args:
        text: In the syntax of RE2: no looking around, no references; `\w`, `\s` and `\b` know ASCII alone.
        ignore_case: Whether ASCII letters match in both cases.
    """

    def __init__(self, text: str, *, ignore_case: bool = True) -> None:
        self._number = len(_EVERY)
        self._search: tuple[Any, _Gate] | None = None
        _EVERY.append((text, ignore_case))

    def finditer(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Iterator[Match]:
        """Every match from left to right, none touching another."""
        # Most patterns end here for most texts: without a generator it costs a third.
        if type(data) is Text and self._number not in data.possible:
            return iter(())
        return self._walked(data, pos, len(data) if endpos is None else min(endpos, len(data)))

    def _walked(self, data: bytes, pos: int, last: int) -> Iterator[Match]:
        match, gate = self._search or self._compiled()
        anywhere = gate.anywhere
        while pos <= last:
            spans = match(anywhere, data, pos, last)
            start, end = spans[0]
            if start < 0:
                return
            yield _Found(data, spans)
            # An empty match would be found again and again.
            pos = end if end > pos else pos + 1

    def search(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Match | None:
        """The first match."""
        if type(data) is Text and self._number not in data.possible:
            return None
        match, gate = self._search or self._compiled()
        return _one(match, gate.anywhere, data, pos, len(data) if endpos is None else min(endpos, len(data)))

    def match(self, data: bytes, pos: int = 0) -> Match | None:
        """The match that begins right there."""
        match, gate = self._search or self._compiled()
        return _one(match, gate.there, data, pos, len(data))

    def fullmatch(self, data: bytes) -> Match | None:
        """The match of the whole text."""
        match, gate = self._search or self._compiled()
        return _one(match, gate.whole, data, 0, len(data))

    def _compiled(self) -> tuple[Any, _Gate]:
        gate = _gate()
        self._search = gate.engine(self._number).Match, gate
        return self._search


def _one(match: Any, anchor: Any, data: bytes, pos: int, endpos: int) -> Match | None:
    if pos > endpos:
        return None
    spans = match(anchor, data, pos, endpos)
    return _Found(data, spans) if spans[0][0] >= 0 else None


_EVERY: list[tuple[str, bool]] = []
"""Every pattern there is, by its number."""


class _Gate:
    """What says of a text which patterns could match, by the words that each of them cannot do without.

    It takes the patterns that there are by the first use of any; later ones are tried on every text.
    """

    def __init__(self) -> None:
        import re2

        native = re2._re2  # noqa: SLF001 - the wrapper around it costs more than most searches
        self._filter = native.Filter()
        self._later: dict[int, Any] = {}
        self._native = native
        self.anywhere = native.RE2.Anchor.UNANCHORED
        self.there = native.RE2.Anchor.ANCHOR_START
        self.whole = native.RE2.Anchor.ANCHOR_BOTH
        self._count = len(_EVERY)
        for text, ignore_case in _EVERY:
            self._filter.Add(text.encode(), _options(ignore_case=ignore_case))
        self._filter.Compile()

    def possible(self, data: bytes) -> frozenset[int]:
        """The numbers of the patterns that may match."""
        found = frozenset(self._filter.Match(data, True))  # noqa: FBT003
        return found.union(range(self._count, len(_EVERY)))

    def engine(self, number: int) -> Any:
        """The engine's own pattern of this number."""
        if number < self._count:
            return self._filter.GetRE2(number)
        text, ignore_case = _EVERY[number]
        engine = self._native.RE2(text.encode(), _options(ignore_case=ignore_case))
        if not engine.ok():
            raise ValueError(engine.error())
        return engine


_LOCK = threading.Lock()


@cache
def _only_gate() -> _Gate:
    return _Gate()


def _gate() -> _Gate:
    with _LOCK:
        return _only_gate()


def _options(*, ignore_case: bool) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    options.log_errors = False
    return options


def either(words: str) -> str:
    """Alternatives of words that are separated by spaces, taken literally."""
    return "|".join(re.escape(word) for word in words.split())
