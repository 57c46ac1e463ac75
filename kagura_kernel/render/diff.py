"""A unified diff taken apart: what each line is, and its numbers."""

from __future__ import annotations

import re

_LINE = 2000  # characters of a line, and below: lines and characters of a difference
_LINES = 400
_CHARACTERS = 60_000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


def counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    lines = diff.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("@@")), 0)
    body = lines[start:]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def lines_of_hunk(part: str) -> str:
    """Which lines a hunk is about, as they are afterwards: `lines 18–24`."""
    found = _HUNK.match(part)
    first, many = (int(found[2]), int(found[3] or 1)) if found else (0, 0)
    if not many:
        return f"after line {first}"
    return f"lines {first}–{first + many - 1}" if many > 1 else f"line {first}"


def diff_rows(diff: str) -> list[tuple[str, str, str, str]]:
    """For each line its kind as a class, its number before and after, and itself, sign and all.

    File headers are dropped, and a long difference is cut with a remark.
    """
    diff = diff.removesuffix("\n")
    part = _beginning(diff)
    rows = []
    old = new = 0
    inside = False
    for line in part:
        hunk = _HUNK.match(line)
        if hunk:
            old, new, inside = int(hunk[1]), int(hunk[2]), True
            rows.append(("kg-hunk", "", "", line))
        elif not inside:
            continue
        elif line.startswith("+"):
            rows.append(("kg-add", "", str(new), line))
            new += 1
        elif line.startswith("-"):
            rows.append(("kg-del", str(old), "", line))
            old += 1
        elif line.startswith("\\"):
            rows.append(("kg-hunk", "", "", line))
        else:
            rows.append(("", str(old), str(new), line))
            old, new = old + 1, new + 1
    if left := diff.count("\n") + 1 - len(part):
        rows.append(("kg-hunk", "", "", f"… {left:,} more lines …"))
    return rows


def _beginning(diff: str) -> list[str]:
    """The first whole lines that fit; every cut inside of a line says how much it hides."""
    kept: list[str] = []
    size = 0
    for line in diff.split("\n", _LINES)[:_LINES]:
        shown = line if len(line) <= _LINE else f"{line[:_LINE]} ⟨… {len(line) - _LINE:,} characters left out⟩"
        size += len(shown)
        if kept and size > _CHARACTERS:
            break
        kept.append(shown)
    return kept
