"""What a server says, made fit to be shown: nothing that nobody would see, and no more than so much of it. Pure."""

from __future__ import annotations

from typing import Any

_LONGEST_WORD = 200


def word(value: Any) -> str:
    """A short text in one line, readable."""
    return " ".join(readable(value, _LONGEST_WORD).split())


def readable(value: Any, most: int) -> str:
    """A text without what nobody would see, at most so long; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in value[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
