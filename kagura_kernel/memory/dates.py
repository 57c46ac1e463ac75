"""The days, months and years that a question names, in English, German and Japanese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar",
            "february feb februar",
            "march mar marz",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_DAY = r"[0-3]?\d"
_ISO = re.compile(rf"\b({_YEAR})[-/.](\d\d?)(?:[-/.]({_DAY}))?\b")
_DOTTED = re.compile(rf"\b({_DAY})\.\s?(\d\d?)\.(?:\s?({_YEAR}))?")
_DAY_FIRST = re.compile(rf"\b({_DAY})(?:st|nd|rd|th|\.)?(?:\s+of)?\s+({_NAMES})\b\.?(?:,?\s+({_YEAR}))?")
_MONTH_FIRST = re.compile(rf"\b({_NAMES})\b\.?(?:\s+({_DAY})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+({_YEAR})\b)?")
_ASIAN = re.compile(rf"(?:({_YEAR})年)?\s?(?:(\d\d?)月)(?:\s?({_DAY})日)?")
_ASIAN_YEAR = re.compile(rf"({_YEAR})年")
_ALONE = re.compile(rf"(?<!\d)({_YEAR})(?!\d)")
_AMBIGUOUS = frozenset({"may", "mar", "march", "mai"})
_BEFORE_MONTH = re.compile(r"\b(?:in|of|on|during|since|until|by|early|late|mid|last|this|im|seit|bis|ende|anfang)\s$")
_MONTHS_A_YEAR, _DAYS_A_MONTH = 12, 31


def marks_of(moment: datetime) -> tuple[str, ...]:
    """What a moment is found by: its year, its month in any year, its month, and its day in any year."""
    return (
        f"y{moment.year:04}",
        f"m{moment.month:02}",
        f"t{moment.year:04}{moment.month:02}",
        f"x{moment.month:02}{moment.day:02}",
    )


def marks_in(folded: str) -> tuple[str, ...]:
    """What the dates in a folded question are found by, the narrowest that each names."""
    marks: dict[str, None] = {}
    for year, month, day in _dates(folded):
        if month and not 1 <= month <= _MONTHS_A_YEAR:
            continue
        if month and 1 <= day <= _DAYS_A_MONTH:
            marks[f"x{month:02}{day:02}"] = None
        if year and month:
            marks[f"t{year:04}{month:02}"] = None
        elif month and not day:
            marks[f"m{month:02}"] = None
        elif year:
            marks[f"y{year:04}"] = None
    return tuple(marks)


def names_date(word: str) -> bool:
    """Whether a folded word of a question that names a date may be a part of it."""
    return word in _MONTHS or word[:-2].isdigit() or word.isdigit()


def _dates(text: str) -> Iterator[tuple[int, int, int]]:
    rest = text
    for pattern, order in ((_ISO, (1, 2, 3)), (_DOTTED, (3, 2, 1)), (_ASIAN, (1, 2, 3)), (_DAY_FIRST, (3, 2, 1))):
        for found in pattern.finditer(rest):
            yield _number(found[order[0]]), _number(found[order[1]]), _number(found[order[2]])
        rest = pattern.sub(" ", rest)
    for found in _MONTH_FIRST.finditer(rest):
        if found[1] not in _AMBIGUOUS or found[2] or found[3] or _BEFORE_MONTH.search(rest[: found.start()]):
            yield _number(found[3]), _MONTHS[found[1]], _number(found[2])
    rest = _MONTH_FIRST.sub(" ", rest)
    for pattern in (_ASIAN_YEAR, _ALONE):
        for found in pattern.finditer(rest):
            yield int(found[1]), 0, 0


def _number(text: str | None) -> int:
    return _MONTHS.get(text) or int(text) if text else 0
