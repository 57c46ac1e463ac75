"""Marks around somebody's text that a brain reads as data: the text cannot end them, and cannot hide anything. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN_SIGNS = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(f"[{_UNSEEN_SIGNS}]")
_ANGLES = "<\u02c2\u2039\u226e\u2329\u276e\u27e8\u3008\ufe64\uff1c"
_SLASHES = "/\u2044\u2215\u29f8\uff0f"


def fenced(tag: str, text: str, attributes: str | Mapping[str, str] = "") -> str:
    """A text between `<tag …>` and `</tag>`, each on a line of its own.

    Args:
        tag: A word of letters.
        text: Somebody's. Whatever looks like one of these two marks in it is written so that it is none.
        attributes: What stands in the first mark: names and values, or as it was written already (see `attribute`).
    """
    said = attributes
    if not isinstance(said, str):
        said = "".join(f' {name}="{attribute(value)}"' for name, value in said.items())
    return f"<{tag}{said}>\n{_look_alike(tag).sub('&lt;', text)}\n</{tag}>"


def attribute(text: str) -> str:
    """A text as the value of an attribute: one line that does not end it."""
    line = " ".join(plain(text).split())
    return line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def plain(text: str) -> str:
    """A text without what a reader does not see; every end of a line becomes a plain one.

    Controls, marks without width, other directions, letters that are invisible.
    """
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))


@lru_cache(maxsize=64)
def _look_alike(tag: str) -> re.Pattern[str]:
    """An angle that is followed by the tag's name, however that is spelt, and whatever unseen stands in it."""
    letters = "".join(f"[{re.escape(_spellings(letter))}][{_UNSEEN_SIGNS}]*" for letter in tag)
    gap = rf"[\s{_UNSEEN_SIGNS}]*"
    return re.compile(rf"[{_ANGLES}](?={gap}(?:[{_SLASHES}]{gap})?{letters}(?!\w))", re.IGNORECASE)


def _spellings(letter: str) -> str:
    """A letter in every form that is the same one to Unicode: full width, bold, cursive, encircled."""
    return letter + _forms().get(letter.lower(), "")


@lru_cache(maxsize=1)
def _forms() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for first, last in ((0x1D400, 0x1D6A4), (0xFF21, 0xFF5B), (0x24B6, 0x24EA)):
        for point in range(first, last):
            same = unicodedata.normalize("NFKC", chr(point)).lower()
            if len(same) == 1 and same.isascii() and same.isalpha():
                found[same] = found.get(same, "") + chr(point)
    return found
