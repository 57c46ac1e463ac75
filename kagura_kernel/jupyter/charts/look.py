"""How all charts look: no background, text in the page's own colour, hues that stand out on light and dark."""

from __future__ import annotations

from typing import Any

INK = "currentColor"
"""SVG takes it from the page, so text is legible in every theme."""
LINES = "#88888855"

BLUE, AMBER, RED, GREEN, GREY = "#3b82c4", "#bf7a12", "#d6544f", "#2f8f57", "#808080"
HUES = (BLUE, "#bf7a12", "#168f95", "#c85c98", "#8d70cf", "#9c7248", GREEN, "#6b8e23", GREY)
"""Each has a contrast of at least 3 to 1 with white and with JupyterLab's dark grey; red and amber have a meaning."""

WIDTH = 620
_FONT = "system-ui, sans-serif"


def finished(chart: Any, description: str) -> dict[str, Any]:
    """The chart's Vega-Lite with our look, for the edition that front ends know.

    Args:
        chart: Of altair, which checks it against the grammar.
        description: What a screen reader says of it.
    """
    from kagura_kernel.jupyter.charts.picture import VEGA_LITE_SCHEMA

    spec: dict[str, Any] = chart.properties(background="transparent").configure(**_config()).to_dict()
    spec["$schema"] = VEGA_LITE_SCHEMA
    spec["description"] = description
    # Of no use to whoever reads it, and different in every process.
    spec.get("usermeta", {}).clear()
    return spec


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
