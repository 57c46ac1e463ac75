"""What a redaction has done: whether the secret is gone, what else is gone with it, whether a text is unhurt."""

from __future__ import annotations

import re

from tests.support.redaction_corpus.sample import LookAlike, Planted

SHORTEST = 5
"""Characters of a secret that are too few to tell it from other text."""

_WORD = re.compile(r"[^\W_]{3,}")
_MARKER = re.compile(r"\[REDACTED:[a-z0-9-]*\]")


def gone(sample: Planted, redacted: str) -> bool:
    """Whether the secret's own characters are no longer there: not a piece of it, nor half of one.

    What stands around the secret may have the same characters by chance, and may keep them.
    """
    around = sample.text
    for piece in sorted(sample.pieces, key=len, reverse=True):
        around = around.replace(piece, "\0")
    return all(redacted.count(part) <= around.count(part) for piece in sample.pieces for part in _halves(piece))


def _halves(piece: str) -> set[str]:
    size = min(len(piece), max(SHORTEST, (len(piece) + 1) // 2))
    return {piece[start : start + size] for start in range(len(piece) - size + 1)}


def lost(sample: Planted, redacted: str) -> float:
    """The share of the words around the secret that are gone with it."""
    around = sample.text
    for piece in sorted(sample.pieces, key=len, reverse=True):
        around = around.replace(piece, " ")
    words = _WORD.findall(around)
    left = _MARKER.sub(" ", redacted)
    missing = sum(max(0, around.count(word) - left.count(word)) for word in set(words))
    return min(1.0, missing / len(words)) if words else 0.0


def unhurt(sample: LookAlike, redacted: str) -> bool:
    """Whether the text came out as it was."""
    return redacted == sample.text
