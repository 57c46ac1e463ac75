"""The stems of German words, by taking off endings of inflection alone, as Savoy's light stemmer does."""

from __future__ import annotations

_LONGEST_KEPT = 3
_BEFORE_S = frozenset("bdfghklmnt")


def german_stem(word: str) -> str:
    """The stem of a folded word: `server`, `servers` and `servern` are one."""
    if not word.isalpha():
        return word
    return _second(_first(word))


def _first(word: str) -> str:
    for ending in ("ern", "em", "en", "er", "es"):
        if word.endswith(ending) and len(word) - len(ending) >= _LONGEST_KEPT:
            return word[: -len(ending)]
    if word.endswith("e") and len(word) > _LONGEST_KEPT:
        return word[:-1]
    if word.endswith("s") and len(word) > _LONGEST_KEPT + 1 and word[-2] in _BEFORE_S:
        return word[:-1]
    return word


def _second(word: str) -> str:
    for ending in ("est", "er", "en"):
        if word.endswith(ending) and len(word) - len(ending) >= _LONGEST_KEPT + 1:
            return word[: -len(ending)]
    if word.endswith("st") and len(word) > _LONGEST_KEPT + 2 and word[-3] in _BEFORE_S:
        return word[:-2]
    return word
