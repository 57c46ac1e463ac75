"""Matches paths against glob patterns as tools use them. Pure."""

from __future__ import annotations

import re


class GlobPattern:
    """`*`, `?` and `[…]` stay within one component; a component `**` stands for any number of them, none included.

    Args:
        pattern: With `/`, relative. A bracket that never closes stands for itself.
    """

    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        self._pattern = re.compile(_translate(parts), re.DOTALL)

    def matches(self, path: str) -> bool:
        """Whether a relative path matches as a whole."""
        return self._pattern.fullmatch(path) is not None


def _translate(parts: list[str]) -> str:
    words = []
    last = len(parts) - 1
    for number, part in enumerate(parts):
        if part == "**":
            words.append(".+" if number == last else "(?:[^/]+/)*")
        else:
            words.append(_component(part) + ("" if number == last else "/"))
    return "".join(words)


def _component(part: str) -> str:
    words = []
    position = 0
    while position < len(part):
        char = part[position]
        bracket = re.compile(r"\[(!?)(\]?[^\]/]*)\]").match(part, position) if char == "[" else None
        if bracket and bracket[2]:
            inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", bracket[2])
            words.append(f"[{'^/' if bracket[1] else ''}{inner}]")
            position = bracket.end()
            continue
        words.append({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)))
        position += 1
    # A run of stars is one star; several would only cost time.
    return re.sub(r"(\[\^/\]\*)+", r"[^/]*", "".join(words))
