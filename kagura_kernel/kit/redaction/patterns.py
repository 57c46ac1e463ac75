"""Patterns on an engine that is linear in its text; they match bytes of UTF-8."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
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


_BLOCK = 16 * 1024
_REACH = 4 * 1024
"""Bytes of a long text that are looked at together, and those behind them that a match may need."""
_SMALL = 2 * 1024
"""Bytes that are worth looking at apart where nothing goes across."""
BETWEEN = b"\n\x00\n"
"""What no secret goes across: it stands between texts that are looked through as one."""
_MOST = 0.7
"""The share of a text from which on a pattern is tried on all of it: many places cost more than one walk."""

Windows = Sequence[tuple[int, int]]


class Text(bytes):
    """A text that is looked through once for what every pattern must have in it."""

    _seen: dict[bool, _Seen]

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The same bytes, to be looked through; far quicker than one pattern, and most of them need not be tried then."""
        if type(data) is cls:
            return data
        text = cls(data)
        text._seen = {}
        return text

    def seen(self, *, nearby: bool) -> _Seen:
        """What is known of one house of patterns in this text."""
        seen = self._seen.get(nearby)
        if seen is None:
            seen = self._seen[nearby] = _Seen(self, _gate(nearby=nearby))
        return seen


class _Seen:
    """Where the patterns of one gate may match in a text."""

    def __init__(self, data: bytes, gate: _Gate) -> None:
        self._data = data
        self._gate = gate
        self._always = gate.always()
        self._blocks: Sequence[tuple[int, int]] = ()
        self._possible: dict[int, Windows | None] | None = None

    def possible(self, number: int) -> Windows | None:
        """Where this pattern may match: in these parts, or, with None, anywhere."""
        if number in self._always:
            return None
        if self._possible is None:
            self._possible = self._windows(self._gate.possible)
        return self._possible.get(number, ())

    def _windows(self, found: Callable[[bytes], Iterable[int]]) -> dict[int, Windows | None]:
        """The blocks in which each pattern is found; those that touch are one."""
        data = self._data
        if len(data) <= 2 * _BLOCK:
            return dict.fromkeys(found(data))
        self._blocks = self._blocks or list(_blocks(data))
        windows: dict[int, list[tuple[int, int]]] = {}
        for start, end in self._blocks:
            for number in found(data[start:end]):
                own = windows.get(number)
                if own is None:
                    windows[number] = [(start, end)]
                elif start <= own[-1][1]:
                    own[-1] = own[-1][0], end
                else:
                    own.append((start, end))
        return {number: None if _much(own, len(data)) else own for number, own in windows.items()}


def _much(windows: Windows, size: int) -> bool:
    return sum(end - start for start, end in windows) > _MOST * size


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Parts of a text such that what matches anywhere lies in one of them: they overlap, or nothing goes across."""
    at, size = 0, len(data)
    while at < size:
        cut = data.find(BETWEEN, at + _SMALL, at + _BLOCK)
        # A pattern may begin with the end of the line before.
        yield max(at - 1, 0), (min(at + _BLOCK + _REACH, size) if cut < 0 else cut + len(BETWEEN))
        at = at + _BLOCK if cut < 0 else cut + len(BETWEEN)


class Lazy:
    r"""A pattern that is compiled when it is first used; from then on it may be used by any thread.

    Args:
        text: In the syntax of RE2: no looking around, no references; `\w`, `\s` and `\b` know ASCII alone.
        ignore_case: Whether ASCII letters match in both cases.
    """

    nearby = False
    """Whether it is looked for only near words that announce a secret, and so apart from the others."""

    def __init__(self, text: str, *, ignore_case: bool = True) -> None:
        self._number = len(_EVERY)
        self._search: tuple[Any, _Gate] | None = None
        _EVERY.append((text, ignore_case, self.nearby))

    def shortened(self, most: int) -> str:
        """How it reads without groups and counting no further than `most`: it matches wherever this one does."""
        text, ignore_case, _ = _EVERY[self._number]
        return shortened(f"(?{'i' if ignore_case else '-i'}:{ungrouped(text)})", most)

    def finditer(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Iterator[Match]:
        """Every match from left to right, none touching another."""
        windows: Windows | None = None
        if type(data) is Text:
            seen = data.seen(nearby=self.nearby)
            windows = seen.possible(self._number)
            # Most patterns end here for most texts: without a generator it costs a third.
            if windows is not None and not windows:
                return iter(())
        last = len(data) if endpos is None else min(endpos, len(data))
        return self._walked(data, pos, last) if windows is None else self._within(data, pos, last, windows)

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

    def _within(self, data: bytes, pos: int, last: int, windows: Windows) -> Iterator[Match]:
        match, gate = self._search or self._compiled()
        anywhere, there = gate.anywhere, gate.there
        # Small parts of a long text are mostly looked through one after the other.
        for number in range(bisect_left(windows, pos, key=_END), len(windows)):
            start, stop = windows[number]
            if start > last:
                return
            pos, stop = max(pos, start), min(stop, last)
            while pos <= stop:
                spans = match(anywhere, data, pos, stop)
                start = spans[0][0]
                if start < 0:
                    break
                # What begins in a part may end behind it.
                spans = match(there, data, start, last) if stop < last else spans
                yield _Found(data, spans)
                end = spans[0][1]
                pos = end if end > pos else pos + 1

    def search(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Match | None:
        """The first match."""
        if type(data) is Text and data.seen(nearby=self.nearby).possible(self._number) is not None:
            return next(self.finditer(data, pos, endpos), None)
        match, gate = self._search or self._compiled()
        return _one(match, gate.anywhere, data, pos, len(data) if endpos is None else min(endpos, len(data)))

    def match(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Match | None:
        """The match that begins right there."""
        match, gate = self._search or self._compiled()
        return _one(match, gate.there, data, pos, len(data) if endpos is None else min(endpos, len(data)))

    def fullmatch(self, data: bytes) -> Match | None:
        """The match of the whole text."""
        match, gate = self._search or self._compiled()
        return _one(match, gate.whole, data, 0, len(data))

    def _compiled(self) -> tuple[Any, _Gate]:
        gate = _gate(nearby=self.nearby)
        self._search = gate.engine(self._number).Match, gate
        return self._search


class Nearby(Lazy):
    """A pattern that is looked for only near words that announce a secret."""

    nearby = True


_END = itemgetter(1)


def _one(match: Any, anchor: Any, data: bytes, pos: int, endpos: int) -> Match | None:
    if pos > endpos:
        return None
    spans = match(anchor, data, pos, endpos)
    return _Found(data, spans) if spans[0][0] >= 0 else None


_EVERY: list[tuple[str, bool, bool]] = []
"""Every pattern there is, by its number: how it reads, whether case is ignored, and in which house it is."""


class _Gate:
    """What says of a text which patterns of one house could match, by the words that each of them cannot do without.

    It takes the patterns that there are by the first use of any; later ones are tried on every text.
    """

    def __init__(self, *, nearby: bool) -> None:
        import re2

        native = re2._re2  # noqa: SLF001 - the wrapper around it costs more than most searches
        self._filter = native.Filter()
        self._native = native
        self.anywhere = native.RE2.Anchor.UNANCHORED
        self.there = native.RE2.Anchor.ANCHOR_START
        self.whole = native.RE2.Anchor.ANCHOR_BOTH
        self._count = len(_EVERY)
        self._numbers = [number for number, (_, _, house) in enumerate(_EVERY) if house is nearby]
        self._index = {number: index for index, number in enumerate(self._numbers)}
        for index, number in enumerate(self._numbers):
            text, ignore_case, _ = _EVERY[number]
            # A pattern that is refused gets no number, and every later one would stand for its neighbour.
            if self._filter.Add(text.encode(), _options(ignore_case=ignore_case)) != index:
                raise ValueError(f"the engine refuses the pattern {text!r}")
        self._filter.Compile()
        self._always = frozenset(map(self._numbers.__getitem__, self._filter.Match(b"", True)))  # noqa: FBT003
        self._with_later = self._count, self._always

    def always(self) -> frozenset[int]:
        """The numbers of the patterns that may match any text."""
        if self._with_later[0] != len(_EVERY):
            self._with_later = len(_EVERY), self._always.union(range(self._count, len(_EVERY)))
        return self._with_later[1]

    def possible(self, data: bytes) -> Iterator[int]:
        """The numbers of the patterns that may match, without those that may match any text."""
        numbers, always = self._numbers, self._always
        for index in self._filter.Match(data, True):  # noqa: FBT003
            if (number := numbers[index]) not in always:
                yield number

    def engine(self, number: int) -> Any:
        """The engine's own pattern of this number."""
        if number in self._index:
            return self._filter.GetRE2(self._index[number])
        text, ignore_case, _ = _EVERY[number]
        engine = self._native.RE2(text.encode(), _options(ignore_case=ignore_case))
        if not engine.ok():
            raise ValueError(engine.error())
        return engine


_LOCK = threading.Lock()


@cache
def _only_gate(*, nearby: bool) -> _Gate:
    return _Gate(nearby=nearby)


def _gate(*, nearby: bool) -> _Gate:
    with _LOCK:
        return _only_gate(nearby=nearby)


@cache
def in_lines(pattern: Lazy) -> Any:
    """A pattern for a text of many lines: it is found where that one is found in any of them, and perhaps elsewhere."""
    import re2

    return re2.compile(f"(?m:{pattern.shortened(_SHORT)})".encode(), _options(ignore_case=False))


_SHORT = 8
"""How far a pattern counts that only says where another one is worth a try."""


def _options(*, ignore_case: bool) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    options.log_errors = False
    return options


def ungrouped(text: str) -> str:
    """The same pattern without groups: where only the place of a match is asked for, it is found far faster."""
    return _GROUP.sub(lambda found: found[1] or "(?:", text)


_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?)|\(", re.DOTALL)
"""An opening bracket, or something that has one in it and opens no group."""


def shortened(text: str, most: int) -> str:
    """A pattern that matches wherever this one does and needs far fewer states: it counts no further than `most`."""
    return _COUNT.sub(lambda found: _counted(int(found[1]), found[2], most), text)


_COUNT = re.compile(r"\{(\d+)((?:,\d*)?)\}")


def _counted(least: int, most_said: str, most: int) -> str:
    if (int(most_said[1:] or most + 1) if most_said else least) <= most:
        return f"{{{least}{most_said}}}"
    return f"{{{min(least, most)},}}"


def either(words: str) -> str:
    """Alternatives of words that are separated by spaces, taken literally."""
    return "|".join(re.escape(word) for word in words.split())
