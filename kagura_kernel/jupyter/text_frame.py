"""A DataFrame with more columns than fit a terminal, which shows there the ones that tell most."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd

from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.surface import Surface, surface_of

_LEAST = 16
"""Characters that the longest column needs to say something."""
_WHOLE = 1000
"""From here on a figure has no decimals."""

_LONG = frozenset({"task", "missing", "model"})
"""Columns that may be cut, so that the others stand beside them."""


class TextFrame(pd.DataFrame):
    """A table to work with. What is taken out of it is an ordinary DataFrame, and shown as one."""

    # The columns that are shown, as far as they fit: the last are left out first
    telling: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        """As it is where it fits a line; otherwise its telling columns, and beneath them the names of the others."""
        width = shutil.get_terminal_size().columns
        if self.empty or not {*self.telling} <= {*self.columns}:
            return repr(pd.DataFrame(self))
        most = pd.get_option("display.max_rows") or len(self)
        rows = self.head(most)
        if _broad([str(name) for name in self.columns], rows) <= width:
            return repr(pd.DataFrame(self))
        lines, shown = _lines(self.telling, rows, width)
        left = len(self) - len(rows)
        more = [f"… and {left:,} more"] if left > 0 else []
        others = ", ".join(str(name) for name in self.columns if name not in shown)
        return "\n".join([*lines, *more, *textwrap.wrap(f"Other columns: {others}", width)])


class RunsText(TextFrame):
    """Runs."""

    telling = ("run", "status", "task", "seconds", "usd")


class CostsText(TextFrame):
    """What runs cost."""

    telling = ("run", "status", "usd", "total_usd", "input_tokens", "output_tokens", "model")


class CalibratedText(TextFrame):
    """Estimates beside what was needed."""

    telling = ("run", "estimated_usd", "usd", "usd_within", "estimated_seconds", "seconds", "status")


class TrustText(TextFrame):
    """How categories stand."""

    telling = ("category", "state", "successes", "tasks", "days", "missing")


def for_text(table: pd.DataFrame, kind: type[TextFrame], shell: Any) -> pd.DataFrame:
    """The same table; where it is read in a terminal, one that shows its telling columns when not all of them fit."""
    return kind(table) if surface_of(shell) in {Surface.TERMINAL, Surface.CONSOLE} else table


def _lines(telling: Sequence[str], rows: pd.DataFrame, width: int) -> tuple[list[str], list[str]]:
    """The columns that fit, a line for the heads and one for each row, and their names."""
    names = list(telling)
    long = next((name for name in names if name in _LONG), "")
    while len(names) > 1 and _broad([one for one in names if one != long], rows) + (_LEAST + 2) * bool(long) > width:
        names.remove(next(one for one in reversed(names) if one != long))
    room = width - _broad([one for one in names if one != long], rows) - 2
    columns = [_column(name, rows, room if name == long else width) for name in names]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)], names


def _broad(names: list[str], rows: pd.DataFrame) -> int:
    """How many characters these columns need beside each other."""
    return sum(len(_column(name, rows)[0]) + 2 for name in names) - 2


def _column(name: str, rows: pd.DataFrame, room: int | None = None) -> list[str]:
    """Its head and its cells, all equally wide and no wider than there is room."""
    values = list(rows[name])
    cells = [_cut(one, room) for one in (name, *map(_cell, values))]
    width = max(map(len, cells))
    right = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [one.rjust(width) if right else one.ljust(width) for one in cells]


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < _WHOLE else f"{value:,.0f}"
    if isinstance(value, str):
        return visible(" ".join(value.split()))
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, pd.Timestamp) else str(value)


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else f"{text[: max(1, room) - 1]}…"
