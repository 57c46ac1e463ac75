"""Words of messages about definitions: what was probably meant, and what a text must not hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANKS = "\n\t"
# Emoji and several scripts are written with these two.
_JOINERS = "\u200c\u200d"


def hint(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'this'?`, or an empty text."""
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else ""


def one_line(text: str) -> str:
    """The first control character of a text, as `U+000A`; empty for one line."""
    return next((f"U+{ord(sign):04X}" for sign in text if unicodedata.category(sign) in {"Cc", "Zl", "Zp"}), "")


def unseen(text: str, *, lines: bool = False) -> str:
    """The first character that a reader would not see, as `U+202E`; empty when there is none.

    Args:
        text: Whatever a person or a brain will read.
        lines: Whether it may have several lines and tabs.
    """
    for sign in text:
        if unicodedata.category(sign) in _UNSEEN and sign not in _JOINERS and not (lines and sign in _BLANKS):
            return f"U+{ord(sign):04X}"
    return ""
