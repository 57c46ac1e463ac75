"""Cuts texts into the pieces of words that BERT's models know."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

_MOST_WORD = 100
_TOKEN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|(?:(?![\u3400-\u9fff\uf900-\ufaff])[^\W_])+|[^\w\s]|_")


class WordPieces:
    """A vocabulary.

    Args:
        vocabulary: Number of each piece; `##` begins one that continues a word.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]

    def numbers(self, text: str, most: int) -> list[int]:
        """The numbers of a text's pieces between the marks of its beginning and its end, at most `most` in all."""
        found = [self._first]
        for word in _TOKEN.findall(_plain(text)):
            found.extend(self._pieces(word))
            if len(found) >= most - 1:
                break
        return [*found[: most - 1], self._last]

    def _pieces(self, word: str) -> Iterator[int]:
        if len(word) > _MOST_WORD:
            yield self._unknown
            return
        pieces, start = [], 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                yield self._unknown
                return
            number, start = found
            pieces.append(number)
        yield from pieces

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._vocabulary.get(mark + word[start:end])
            if number is not None:
                return number, end
        return None


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in apart if unicodedata.category(letter) != "Mn")
