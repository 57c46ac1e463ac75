"""Turns a cell that begins with one of our cell magics, and a line that waits for a person, into an awaited call.

IPython does not await cell magics, and a run must be awaited: a cell that blocks never hears its own buttons. So the
cell is rewritten before IPython looks at it. The rewriting is by structure alone: the first line decides, and the
body travels as a string literal, unread and unchanged.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

from kagura_kernel.jupyter.surface import loop_runs

CELL_MAGICS = ("kagura", "sandbox")
"""Names of the cell magics that are rewritten."""

ENTRY = "kagura_cell"
"""Attribute of the shell that the rewritten cell calls."""

ENTRY_INSIDE = "kagura_cell_inside"
"""The same for a cell that cannot be awaited, because another magic runs it."""

ENTRY_COMMAND = "kagura_command"
"""The same for a line that asks a person and waits for the answer."""

_AWAITED = re.compile(r"plugin[ \t]+(enable|audit)(?=[ \t]|$)")
_COMMAND = re.compile(r"%kagura[ \t]+(?P<line>.*)")

_FIRST_LINE = re.compile(rf"%%(?P<magic>{'|'.join(CELL_MAGICS)})(?P<line>[ \t].*)?$")

# nbval reads these comments out of a cell; in a prompt or a shell script they would be noise.
_NBVAL_MARKER = re.compile(
    r"\s*#+\s*(NBVAL_IGNORE_OUTPUT|NBVAL_CHECK_OUTPUT|NBVAL_RAISES_EXCEPTION|NBVAL_SKIP|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$"
)


def rewrite(lines: Sequence[str]) -> list[str]:
    """The lines of a cell (each with its line end), rewritten when the cell is one of ours, otherwise as they came."""
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or is_marker(lines[skipped])):
        skipped += 1
    if skipped == len(lines):
        return list(lines)
    found = _FIRST_LINE.match(lines[skipped].rstrip("\r\n"))
    if found is None:
        return _commands(lines)
    line = (found["line"] or "").strip()
    body = without_markers("".join(lines[skipped + 1 :]))
    call = f"({found['magic']!r}, {line!r}, {body!r})\n"
    if _inside():
        return [f"get_ipython().{ENTRY_INSIDE}{call}"]
    return [f"await get_ipython().{ENTRY}{call}"]


def _commands(lines: Sequence[str]) -> list[str]:
    """A cell of nothing but our commands, those that wait for a person awaited; any other cell as it came."""
    written = []
    for line in lines:
        text = line.strip()
        command = _COMMAND.fullmatch(text)
        if command is None and text and not text.startswith("#"):
            return list(lines)
        awaited = command is not None and waits(command["line"])
        written.append(f"await get_ipython().{ENTRY_COMMAND}({command['line']!r})\n" if command and awaited else line)
    return list(lines) if _inside() else written


def waits(command: str) -> bool:
    """Whether a command, without its prefix, asks a person and waits for the answer."""
    return _AWAITED.match(command) is not None


# Whoever asks whether a cell is complete sees it as it was typed: a `%%` cell goes on until an empty line.
rewrite.has_side_effects = True  # type: ignore[attr-defined]  # where IPython looks for it


def is_marker(line: str) -> bool:
    """Whether a line is a comment that speaks to nbval."""
    return _NBVAL_MARKER.match(line) is not None


def _inside() -> bool:
    """Whether other code runs this cell, and could not await it: a magic as `%%time`, or `run_cell` below a loop."""
    names = set()
    frame = inspect.currentframe()
    while frame is not None:
        if "IPython" in frame.f_code.co_filename:
            names.add(frame.f_code.co_name)
        frame = frame.f_back
    return "run_cell_magic" in names or ("run_cell" in names and loop_runs())


def without_markers(body: str) -> str:
    """The body without the comment lines that speak to nbval."""
    return "".join(line for line in body.splitlines(keepends=True) if not is_marker(line.rstrip("\r\n")))
