"""A unified diff as HTML: line numbers, a sign in text for those who see no colours, the rest by colour."""

from __future__ import annotations

import re

from kagura_kernel.jupyter.cards.escape import escaped

_LINE = 2000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    lines = diff.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("@@")), 0)
    body = lines[start:]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def diff_html(diff: str, *, lines: int = 400) -> str:
    """The diff as a block; file headers are dropped, long ones are cut with a remark."""
    diff = diff.removesuffix("\n")
    part = _beginning(diff, lines)
    rows = []
    old = new = 0
    inside = False
    for line in part:
        hunk = _HUNK.match(line)
        if hunk:
            old, new, inside = int(hunk[1]), int(hunk[2]), True
            rows.append(_row("kg-hunk", "", "", line))
        elif not inside:
            continue
        elif line.startswith("+"):
            rows.append(_row("kg-add", "", str(new), line))
            new += 1
        elif line.startswith("-"):
            rows.append(_row("kg-del", str(old), "", line))
            old += 1
        elif line.startswith("\\"):
            rows.append(_row("kg-hunk", "", "", line))
        else:
            rows.append(_row("", str(old), str(new), line))
            old, new = old + 1, new + 1
    if left := diff.count("\n") + 1 - len(part):
        rows.append(_row("kg-hunk", "", "", f"… {left:,} more lines …"))
    return f'<pre class="kg-diff" role="figure" aria-label="Difference" tabindex="0">{"".join(rows)}</pre>'


def _beginning(diff: str, lines: int, characters: int = 60_000) -> list[str]:
    """The first whole lines that fit; every cut inside of a line says how much it hides."""
    kept: list[str] = []
    size = 0
    for line in diff.split("\n", lines)[:lines]:
        shown = line if len(line) <= _LINE else f"{line[:_LINE]} ⟨… {len(line) - _LINE:,} characters left out⟩"
        size += len(shown)
        if kept and size > characters:
            break
        kept.append(shown)
    return kept


def _row(kind: str, old: str, new: str, line: str) -> str:
    numbers = f'<span class="kg-no" aria-hidden="true">{old:>4} {new:>4} </span>'
    return f'<span class="kg-row {kind}">{numbers}<span class="kg-line">{escaped(line) or " "}</span>\n</span>'
