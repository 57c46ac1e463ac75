"""Fair measuring: what is compared takes turns, so that a busy moment of the machine falls on both."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from tests.support.dockerd import TestDaemon

Measure = Callable[[], Awaitable[float]]
"""Does the thing once and tells the figure; what it does beside is not in it."""

WARM_UP = 2


class Missing(Exception):
    """A part that this machine has not got; the row says so in its place."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a row is measured with."""

    folder: Path  # Scratch space, empty at the start and removed at the end
    samples: int = 20  # How often each side is measured; the table shows medians
    daemon: TestDaemon | None = None  # A Docker daemon with the images of the tests; None when there is none
    no_daemon: str = ""  # Why there is none

    def docker(self) -> TestDaemon:
        """The daemon.

        Raises:
            Missing: there is none.
        """
        if self.daemon is None:
            raise Missing(self.no_daemon)
        return self.daemon


@dataclass(frozen=True, slots=True)
class Bound:
    """What is wanted of a figure beside its floor: `factor` times it, at most or at least; or a figure by itself.

    With `more` it is wanted to be at most `factor`, in its own unit, above its floor.
    """

    text: str
    factor: float
    kind: Literal["most", "least", "more"] = "most"

    def met(self, figure: float, floor: float | None = None) -> bool:
        """Whether a figure, beside its floor if there is one, is as wanted."""
        if floor is not None:
            figure = figure - floor if self.kind == "more" else figure / floor
        return figure >= self.factor if self.kind == "least" else figure <= self.factor


@dataclass(frozen=True, slots=True)
class Line:
    what: str  # What was measured
    floor: str = ""  # What it is compared with; empty when it stands by itself
    figure: float | None = None  # The median
    floor_figure: float | None = None  # The floor's median, in the same unit
    unit: str = "ms"  # `ms`, `MB/s`, `MiB`, …; empty for a count
    bound: Bound = field(default_factory=lambda: Bound("", float("inf")))  # What is wanted
    samples: int = 0  # Of each side
    missing: str = ""  # Why there are no figures

    @property
    def ratio(self) -> float | None:
        """Figure by floor."""
        if self.figure is None or not self.floor_figure:
            return None
        return self.figure / self.floor_figure

    @property
    def verdict(self) -> str:
        """Whether it is as wanted, as a word. It decides nothing."""
        if self.figure is None or not self.bound.text or (self.floor and not self.floor_figure):
            return ""
        return "yes" if self.bound.met(self.figure, self.floor_figure if self.floor else None) else "no"


async def interleaved(samples: int, *, warm_up: int = WARM_UP, **sides: Measure) -> dict[str, float]:
    """The median of each side, measured in turns that begin with another side each time."""
    figures: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    gc.collect()
    gc.disable()
    try:
        for turn in range(warm_up + samples):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                figure = await sides[name]()
                if turn >= warm_up:
                    figures[name].append(figure)
            gc.collect()
    finally:
        gc.enable()
    return {name: median(values) for name, values in figures.items()}


def milliseconds(seconds: float) -> float:
    """For the table."""
    return seconds * 1000


_HEAD = ("what", "measured", "floor", "measured", "ratio", "wanted", "met", "last", "samples")


def table(lines: list[Line], last: Mapping[str, str] | None = None) -> str:
    """The lines in Markdown.

    Args:
        lines: What was measured.
        last: What an earlier table says of each, as `told` reads it.
    """
    rows = [_HEAD, ("---",) * len(_HEAD)]
    for line in lines:
        was, wanted = (last or {}).get(line.what, ""), line.bound.text
        if line.missing:
            rows.append((line.what, f"not measured: {line.missing}", line.floor, "", "", wanted, "", was, ""))
            continue
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}×" if line.ratio >= 0.1 else f"1/{1 / line.ratio:.1f}"
        floor = "" if line.floor_figure is None else _figure(line.floor_figure, line.unit)
        figure = "" if line.figure is None else _figure(line.figure, line.unit)
        rows.append((line.what, figure, line.floor, floor, ratio, wanted, line.verdict, was, str(line.samples)))
    widths = [max(len(row[column]) for row in rows if row[0] != "---") for column in range(len(_HEAD))]
    return "\n".join(
        "| "
        + " | ".join(
            "-" * width if cell == "---" else cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        )
        + " |"
        for row in rows
    )


def told(text: str) -> dict[str, str]:
    """What a table says of each line: its ratio, or its figure where it stands by itself; nothing that is missing."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| ")]
    return {row[0]: row[4] or row[1] for row in rows if len(row) == len(_HEAD) and row[1][:1].isdigit()}


def _figure(value: float, unit: str) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}" if unit else f"{value:g}"
