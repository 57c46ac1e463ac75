"""The hunks of a difference: which lines each takes the place of, and what a file holds with some of them alone.

They are numbered from 1, as they stand in the unified difference of the same two texts.
"""

from __future__ import annotations

from collections.abc import Container
from difflib import SequenceMatcher

Lines = tuple[int, int, int, int]
"""Lines from and to before, and from and to afterwards, counted from 0; those at the end are not among them."""


def hunks_between(old: bytes, new: bytes) -> list[list[Lines]]:
    """What differs between two texts, by hunks."""
    found = SequenceMatcher(None, _lines(old), _lines(new)).get_grouped_opcodes()
    return [[(a, b, c, d) for tag, a, b, c, d in group if tag != "equal"] for group in found]


def with_hunks(old: bytes, new: bytes, chosen: Container[int]) -> bytes:
    """The old text with these hunks of the new one; every byte of it is one of either text."""
    before, after = _lines(old), _lines(new)
    made: list[str] = []
    at = 0
    for number, hunk in enumerate(hunks_between(old, new), 1):
        for first, end, first_after, end_after in hunk:
            made += before[at:first]
            made += after[first_after:end_after] if number in chosen else before[first:end]
            at = end
    return "".join([*made, *before[at:]]).encode("utf-8")


def _lines(text: bytes) -> list[str]:
    # As `unified_diff` takes lines, or the numbers would be others.
    return text.decode("utf-8").splitlines(keepends=True)
