"""Searches files for a pattern. Runs inside a box as a program of its own, with the standard library only.

Reads its order from standard input, as JSON: `root`, `pattern`, `glob` (empty for all), `ignore_case`, `max`. Prints
one JSON object: `matches` (path, line number, line), `more`, `files`, or `error`. Binary files, links and the
directories of LEFT_OUT are passed over.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_LINE = 400
LARGEST_FILE = 64 << 20
LEFT_OUT = frozenset({".git", ".kagura", "__pycache__", "node_modules", ".venv"})


def search(root: str, pattern: str, *, glob: str = "", ignore_case: bool = False, most: int = 200) -> dict[str, Any]:
    """All matches below `root` (or in it, if it is a file), in the order of their paths."""
    try:
        wanted = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": f"the pattern is no regular expression: {error}"}
    if not os.path.lexists(root):
        return {"error": f"there is no {root}"}
    matches: list[tuple[str, int, str]] = []
    looked_at = 0
    for path in _files(root, glob):
        lines = _lines_of(path)
        looked_at += lines is not None
        for number, line in enumerate(lines or (), 1):
            if not wanted.search(line):
                continue
            if len(matches) >= most:
                return {"matches": matches, "more": True, "files": looked_at}
            matches.append((path, number, line[:LONGEST_LINE]))
    return {"matches": matches, "more": False, "files": looked_at}


def _files(root: str, glob: str) -> Iterator[str]:
    if Path(root).is_file():
        yield root
        return
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            path = f"{directory}/{name}"
            if not glob or fnmatch.fnmatchcase(os.path.relpath(path, root) if "/" in glob else name, glob):
                yield path


def _lines_of(path: str) -> list[str] | None:
    """A file's lines without their ends; None for what is no text, or cannot be read."""
    try:
        # Without O_NONBLOCK a FIFO would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = file.read(LARGEST_FILE)
    except OSError:
        return None
    if b"\0" in data[:8192]:
        return None
    lines = data.decode("utf-8", "replace").split("\n")
    # What comes after the last end of a line is no line where nothing comes.
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def main() -> None:
    """Read the order, search, print the answer."""
    order = json.load(sys.stdin)
    answer = search(
        order["root"],
        order["pattern"],
        glob=order["glob"],
        ignore_case=order["ignore_case"],
        most=order["max"],
    )
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
