"""Patterns on an engine that is linear in its text; they match bytes of UTF-8."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Protocol

from kagura_kernel.kit.redaction.groups import Group, Groups

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
    """A text that was looked through once for what every pattern must have in it."""

    possible: dict[int, Windows | None]
    """Where the patterns may match, by their number: in these parts, or, with None, anywhere; others match nowhere."""
    _gate: _Gate
    _exact: dict[int, Windows | None]
    _known: set[Group]
    _blocks: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The same bytes, looked through; far quicker than one pattern, and most of them need not be tried then."""
        if type(data) is cls:
            return data
        text = cls(data)
        gate = _gate()
        text._gate, text._exact, text._known = gate, {}, set()
        if len(data) <= 2 * _BLOCK:
            text._blocks = ((0, len(data)),)
            text.possible = dict.fromkeys(gate.possible(data))
        else:
            text._blocks = list(_blocks(data))
            common = gate.always()
            text.possible = dict.fromkeys(common) | text._windows(lambda block: gate.possible(block) - common)
        return text

    def places(self, number: int) -> Windows | None:
        """Where this pattern may match; it is looked for with others, block by block, unless it is rare."""
        windows = self.possible.get(number, ())
        if windows is not None:
            return windows
        group = self._gate.groups.of(number)
        if group is None:
            return None
        if group not in self._known:
            self._known.add(group)
            self._exact.update(self._windows(group.within))
        return self._exact.get(number, ())

    def _windows(self, found: Callable[[bytes], Iterable[int]]) -> dict[int, Windows | None]:
        """The blocks in which each pattern is found; those that touch are one."""
        if len(self._blocks) == 1:
            return dict.fromkeys(found(self))
        windows: dict[int, list[tuple[int, int]]] = {}
        for start, end in self._blocks:
            for number in found(self[start:end]):
                own = windows.get(number)
                if own is None:
                    windows[number] = [(start, end)]
                elif start <= own[-1][1]:
                    own[-1] = own[-1][0], end
                else:
                    own.append((start, end))
        return {number: None if _much(own, len(self)) else own for number, own in windows.items()}


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

    def __init__(self, text: str, *, ignore_case: bool = True) -> None:
        self._number = len(_EVERY)
        self._search: tuple[Any, _Gate] | None = None
        _EVERY.append((text, ignore_case))

    def finditer(self, data: bytes, pos: int = 0, endpos: int | None = None) -> Iterator[Match]:
        """Every match from left to right, none touching another."""
        windows: Windows | None = None
        if type(data) is Text:
            windows = data.possible.get(self._number, ())
            if windows is None and not pos and endpos is None:
                windows = data.places(self._number)
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
        if type(data) is Text and data.possible.get(self._number, ()) is not None:
            return next(self.finditer(data, pos, endpos), None)
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


_END = itemgetter(1)


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
        for number, (text, ignore_case) in enumerate(_EVERY):
            # A pattern that is refused gets no number, and every later one would stand for its neighbour.
            if self._filter.Add(text.encode(), _options(ignore_case=ignore_case)) != number:
                raise ValueError(f"the engine refuses the pattern {text!r}")
        self._filter.Compile()
        self.groups = Groups(lambda number: int(self.engine(number).ProgramSize()), _group)
        self._always: frozenset[int] = frozenset(self._filter.Match(b"", True))  # noqa: FBT003
        self._with_later = self._count, self._always

    def always(self) -> frozenset[int]:
        """The numbers of the patterns that may match any text."""
        if self._with_later[0] != len(_EVERY):
            self._with_later = len(_EVERY), self._always.union(range(self._count, len(_EVERY)))
        return self._with_later[1]

    def possible(self, data: bytes) -> frozenset[int]:
        """The numbers of the patterns that may match."""
        return self.always().union(self._filter.Match(data, True))  # noqa: FBT003

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


def _group(numbers: Sequence[int]) -> Group:
    patterns = [(number, *_EVERY[number]) for number in numbers]
    members = [(number, text if ignore_case else f"(?-i:{text})") for number, text, ignore_case in patterns]
    return Group(members, _options(ignore_case=True))


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
