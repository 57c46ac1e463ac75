"""A chart as the value of a cell, and how all charts look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kagura_kernel.render.escape import one_line

INK = "currentColor"
"""SVG takes it from the page, so text is legible in every theme."""
LINES = "#88888855"

BLUE, AMBER, RED, GREEN, GREY = "#3b82c4", "#bf7a12", "#d6544f", "#2f8f57", "#808080"
HUES = (BLUE, "#bf7a12", "#168f95", "#c85c98", "#8d70cf", "#9c7248", GREEN, "#6b8e23", GREY)
"""Each has a contrast of at least 3 to 1 with white and with JupyterLab's dark grey; red and amber have a meaning."""

WIDTH = 620
_FONT = "system-ui, sans-serif"


def finished(chart: Any, description: str) -> dict[str, Any]:
    """The chart's Vega-Lite with our look, for the edition that front ends know."""
    spec: dict[str, Any] = chart.properties(background="transparent").configure(**_config()).to_dict()
    spec["$schema"] = VEGA_LITE_SCHEMA
    spec["description"] = description
    # Of no use to whoever reads it, and different in every process.
    spec.get("usermeta", {}).clear()
    return spec


def tips(named: Mapping[str, str]) -> list[Any]:
    """What a pointer is told of a mark: fields of its data, each under a name."""
    import altair as alt

    return [alt.Tooltip(f"{field}:N", title=name) for field, name in named.items()]


def _config() -> dict[str, Any]:
    text = {"labelColor": INK, "titleColor": INK, "labelFont": _FONT, "titleFont": _FONT, "labelFontSize": 12}
    return {
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {**text, "domainColor": LINES, "tickColor": LINES, "gridColor": LINES, "titleFontWeight": "normal"},
        "legend": {**text, "orient": "bottom", "title": None, "labelLimit": 260},
        "title": {"color": INK, "subtitleColor": INK, "font": _FONT, "fontSize": 14, "anchor": "start"},
        "header": text,
        "text": {"color": INK, "font": _FONT, "fontSize": 11},
    }


VEGA_LITE_MIME = "application/vnd.vegalite.v5+json"
"""What JupyterLab 4 and Notebook 7 have a renderer for. altair 6 writes the grammar's sixth edition, of which only what
the fifth has too is used here."""
VEGA_LITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MARKDOWN_ROWS = 40


class Chart:
    """One chart.

    Its text is what a terminal shows; where there is nothing to draw, the sentence that says so. The table is Markdown,
    for readers without pictures.
    """

    def __init__(
        self, name: str, frame: pd.DataFrame, text: str, spec: dict[str, Any] | None = None, table: str = ""
    ) -> None:
        self.name = name
        self.frame = frame  # The figures, as a DataFrame
        self.spec = spec  # The picture in Vega-Lite, its data included; None where there is nothing to draw
        self._text = text
        self._table = table

    def __repr__(self) -> str:
        return self._text

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture, and for whoever cannot show it the table and the text, with their metadata."""
        if self.spec is None:
            return {"text/plain": self._text}, {}
        data = {VEGA_LITE_MIME: self.spec, "text/markdown": self._table, "text/plain": self._text}
        # As SVG its text takes the page's own colour, also when the theme changes; and a screen reader finds the marks.
        return data, {VEGA_LITE_MIME: {"embed_options": {"renderer": "svg", "actions": False}}}

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """IPython's protocol for showing a value."""
        del include, exclude
        return self.bundle()


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> str:
    """A table with a heading; of many rows the first, and how many more there are."""
    lines = [f"**{_cell(title)}**", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines.extend(f"| {' | '.join(_cell(value) for value in row)} |" for row in rows[:MARKDOWN_ROWS])
    left = len(rows) - MARKDOWN_ROWS
    return "\n".join([*lines, *(["", f"… and {left} more rows in `.frame`."] if left > 0 else [])])


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, a line for each row."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def bar(part: float, whole: float, width: int = 30) -> str:
    """A bar of block characters, as long as the part is of the whole; of anything at all at least one."""
    if whole <= 0 or part <= 0:
        return ""
    return "█" * max(1, round(width * part / whole))


def _cell(value: object) -> str:
    """Text that can neither end its cell nor be taken for markup, whoever chose it."""
    text = one_line(str(value), 80)
    for sign in "\\`*_[]<>|~$#&!":
        text = text.replace(sign, f"\\{sign}")
    return text
