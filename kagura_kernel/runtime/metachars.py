"""Splits a shell line the plain way, and tells what in it only a shell would understand.

The grammar is deliberately smaller than bash's: words of harmless characters, blanks, '…' and "…". Whatever lies
outside of it counts as a meta-character, so that a line without any is split by every shell exactly as here.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

_BARE = frozenset(string.ascii_letters + string.digits + "_-./,:=+@%^")
# Inside double quotes these still mean something to bash; `!` does where history expansion is on.
_ALIVE_IN_DOUBLE_QUOTES = frozenset("$`\\!")
_NAMES = {"\n": "newline", "\r": "carriage return", "\0": "NUL", "\\": "backslash", "\t": "tab"}


@dataclass(frozen=True, slots=True)
class Line:
    """A shell line, split.

    Attributes:
        words: What a shell would pass on, quotes removed; only meaningful when `meta` is empty.
        meta: The characters that need a shell, each once, in order; `=` stands for an assignment before the command.
    """

    words: tuple[str, ...]
    meta: tuple[str, ...]


def split_line(command: str) -> Line:
    """Words and meta-characters of a line; never fails, whatever the text."""
    splitter = _Splitter()
    for char in command:
        splitter.feed(char)
    return splitter.finish()


def name_of(char: str) -> str:
    """How a meta-character is written in a message: itself, or its name when it cannot be seen."""
    if char in _NAMES:
        return _NAMES[char]
    return char if char.isascii() and char.isprintable() else f"U+{ord(char):04X}"


class _Splitter:
    """One pass over the characters; `quote` is the quotation it is in, or empty."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.meta: dict[str, None] = {}
        self.word: list[str] | None = None
        self.quote = ""

    def feed(self, char: str) -> None:
        if self.quote:
            self._quoted(char)
        elif char in "'\"":
            self.quote = char
            self._add("")
        elif char in " \t":
            self._end_word()
        else:
            if char not in _BARE or (char == "=" and not self.words):
                self.meta[char] = None
            self._add(char)

    def finish(self) -> Line:
        if self.quote:
            self.meta[self.quote] = None
        self._end_word()
        return Line(tuple(self.words), tuple(self.meta))

    def _quoted(self, char: str) -> None:
        if char == self.quote:
            self.quote = ""
            return
        # Control characters, look-alike blanks and direction marks hide what a line says, quoted or not.
        if not (char.isprintable() or char == "\t") or (self.quote == '"' and char in _ALIVE_IN_DOUBLE_QUOTES):
            self.meta[char] = None
        self._add(char)

    def _add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def _end_word(self) -> None:
        if self.word is not None:
            self.words.append("".join(self.word))
            self.word = None
