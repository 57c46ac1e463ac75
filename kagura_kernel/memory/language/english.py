"""The stems of English words, by Porter's algorithm of 1980."""

from __future__ import annotations

import re

_C = "(?:[^aeiou](?:[^aeiouy])*)"
_V = "(?:[aeiouy](?:[aeiou])*)"
_MEASURED = re.compile(f"^{_C}?{_V}{_C}")
_TWICE = re.compile(f"^{_C}?{_V}{_C}{_V}{_C}")
_ONCE = re.compile(f"^{_C}?{_V}{_C}{_V}?$")
_HAS_VOWEL = re.compile(f"^{_C}?{_V}")
_DOUBLED = re.compile(r"([^aeiouylsz])\1$")
_SHORT_END = re.compile(f"^{_C}[aeiouy][^aeiouwxy]$")

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = dict.fromkeys(
    [
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    ],
    "",
)
_SHORTEST = 3


def _longest(endings: dict[str, str]) -> re.Pattern[str]:
    return re.compile(f"^(.+?)({'|'.join(sorted(endings, key=len, reverse=True))})$")


_FIND_2, _FIND_3, _FIND_4 = _longest(_STEP_2), _longest(_STEP_3), _longest(_STEP_4)


def english_stem(word: str) -> str:
    """The stem of a folded word: `deployed`, `deploys` and `deploying` are one."""
    if len(word) < _SHORTEST or not word.isascii() or not word.isalpha():
        return word
    first = "Y" + word[1:] if word[0] == "y" else word
    stem = _past_and_gerund(_plural(first))
    if stem.endswith("y") and _HAS_VOWEL.match(stem[:-1]):
        stem = stem[:-1] + "i"
    stem = _replaced(stem, _FIND_2, _STEP_2)
    stem = _replaced(stem, _FIND_3, _STEP_3)
    return _final_letters(_without_fourth(stem)).lower()


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST - 1 else word


def _past_and_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _MEASURED.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _HAS_VOWEL.match(word[: -len(ending)]):
            return _mended(word[: -len(ending)])
    return word


def _mended(stem: str) -> str:
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _DOUBLED.search(stem):
        return stem[:-1]
    return stem + "e" if _SHORT_END.match(stem) else stem


def _replaced(word: str, pattern: re.Pattern[str], endings: dict[str, str]) -> str:
    found = pattern.match(word)
    if found and _MEASURED.match(found[1]):
        return found[1] + endings[found[2]]
    return word


def _without_fourth(word: str) -> str:
    if word.endswith("ion"):
        return word[:-3] if word[-4:-3] in {"s", "t"} and _TWICE.match(word[:-3]) else word
    found = _FIND_4.match(word)
    return found[1] if found and _TWICE.match(found[1]) else word


def _final_letters(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        if _TWICE.match(stem) or (_ONCE.match(stem) and not _SHORT_END.match(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _TWICE.match(word) else word
