"""Which run or approval somebody means who has typed an id, whole or the end of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kagura_kernel.domain.errors import UsageError

LEAST = 6
"""Characters that an id may be named by; with fewer of them a slip of the finger names something else."""


def ending(word: str, prefix: str) -> str:
    """What an id ends with that was typed: all of a whole one, otherwise what stands behind its first letters.

    Args:
        word: As it was typed.
        prefix: `app` or `run`.

    Raises:
        UsageError: it is too short to name anything.
    """
    typed = word.casefold()
    if re.fullmatch(rf"{prefix}-[0-9a-z]{{14}}", typed):
        return typed
    end = typed.removeprefix(f"{prefix}-")
    if len(end) < LEAST:
        raise UsageError(f"Too short: give the whole id, `{prefix}-…`, or at least its last {LEAST} characters.")
    return end


def the_one(word: str, prefix: str, ids: Iterable[str]) -> str:
    """The one of these that was meant; empty for none.

    Raises:
        UsageError: it is too short, or fits several.
    """
    end = ending(word, prefix)
    found = [one for one in ids if one.endswith(end)]
    if len(found) > 1:
        raise UsageError(f"That fits {len(found)} of them: {', '.join(found)}. Give the whole id.")
    return found[0] if found else ""
