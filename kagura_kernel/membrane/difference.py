"""How one file differs, for reading: a bounded unified diff. Pure.

Whatever is left out is said in the last line, so that nobody takes a part for the whole.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kagura_kernel.membrane.names import shown

MAX_DIFF_INPUT = 512 * 1024
"""Bytes of either side beyond which no diff is made."""

MAX_DIFF_LINES = 2000
"""Lines of a diff that are kept; what is left out is counted."""

MAX_DIFF_BYTES = 32 * 1024
"""Bytes of UTF-8 in one file's diff, the last line included."""

MAX_RUN_DIFF_BYTES = 4 * 2**20
"""Bytes of UTF-8 in the diffs of one run, but for the single line that stands for each diff left out."""

_SLOW_LINES = 20_000
_LAST_LINE = 256
_NO_NEWLINE = "\\ No newline at end of file\n"


def is_text(content: bytes) -> bool:
    """Whether a content reads as text: UTF-8 without NUL."""
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def unified_diff(path: str, old: bytes, new: bytes, *, limit: int = MAX_DIFF_BYTES) -> str:
    """A unified diff of two texts; empty when they are equal.

    At most `MAX_DIFF_LINES` lines and `limit` bytes; a line that is cut is marked, and the last line counts what is
    left out. Control characters of the path are written out.
    """
    if old == new:
        return ""
    before, after = old.decode("utf-8").splitlines(keepends=True), new.decode("utf-8").splitlines(keepends=True)
    name = shown(path)
    head = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    if size_of("".join(head)) > limit - _LAST_LINE:
        return not_shown(len(old), len(new))
    if len(before) + len(after) > _SLOW_LINES:
        told = f"@@ {len(before)} lines before, {len(after)} lines after: too many to compare @@\n"
        return "".join([*head, told])
    body = list(difflib.unified_diff(before, after, "a", "b"))[2:]
    return _bounded(head, body, limit - _LAST_LINE)


def not_shown(before: int, after: int) -> str:
    """What stands for a diff for which there is no room; the sizes are bytes."""
    return f"… no diff is shown, there is no room left for it: {before:,} bytes before, {after:,} bytes after\n"


def size_of(text: str) -> int:
    """Bytes that a text takes in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _bounded(head: list[str], body: Iterable[str], limit: int) -> str:
    kept = list(head)
    room = limit - size_of("".join(head))
    missing_lines = missing_bytes = 0
    for line in body:
        whole = line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"
        size = size_of(whole)
        if not missing_lines and size <= room and len(kept) < MAX_DIFF_LINES:
            kept.append(whole)
            room -= size
            continue
        if not missing_lines and len(kept) < MAX_DIFF_LINES:
            beginning = line.encode("utf-8")[:room].decode("utf-8", "ignore")
            missing = size_of(line) - size_of(beginning)
            kept.append(f"{beginning} … {missing:,} bytes of this line are left out …\n" if beginning else "")
            size = missing
        missing_lines += 1
        missing_bytes += size
    if missing_lines:
        kept.append(
            f"… {missing_lines:,} lines left out in whole or in part, {missing_bytes:,} bytes: this is not all\n"
        )
    return "".join(kept)
