"""Folds text so that spellings that a reader takes for the same become the same.

Case, half and full width, diacritics of Latin letters, ß, hiragana and katakana, and the long vowel mark. What is
folded is for finding alone; what is kept and shown is the text as it was written.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_LATIN = ((0x00C0, 0x0250), (0x1E00, 0x1F00))
_ALSO = {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h", "ŧ": "t"}
_KATAKANA = (0x30A1, 0x30F6)
_TO_HIRAGANA = 0x60
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_DROPPED = (0x30FC, 0xFF70, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)
"""The long vowel mark, the soft hyphen, and marks that have no width."""


def fold(text: str) -> str:
    """Text for comparing: `Straße` is `STRASSE`, `café` is `cafe`, `サーバー` is `さば`, and `ｶﾞ` is `が`."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", plain).translate(_table())


def unfold_umlauts(word: str) -> str:
    """The word, in lower case, with ä, ö and ü written as two letters; the same word where it has none."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKC", word).casefold()
    return fold("".join(_UMLAUTS.get(letter, letter) for letter in plain))


@cache
def _table() -> dict[int, str | None]:
    table: dict[int, str | None] = dict.fromkeys(_DROPPED)
    table.update(dict.fromkeys(range(0x0300, 0x0370)))
    for first, last in _LATIN:
        for point in range(first, last):
            base = unicodedata.normalize("NFD", chr(point))[0]
            if base != chr(point):
                table[point] = base.lower()
    table.update({ord(letter): plain for letter, plain in _ALSO.items()})
    for point in range(_KATAKANA[0], _KATAKANA[1] + 1):
        table[point] = chr(point - _TO_HIRAGANA)
    return table
