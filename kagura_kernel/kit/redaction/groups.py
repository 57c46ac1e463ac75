"""Patterns that are looked for together: one walk says of a text which of them match in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

_TOGETHER = 4
"""Patterns of one walk; with more, the states that they have together become too many."""
_LARGEST = 600
"""How long the program of a pattern may be to be looked for with others."""


class Group:
    """A few patterns that are looked for in one walk.

    Args:
        members: The number of each, and how it reads in the syntax of the engine, with its flags.
        options: Of the engine, for all of them.
    """

    def __init__(self, members: Iterable[tuple[int, str]], options: Any) -> None:
        from re2 import _re2 as native

        self._numbers: list[int] = []
        self._set = native.Set(native.RE2.Anchor.UNANCHORED, options)
        for number, text in members:
            if self._set.Add(text.encode()) < 0:
                raise ValueError(f"the engine refuses the pattern {text!r}")
            self._numbers.append(number)
        self._set.Compile()

    def within(self, data: bytes) -> list[int]:
        """The numbers of those that match somewhere."""
        return [self._numbers[index] for index in self._set.Match(data)]


class Groups:
    """Which patterns are looked for together: those that are used one after the other. Safe to share between threads.

    Args:
        size: How long the program of a pattern is.
        made: Makes a group of the patterns with these numbers.
    """

    def __init__(self, size: Callable[[int], int], made: Callable[[list[int]], Group]) -> None:
        self._size = size
        self._made = made
        self._lock = threading.Lock()
        self._waiting: list[int] = []
        self._of: dict[int, Group | None] = {}

    def of(self, number: int) -> Group | None:
        """The group of this pattern; None while there are too few patterns to make one."""
        try:
            return self._of[number]
        except KeyError:
            with self._lock:
                self._gather(number)
            return self._of[number]

    def _gather(self, number: int) -> None:
        if number in self._of:
            return
        self._of[number] = None
        if self._size(number) > _LARGEST:
            return
        self._waiting.append(number)
        if len(self._waiting) == _TOGETHER:
            self._of.update(dict.fromkeys(self._waiting, self._made(self._waiting)))
            self._waiting = []
