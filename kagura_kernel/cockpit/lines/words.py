"""A line as words, quoted as in a POSIX shell, each with its place and its spelling."""

from __future__ import annotations

from typing import NamedTuple

_BLANK = " \t\r\n"
_QUOTES = "'\""
_ESCAPE = "\\"


class Word(NamedTuple):
    """One word of a line."""

    text: str  # Without its quotes
    raw: str  # As it stands in the line
    start: int = 0  # Where it begins
    unfinished: str = ""  # The quote that is not closed, or a backslash with nothing behind it; otherwise empty

    @property
    def end(self) -> int:
        """Where it is over."""
        return self.start + len(self.raw)


def words_of(line: str) -> list[Word]:
    """All words; only the last one can be unfinished. Never raises."""
    words: list[Word] = []
    place = 0
    while place < len(line):
        if line[place] in _BLANK:
            place += 1
            continue
        word = _word_at(line, place)
        words.append(word)
        place = word.end
    return words


def unquoted(raw: str) -> str:
    """A spelling without the quotes around the whole of it; quotes inside stay, as in `x=df['a']`."""
    if raw[:1] not in _QUOTES or not raw:
        return raw
    place = 1
    while place < len(raw) and raw[place] != raw[0]:
        place += 2 if raw[place] == _ESCAPE and raw[0] == '"' else 1
    return _word_at(raw, 0).text if place == len(raw) - 1 else raw


def _word_at(line: str, start: int) -> Word:
    text: list[str] = []
    quote = ""
    place = start
    while place < len(line):
        sign = line[place]
        if sign == _ESCAPE and quote != "'":
            if place + 1 == len(line):
                return Word("".join(text), line[start:], start, quote or _ESCAPE)
            escaped = line[place + 1]
            # Between double quotes a backslash is itself, unless it stands before one of the two.
            text.append(escaped if not quote or escaped in (quote, _ESCAPE) else sign + escaped)
            place += 2
            continue
        if quote:
            quote = "" if sign == quote else quote
            text.append("" if not quote else sign)
        elif sign in _QUOTES:
            quote = sign
        elif sign in _BLANK:
            break
        else:
            text.append(sign)
        place += 1
    return Word("".join(text), line[start:place], start, quote)
