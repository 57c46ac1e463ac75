"""What runs cost by day, brain and model. Unknown prices are marked, and never taken for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.trust import NOW
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.charts.picture import (
    AMBER,
    BLUE,
    GREEN,
    HUES,
    LINES,
    RED,
    WIDTH,
    Chart,
    bar,
    finished,
    markdown_table,
    text_table,
)
from kagura_kernel.render.figures import counted, data_size, money

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.records import CostReport
    from kagura_kernel.cockpit.trust import Point
    from kagura_kernel.domain.patterns import TrustTerms
    from kagura_kernel.journal.rows import EgressRow


# Neither a cell's own code nor a replay pays anybody.
_FREE = frozenset({"", "replay"})
_LABELS = 12
_COST_KINDS = {"day": "string", "brain": "string", "model": "string", "usd": "Float64", "runs": "Int64"}
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Row:
    """What one brain and model cost on one day.

    Attributes:
        who: Brain and model.
    """

    day: str
    brain: str
    model: str
    usd: float | None  # What is known; None when nothing is
    runs: int
    unpriced: int  # How many of the runs have no known price

    @property
    def who(self) -> str:
        return f"{self.brain} · {self.model}" if self.model else self.brain

    @property
    def price(self) -> str:
        """In words, with what is not known of it."""
        if self.usd is None:
            return UNKNOWN
        return money(self.usd) + (f" and {counted(self.unpriced, 'run')} of unknown price" if self.unpriced else "")


def cost_frame(report: CostReport) -> pd.DataFrame:
    """One line for each day, brain and model that cost something, or whose price is unknown.

    `usd` is NA where nothing is known; `unpriced_runs` of the `runs` have no known price and are not in it.
    """
    import pandas as pd

    cells = [(row.day, row.brain, row.model, row.usd, row.runs, row.unpriced) for row in _rows(report)]
    frame = pd.DataFrame(cells, columns=[*_COST_KINDS, "unpriced_runs"], dtype=object)
    return frame.astype({**_COST_KINDS, "unpriced_runs": "Int64"})


def cost_chart(report: CostReport) -> Chart:
    """Costs of the days of a report."""
    rows, frame = _rows(report), cost_frame(report)
    if not rows:
        return Chart("cost", frame, f"No run has cost anything since {report.since:%Y-%m-%d}.")
    title = f"Cost by day, brain and model: {_total(rows)}"
    head = ("day (UTC)", "brain", "model", "cost", "runs")
    table = markdown_table(head, [(row.day, row.brain, row.model, row.price, row.runs) for row in rows], title)
    return Chart("cost", frame, _cost_text(rows, title), _cost_spec(rows, title), table)


def _rows(report: CostReport) -> list[_Row]:
    return [
        _Row(day.day.isoformat(), visible(day.brain), visible(day.model), one.usd, one.runs, one.unpriced_runs)
        for day in report.days
        if day.brain not in _FREE and ((one := day.spending).usd or one.unpriced_runs)
    ]


def _total(rows: list[_Row]) -> str:
    known = [row.usd for row in rows if row.usd is not None]
    unpriced = sum(row.unpriced for row in rows)
    total = money(sum(known)) if known else UNKNOWN
    return f"{total}, {counted(unpriced, 'run')} of unknown price not in it" if unpriced and known else total


def _cost_text(rows: list[_Row], title: str) -> str:
    most = max((row.usd or 0.0 for row in rows), default=0.0)
    cells = [
        (row.day, row.who, money(row.usd) if row.usd is not None else "?", bar(row.usd or 0.0, most), _marks(row))
        for row in rows
    ]
    return f"{title}\n{text_table(cells)}"


def _marks(row: _Row) -> str:
    return f"? {counted(row.unpriced, 'run')} of unknown price" if row.unpriced else ""


def _cost_spec(rows: list[_Row], title: str) -> dict[str, Any]:
    import altair as alt

    days = _days(rows[0].day, rows[-1].day)
    who = sorted({row.who for row in rows})
    every = -(-len(days) // _LABELS)
    x = alt.X(
        "day:O",
        title=None,
        scale=alt.Scale(domain=days),
        # Month and day; the description and the tables say the year.
        axis=alt.Axis(values=days[::every], labelAngle=0, labelExpr="slice(datum.label, 5)"),
    )
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _COST_TIPS]
    priced = [row for row in rows if row.usd is not None]
    bars = alt.Chart(_data(priced)).mark_bar(size=_thickness(len(days)))
    layers: list[Any] = [
        bars.encode(
            x=x,
            y=alt.Y("usd:Q", title="USD", axis=alt.Axis(format="$~g", tickCount=5)),
            color=alt.Color("who:N", scale=alt.Scale(domain=who, range=_hues(len(who)))),
            order=alt.Order("who:N"),
            tooltip=tips,
        )
    ]
    unknown = [row for row in rows if row.unpriced]
    if unknown:
        # Above the picture, where no bar can hide them.
        marks = alt.Chart(_unknown(unknown)).mark_text(baseline="bottom", fontWeight="bold")
        layers.append(
            marks.encode(
                x=x,
                y=alt.value(-4),
                text="mark:N",
                tooltip=[tips[0], alt.Tooltip("unpriced:N", title="Runs of unknown price")],
            )
        )
    heading: Any = title
    if unknown:
        heading = alt.TitleParams(
            title, subtitle=["? runs whose price is unknown: they are not in the bars"], offset=22
        )
    picture = alt.layer(*layers).properties(width=WIDTH, height=220, title=heading)
    return finished(picture, f"{title}. From {days[0]} to {days[-1]}, UTC.")


_COST_TIPS = (("day", "Day (UTC)"), ("who", "Brain"), ("price", "Cost"), ("runs", "Runs"))


def _data(rows: list[_Row]) -> Any:
    import altair as alt

    values = [{"day": row.day, "who": row.who, "usd": row.usd, "price": row.price, "runs": row.runs} for row in rows]
    return alt.InlineData(values=values)


def _unknown(rows: list[_Row]) -> Any:
    import altair as alt

    counts: dict[str, int] = {}
    for row in rows:
        counts[row.day] = counts.get(row.day, 0) + row.unpriced
    return alt.InlineData(values=[{"day": day, "mark": f"? {many}", "unpriced": many} for day, many in counts.items()])


def _days(first: str, last: str) -> list[str]:
    """Every day from one to the other, those without a run included."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(days=number)).isoformat() for number in range((end - begin).days + 1)]


def _hues(count: int) -> list[str]:
    return [HUES[number % len(HUES)] for number in range(count)]


def _thickness(days: int) -> float:
    return min(56.0, 0.8 * WIDTH / days)


MAX_HOSTS = 25
_EGRESS_KINDS = {"host": "string", "port": "Int64", "connections": "Int64", "refused": "Int64", "bytes_in": "Int64"}
_PANEL = 270
_LONGEST = 44


@dataclass(slots=True)
class Place:
    """One host and port, of all connections together."""

    host: str
    port: int
    connections: int = 0  # How many were made
    refused: int = 0  # How many were refused
    bytes_in: int = 0
    bytes_out: int = 0
    why: str = ""  # Why the latest of these was

    @property
    def name(self) -> str:
        """`host`, with its port where that is not the usual one."""
        return visible(self.host) if self.port == _HTTPS else f"{visible(self.host)}:{self.port}"


_HTTPS = 443


def places(rows: Sequence[EgressRow]) -> list[Place]:
    """Connections by host and port: those with most bytes first, refused ones last."""
    found: dict[tuple[str, int], Place] = {}
    # A refusal that repeats is a row at 1, 2, 4, 8 … times: the largest of each run counts.
    times: dict[tuple[str, str, int], int] = {}
    for row in rows:
        place = found.setdefault((row.host, row.port), Place(row.host, row.port))
        if row.allowed:
            place.connections += row.times
            place.bytes_in += row.bytes_in
            place.bytes_out += row.bytes_out
            continue
        key = (row.run_id, row.host, row.port)
        before = times.get(key, 0)
        times[key] = max(before, row.times)
        place.refused += times[key] - before
        place.why = place.why or visible(row.reason)
    return sorted(found.values(), key=lambda one: (-(one.bytes_in + one.bytes_out), -one.connections, one.name))


def egress_chart(rows: Sequence[EgressRow], run_id: str | None = None) -> Chart:
    """Connections by host."""
    found = places(rows)
    frame = egress_frame(found)
    whose = f"of {run_id}" if run_id else "of the latest runs"
    if not found:
        return Chart("egress", frame, f"No box {whose} has asked for a connection.")
    made, refused = sum(one.connections for one in found), sum(one.refused for one in found)
    title = f"Connections {whose}: {made:,} made, {refused:,} refused"
    shown = _at_most(found)
    head = ("host", "connections", "bytes in", "bytes out", "refused", "why")
    cells = [
        (one.name, one.connections, data_size(one.bytes_in), data_size(one.bytes_out), one.refused, one.why)
        for one in shown
    ]
    return Chart(
        "egress", frame, _egress_text(shown, title), _egress_spec(shown, title), markdown_table(head, cells, title)
    )


def egress_frame(found: Sequence[Place]) -> pd.DataFrame:
    """One line for each host and port; of a refused one `why` says why."""
    import pandas as pd

    cells = [(one.host, one.port, one.connections, one.refused, one.bytes_in, one.bytes_out, one.why) for one in found]
    frame = pd.DataFrame(cells, columns=[*_EGRESS_KINDS, "bytes_out", "why"], dtype=object)
    return frame.astype({**_EGRESS_KINDS, "bytes_out": "Int64", "why": "string"})


def _at_most(found: list[Place]) -> list[Place]:
    """As many as a picture can show; the rest together. Refused hosts are kept before those with few bytes."""
    if len(found) <= MAX_HOSTS:
        return found
    by_weight = sorted(found, key=lambda one: (-(one.bytes_in + one.bytes_out), -one.refused))
    kept = {id(one) for one in by_weight[: MAX_HOSTS - 1]}
    rest = Place(f"{len(found) - len(kept)} other hosts", _HTTPS)
    for one in found:
        if id(one) not in kept:
            rest.connections += one.connections
            rest.refused += one.refused
            rest.bytes_in += one.bytes_in
            rest.bytes_out += one.bytes_out
    return [*(one for one in found if id(one) in kept), rest]


def _egress_text(shown: list[Place], title: str) -> str:
    most = max(one.bytes_in + one.bytes_out for one in shown)
    cells = [
        (
            one.name,
            counted(one.connections, "connection") if one.connections else "",
            f"{data_size(one.bytes_in)} in, {data_size(one.bytes_out)} out" if one.connections else "",
            f"refused ×{one.refused}" if one.refused else "",
            bar(one.bytes_in + one.bytes_out, most, 24),
        )
        for one in shown
    ]
    return f"{title}\n{text_table(cells)}"


def _egress_spec(shown: list[Place], title: str) -> dict[str, Any]:
    import altair as alt

    order = [one.name for one in shown]
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _EGRESS_TIPS]

    def y(**axis: Any) -> Any:
        return alt.Y("host:N", title=None, sort=order, axis=alt.Axis(labelLimit=_LONGEST * 6, **axis))

    def panel(data: Any, measure: str, heading: str, colours: dict[str, str], axis: Any, **labels: Any) -> Any:
        scale = alt.Scale(domain=list(colours), range=list(colours.values()))
        bars = (
            alt.Chart(data)
            .mark_bar()
            .encode(
                x=alt.X(f"{measure}:Q", title=heading, axis=axis),
                y=y(**labels),
                color=alt.Color("what:N", scale=scale),
                tooltip=tips,
            )
        )
        return bars.properties(width=_PANEL, height=max(60, 22 * len(shown)))

    size = alt.Axis(format="~s", tickCount=4)
    count = alt.Axis(format="d", tickCount=4, tickMinStep=1)
    none = {"labels": False, "ticks": False, "domain": False}
    volume = panel(_volume(shown), "bytes", "bytes", {"in": BLUE, "out": AMBER}, size)
    numbers = panel(_numbers(shown), "many", "connections", {"made": GREEN, "refused": RED}, count, **none)
    refused = [one for one in shown if one.refused]
    if refused:
        # In words too: not everybody tells the two colours apart.
        data = alt.InlineData(
            values=[{"host": one.name, "mark": f"refused ×{one.refused}", **_tips(one)} for one in refused]
        )
        marks = alt.Chart(data).mark_text(align="left", dx=4)
        numbers = numbers + marks.encode(x=alt.datum(0), y=y(**none), text="mark:N", tooltip=tips)
    both = alt.hconcat(volume, numbers, spacing=18).resolve_scale(color="independent").properties(title=title)
    return finished(both, f"{title}. By host: bytes in and out, connections made and refused.")


_EGRESS_TIPS = (("place", "Host"), ("made", "Connections"), ("volume", "Bytes"), ("denied", "Refused"), ("why", "Why"))


def _tips(one: Place) -> dict[str, object]:
    return {
        "place": f"{visible(one.host)}:{one.port}",
        "made": one.connections,
        "volume": f"{data_size(one.bytes_in)} in, {data_size(one.bytes_out)} out",
        "denied": one.refused,
        "why": one.why or "–",
    }


def _volume(shown: list[Place]) -> Any:
    import altair as alt

    return alt.InlineData(
        values=[
            {"host": one.name, "what": what, "bytes": size, **_tips(one)}
            for one in shown
            for what, size in (("in", one.bytes_in), ("out", one.bytes_out))
        ]
    )


def _numbers(shown: list[Place]) -> Any:
    import altair as alt

    return alt.InlineData(
        values=[
            {"host": one.name, "what": what, "many": many, **_tips(one)}
            for one in shown
            for what, many in (("made", one.connections), ("refused", one.refused))
        ]
    )


_TRUST_COLUMNS = {
    "category": "string",
    "at": "datetime64[us, UTC]",
    "successes": "Int64",
    "change": "string",
    "run": "string",
}
_TRUST_HEIGHT = 90
_TRUST_BAR = 10
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
    return pd.DataFrame(cells, columns=list(_TRUST_COLUMNS), dtype=object).astype(_TRUST_COLUMNS)


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
    lines = [
        (when, name, what, bar(many, terms.successes, _TRUST_BAR) or "0", run) for when, name, what, many, run in cells
    ]
    return Chart("trust", frame, f"{title}\n{text_table(lines)}", _trust_spec(points, names, title, terms), table)


def _trust_spec(points: Sequence[Point], names: list[str], title: str, terms: TrustTerms) -> dict[str, Any]:
    import altair as alt

    data = alt.InlineData(values=[_trust_value(point) for point in points])
    most = max(terms.successes, *(point.successes for point in points))
    scale = alt.Scale(domain=[0, most + 1])
    signs_seen = [name for name in _SIGNS if any(point.change == name for point in points)]
    axis = alt.Axis(values=sorted({0, terms.successes, most}), format="d")
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TRUST_TIPS]
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
            shape=alt.Shape("change:N", scale=_trust_scale(signs_seen, 0)),
            color=alt.Color("change:N", scale=_trust_scale(signs_seen, 1)),
            tooltip=tips,
        ),
    )
    picture = layers.properties(width=WIDTH - 120, height=_TRUST_HEIGHT).facet(
        row=alt.Row("category:N", title=None, sort=names, header=alt.Header(labelAngle=0, labelAlign="left"))
    )
    first, last = min(point.at for point in points), max(point.at for point in points)
    said = f"{title}. {', '.join(names)}, from {first:%Y-%m-%d} to {last:%Y-%m-%d}, UTC."
    return finished(picture.properties(title=title), said)


_TRUST_TIPS = (
    ("category", "Category"),
    ("when", "When (UTC)"),
    ("change", "What"),
    ("successes", "Successes"),
    ("run", "Run"),
)


def _trust_value(point: Point) -> dict[str, Any]:
    return {
        "category": point.category,
        "at": f"{point.at:%Y-%m-%dT%H:%M:%SZ}",
        "when": f"{point.at:%Y-%m-%d %H:%M}",
        "successes": point.successes,
        "change": point.change,
        "run": visible(point.run_id) or "-",
    }


def _trust_scale(names: list[str], place: int) -> Any:
    import altair as alt

    return alt.Scale(domain=names, range=[_SIGNS[name][place] for name in names])
