"""The verified successes of each category over time, as steps: up by one, down to nothing at a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.trust import NOW
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.charts.picture import (
    AMBER,
    BLUE,
    GREEN,
    LINES,
    RED,
    WIDTH,
    Chart,
    bar,
    finished,
    markdown_table,
    text_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.trust import Point
    from kagura_kernel.domain.patterns import TrustTerms

_COLUMNS = {
    "category": "string",
    "at": "datetime64[us, UTC]",
    "successes": "Int64",
    "change": "string",
    "run": "string",
}
_HEIGHT = 90
_BAR = 10
# What is told by a sign of its own; a success is the step itself.
_SIGNS = {
    "failed": ("cross", RED),
    "demoted": ("triangle-down", RED),
    "refused": ("square", AMBER),
    "proposed": ("diamond", BLUE),
    "granted": ("triangle-up", GREEN),
}


def trust_frame(points: Sequence[Point]) -> pd.DataFrame:
    """One line for each row that changed something."""
    import pandas as pd

    cells = [(one.category, one.at, one.successes, one.change, visible(one.run_id)) for one in points]
    return pd.DataFrame(cells, columns=list(_COLUMNS), dtype=object).astype(_COLUMNS)


def trust_chart(points: Sequence[Point], terms: TrustTerms) -> Chart:
    """The curves, with the number of successes that a proposal needs as a line."""
    told = [point for point in points if point.change != NOW]
    frame = trust_frame(told)
    if not told:
        return Chart("trust", frame, "No category has shown anything yet.")
    names = list(dict.fromkeys(point.category for point in told))
    title = f"Verified successes by category; a proposal needs {terms.successes}"
    cells = [(f"{p.at:%Y-%m-%d %H:%M}", p.category, p.change, p.successes, visible(p.run_id) or "-") for p in told]
    table = markdown_table(("when (UTC)", "category", "what", "successes", "run"), cells, title)
    lines = [(when, name, what, bar(many, terms.successes, _BAR) or "0", run) for when, name, what, many, run in cells]
    return Chart("trust", frame, f"{title}\n{text_table(lines)}", _spec(points, names, title, terms), table)


def _spec(points: Sequence[Point], names: list[str], title: str, terms: TrustTerms) -> dict[str, Any]:
    import altair as alt

    data = alt.InlineData(values=[_value(point) for point in points])
    most = max(terms.successes, *(point.successes for point in points))
    scale = alt.Scale(domain=[0, most + 1])
    signs_seen = [name for name in _SIGNS if any(point.change == name for point in points)]
    axis = alt.Axis(values=sorted({0, terms.successes, most}), format="d")
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TIPS]
    base = alt.Chart(data).encode(
        x=alt.X("at:T", title=None, axis=alt.Axis(grid=False, labelOverlap=True)),
        y=alt.Y("successes:Q", title=None, scale=scale, axis=axis),
    )
    steps = base.mark_line(interpolate="step-after", color=BLUE, strokeWidth=2)
    signs = base.transform_filter(alt.FieldOneOfPredicate(field="change", oneOf=list(_SIGNS))).mark_point(
        size=90, filled=True, opacity=1
    )
    happened = base.transform_filter(alt.datum.change != NOW)
    # One line in each row: not one for each point.
    needed = (
        alt.Chart(data)
        .transform_aggregate(points="count()", groupby=["category"])
        .mark_rule(color=LINES, strokeDash=[4, 3])
        .encode(y=alt.datum(terms.successes))
    )
    layers = alt.layer(
        needed,
        steps,
        happened.mark_point(size=24, filled=True, opacity=1, color=BLUE).encode(tooltip=tips),
        signs.encode(
            shape=alt.Shape("change:N", scale=_scale(signs_seen, 0)),
            color=alt.Color("change:N", scale=_scale(signs_seen, 1)),
            tooltip=tips,
        ),
    )
    picture = layers.properties(width=WIDTH - 120, height=_HEIGHT).facet(
        row=alt.Row("category:N", title=None, sort=names, header=alt.Header(labelAngle=0, labelAlign="left"))
    )
    first, last = min(point.at for point in points), max(point.at for point in points)
    said = f"{title}. {', '.join(names)}, from {first:%Y-%m-%d} to {last:%Y-%m-%d}, UTC."
    return finished(picture.properties(title=title), said)


_TIPS = (
    ("category", "Category"),
    ("when", "When (UTC)"),
    ("change", "What"),
    ("successes", "Successes"),
    ("run", "Run"),
)


def _value(point: Point) -> dict[str, Any]:
    return {
        "category": point.category,
        "at": f"{point.at:%Y-%m-%dT%H:%M:%SZ}",
        "when": f"{point.at:%Y-%m-%d %H:%M}",
        "successes": point.successes,
        "change": point.change,
        "run": visible(point.run_id) or "-",
    }


def _scale(names: list[str], place: int) -> Any:
    import altair as alt

    return alt.Scale(domain=names, range=[_SIGNS[name][place] for name in names])
