"""Regular expressions that are compiled when they are first used: a start imports hundreds and needs few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("finditer", "findall", "fullmatch", "match", "scanner", "search", "split", "sub", "subn")


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, for a pattern of which methods are called; one that is wrong is told at its first use."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))


class _Late:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there yet.
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(compiled, method)) for method in _METHODS)
        return getattr(compiled, name)
