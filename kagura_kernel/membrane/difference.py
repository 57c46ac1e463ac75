"""How one file differs, for reading: a bounded unified diff. Pure."""

from __future__ import annotations

import difflib

MAX_DIFF_INPUT = 512 * 1024
"""Bytes of either side beyond which no diff is made."""

MAX_DIFF_LINES = 2000
"""Lines of a diff that are kept; what is left out is counted."""

_SLOW_LINES = 20_000


def is_text(content: bytes) -> bool:
    """Whether a content reads as text: UTF-8 without NUL."""
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def unified_diff(path: str, old: bytes, new: bytes) -> str:
    """A unified diff of two texts, at most `MAX_DIFF_LINES` lines; empty when they are equal."""
    before, after = old.decode("utf-8").splitlines(keepends=True), new.decode("utf-8").splitlines(keepends=True)
    if len(before) + len(after) > _SLOW_LINES:
        return (
            f"--- a/{path}\n+++ b/{path}\n"
            f"@@ {len(before)} lines before, {len(after)} lines after: too many to compare @@\n"
        )
    lines: list[str] = []
    left_out = 0
    for line in difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"):
        if len(lines) >= MAX_DIFF_LINES:
            left_out += 1
        elif line.endswith("\n"):
            lines.append(line)
        else:
            lines.append(f"{line}\n\\ No newline at end of file\n")
    if left_out:
        lines.append(f"… {left_out} more lines\n")
    return "".join(lines)
