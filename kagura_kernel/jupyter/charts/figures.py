"""Charts of figures: what runs cost by day, which hosts boxes reached, and the trust that categories have earned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from kagura_kernel.cockpit.records import CostReport
from kagura_kernel.cockpit.trust import NOW
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.rows import EgressRow
from kagura_kernel.jupyter.charts import picture as look
from kagura_kernel.jupyter.charts.picture import Chart, bar, finished, markdown_table, text_table
from kagura_kernel.jupyter.tables import table_of
from kagura_kernel.patterns.trust import Point
from kagura_kernel.render.figures import counted, data_size, money

# Neither a cell's own code nor a replay pays anybody.
_FREE = frozenset({"", "replay"})
_LABELS = 12
UNKNOWN = "unknown"
_COST_TIPS = {"day": "Day (UTC)", "who": "Brain", "price": "Cost", "runs": "Runs"}


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one brain and model cost on one day. Unknown prices are marked, and never taken for nothing."""

    day: str
    brain: str
    model: str
    usd: float | None  # What is known; None when nothing is
    runs: int
    unpriced: int  # How many of the runs have no known price

    @property
    def who(self) -> str:
        """Brain and model."""
        return f"{self.brain} · {self.model}" if self.model else self.brain

    @property
    def unknown(self) -> str:
        """How many runs are of unknown price; empty for none."""
        return f"{counted(self.unpriced, 'run')} of unknown price" if self.unpriced else ""

    @property
    def price(self) -> str:
        """In words, with what is not known of it."""
        if self.usd is None:
            return UNKNOWN
        return money(self.usd) + (f" and {self.unknown}" if self.unpriced else "")


def cost_chart(report: CostReport) -> Chart:
    """Costs of the days of a report.

    In its frame `usd` is NA where nothing is known, and `unpriced_runs` of the `runs` are not in it.
    """
    rows = [
        _Cost(day.day.isoformat(), visible(day.brain), visible(day.model), one.usd, one.runs, one.unpriced_runs)
        for day in report.days
        if day.brain not in _FREE and ((one := day.spending).usd or one.unpriced_runs)
    ]
    frame = table_of(rows, "day brain model usd:float runs:int unpriced_runs=unpriced:int")
    if not rows:
        return Chart("cost", frame, f"No run has cost anything since {report.since:%Y-%m-%d}.")
    known = [row.usd for row in rows if row.usd is not None]
    total = money(sum(known)) if known else UNKNOWN
    if known and (unpriced := sum(row.unpriced for row in rows)):
        total += f", {counted(unpriced, 'run')} of unknown price not in it"
    title = f"Cost by day, brain and model: {total}"
    head = ("day (UTC)", "brain", "model", "cost", "runs")
    table = markdown_table(head, [(row.day, row.brain, row.model, row.price, row.runs) for row in rows], title)
    most = max(known, default=0.0)
    cells = [
        (row.day, row.who, money(row.usd) or "?", bar(row.usd or 0.0, most), f"? {row.unknown}" if row.unpriced else "")
        for row in rows
    ]
    return Chart("cost", frame, f"{title}\n{text_table(cells)}", _cost_spec(rows, title), table)


def _cost_spec(rows: list[_Cost], title: str) -> dict[str, Any]:
    import altair as alt

    begin, end = date.fromisoformat(rows[0].day), date.fromisoformat(rows[-1].day)
    # Every day from one to the other, those without a run included.
    days = [(begin + timedelta(days=number)).isoformat() for number in range((end - begin).days + 1)]
    who = sorted({row.who for row in rows})
    x = alt.X(
        "day:O",
        title=None,
        scale=alt.Scale(domain=days),
        # Month and day; the description and the tables say the year.
        axis=alt.Axis(values=days[:: -(-len(days) // _LABELS)], labelAngle=0, labelExpr="slice(datum.label, 5)"),
    )
    hues = [look.HUES[number % len(look.HUES)] for number in range(len(who))]
    values = [
        {"day": row.day, "who": row.who, "usd": row.usd, "price": row.price, "runs": row.runs}
        for row in rows
        if row.usd is not None
    ]
    bars = alt.Chart(alt.InlineData(values=values)).mark_bar(size=min(56.0, 0.8 * look.WIDTH / len(days)))
    layers: list[Any] = [
        bars.encode(
            x=x,
            y=alt.Y("usd:Q", title="USD", axis=alt.Axis(format="$~g", tickCount=5)),
            color=alt.Color("who:N", scale=alt.Scale(domain=who, range=hues)),
            order=alt.Order("who:N"),
            tooltip=look.tips(_COST_TIPS),
        )
    ]
    heading: Any = title
    unknown: Counter[str] = Counter()
    for row in rows:
        unknown[row.day] += row.unpriced
    if unknown := +unknown:
        # Above the picture, where no bar can hide them.
        said = [{"day": day, "mark": f"? {many}", "unpriced": many} for day, many in unknown.items()]
        marks = alt.Chart(alt.InlineData(values=said)).mark_text(baseline="bottom", fontWeight="bold")
        tips = look.tips({"day": "Day (UTC)", "unpriced": "Runs of unknown price"})
        layers.append(marks.encode(x=x, y=alt.value(-4), text="mark:N", tooltip=tips))
        note = "? runs whose price is unknown: they are not in the bars"
        heading = alt.TitleParams(title, subtitle=[note], offset=22)
    drawn = alt.layer(*layers).properties(width=look.WIDTH, height=220, title=heading)
    return finished(drawn, f"{title}. From {days[0]} to {days[-1]}, UTC.")


# ---------------------------------------------------------------- connections

MAX_HOSTS = 25
_PANEL = 270
_LONGEST = 44
_HTTPS = 443
_HOST_TIPS = {"place": "Host", "made": "Connections", "volume": "Bytes", "denied": "Refused", "why": "Why"}


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

    @property
    def bytes(self) -> int:
        """Both ways."""
        return self.bytes_in + self.bytes_out

    @property
    def volume(self) -> str:
        """Both ways, in words."""
        return f"{data_size(self.bytes_in)} in, {data_size(self.bytes_out)} out"

    def add(self, other: Place) -> None:
        """Count what another one has counted."""
        for name in ("connections", "refused", "bytes_in", "bytes_out"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def places(rows: Sequence[EgressRow]) -> list[Place]:
    """Connections by host and port: those with most bytes first, refused ones last."""
    found: dict[tuple[str, int], Place] = {}
    # A refusal that repeats is a row at 1, 2, 4, 8 … times: the largest of each run counts.
    times: dict[tuple[str, str, int], int] = {}
    for row in rows:
        place = found.setdefault((row.host, row.port), Place(row.host, row.port))
        if row.allowed:
            place.add(Place(row.host, row.port, row.times, 0, row.bytes_in, row.bytes_out))
            continue
        key = (row.run_id, row.host, row.port)
        before = times.get(key, 0)
        times[key] = max(before, row.times)
        place.refused += times[key] - before
        place.why = place.why or visible(row.reason)
    return sorted(found.values(), key=lambda one: (-one.bytes, -one.connections, one.name))


def egress_chart(rows: Sequence[EgressRow], run_id: str | None = None) -> Chart:
    """Connections by host and port; of a refused one the frame's `why` says why."""
    found = places(rows)
    frame = table_of(found, "host port:int connections:int refused:int bytes_in:int bytes_out:int why")
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
    most = max(one.bytes for one in shown)
    lines = [
        (
            one.name,
            counted(one.connections, "connection") if one.connections else "",
            one.volume if one.connections else "",
            f"refused ×{one.refused}" if one.refused else "",
            bar(one.bytes, most, 24),
        )
        for one in shown
    ]
    table = markdown_table(head, cells, title)
    return Chart("egress", frame, f"{title}\n{text_table(lines)}", _egress_spec(shown, title), table)


def _at_most(found: list[Place]) -> list[Place]:
    """As many as a picture can show; the rest together. Refused hosts are kept before those with few bytes."""
    if len(found) <= MAX_HOSTS:
        return found
    by_weight = sorted(found, key=lambda one: (-one.bytes, -one.refused))
    kept = {id(one) for one in by_weight[: MAX_HOSTS - 1]}
    rest = Place(f"{len(found) - len(kept)} other hosts", _HTTPS)
    for one in found:
        if id(one) not in kept:
            rest.add(one)
    return [*(one for one in found if id(one) in kept), rest]


def _egress_spec(shown: list[Place], title: str) -> dict[str, Any]:
    import altair as alt

    order = [one.name for one in shown]

    def y(**axis: Any) -> Any:
        return alt.Y("host:N", title=None, sort=order, axis=alt.Axis(labelLimit=_LONGEST * 6, **axis))

    def panel(measure: str, heading: str, kinds: dict[str, tuple[str, str]], axis: Any, **labels: Any) -> Any:
        scale = alt.Scale(domain=list(kinds), range=[hue for _, hue in kinds.values()])
        values = [
            _host(one) | {"what": what, measure: getattr(one, name)}
            for one in shown
            for what, (name, _) in kinds.items()
        ]
        bars = alt.Chart(alt.InlineData(values=values)).mark_bar()
        bars = bars.encode(
            x=alt.X(f"{measure}:Q", title=heading, axis=axis),
            y=y(**labels),
            color=alt.Color("what:N", scale=scale),
            tooltip=look.tips(_HOST_TIPS),
        )
        return bars.properties(width=_PANEL, height=max(60, 22 * len(shown)))

    none = {"labels": False, "ticks": False, "domain": False}
    sizes = {"in": ("bytes_in", look.BLUE), "out": ("bytes_out", look.AMBER)}
    volume = panel("bytes", "bytes", sizes, alt.Axis(format="~s", tickCount=4))
    counts = {"made": ("connections", look.GREEN), "refused": ("refused", look.RED)}
    numbers = panel("many", "connections", counts, alt.Axis(format="d", tickCount=4, tickMinStep=1), **none)
    if refused := [one for one in shown if one.refused]:
        # In words too: not everybody tells the two colours apart.
        said = [_host(one) | {"mark": f"refused ×{one.refused}"} for one in refused]
        marks = alt.Chart(alt.InlineData(values=said)).mark_text(align="left", dx=4)
        numbers = numbers + marks.encode(x=alt.datum(0), y=y(**none), text="mark:N", tooltip=look.tips(_HOST_TIPS))
    both = alt.hconcat(volume, numbers, spacing=18).resolve_scale(color="independent").properties(title=title)
    return finished(both, f"{title}. By host: bytes in and out, connections made and refused.")


def _host(one: Place) -> dict[str, object]:
    return {
        "host": one.name,
        "place": f"{visible(one.host)}:{one.port}",
        "made": one.connections,
        "volume": one.volume,
        "denied": one.refused,
        "why": one.why or "–",
    }


# ---------------------------------------------------------------- earned trust

_TRUST_HEIGHT = 90
_TRUST_BAR = 10
# What is told by a sign of its own; a success is the step itself.
_SIGNS = {
    "failed": ("cross", look.RED),
    "demoted": ("triangle-down", look.RED),
    "refused": ("square", look.AMBER),
    "proposed": ("diamond", look.BLUE),
    "granted": ("triangle-up", look.GREEN),
}
_TRUST_TIPS = {"category": "Category", "when": "When (UTC)", "change": "What", "successes": "Successes", "run": "Run"}


def trust_chart(points: Sequence[Point], terms: TrustTerms) -> Chart:
    """The verified successes of each category over time, as steps, and as a line those that a proposal needs."""
    told = [point for point in points if point.change != NOW]
    frame = table_of(told, "category at:time successes:int change run=run_id")
    if not told:
        return Chart("trust", frame, "No category has shown anything yet.")
    names = list(dict.fromkeys(point.category for point in told))
    title = f"Verified successes by category; a proposal needs {terms.successes}"
    cells = [(f"{p.at:%Y-%m-%d %H:%M}", p.category, p.change, p.successes, visible(p.run_id) or "-") for p in told]
    table = markdown_table(("when (UTC)", "category", "what", "successes", "run"), cells, title)
    lines = [
        (when, name, what, bar(many, terms.successes, _TRUST_BAR) or "0", run) for when, name, what, many, run in cells
    ]
    text = f"{title}\n{text_table(lines)}"
    return Chart("trust", frame, text, _trust_spec(points, names, title, terms), table)


def _trust_spec(points: Sequence[Point], names: list[str], title: str, terms: TrustTerms) -> dict[str, Any]:
    import altair as alt

    data = alt.InlineData(values=[_point(point) for point in points])
    most = max(terms.successes, *(point.successes for point in points))
    seen = [name for name in _SIGNS if any(point.change == name for point in points)]
    shapes, hues = (alt.Scale(domain=seen, range=[_SIGNS[name][number] for name in seen]) for number in (0, 1))
    axis = alt.Axis(values=sorted({0, terms.successes, most}), format="d")
    tips = look.tips(_TRUST_TIPS)
    base = alt.Chart(data).encode(
        x=alt.X("at:T", title=None, axis=alt.Axis(grid=False, labelOverlap=True)),
        y=alt.Y("successes:Q", title=None, scale=alt.Scale(domain=[0, most + 1]), axis=axis),
    )
    steps = base.mark_line(interpolate="step-after", color=look.BLUE, strokeWidth=2)
    signs = base.transform_filter(alt.FieldOneOfPredicate(field="change", oneOf=list(_SIGNS))).mark_point(
        size=90, filled=True, opacity=1
    )
    happened = base.transform_filter(alt.datum.change != NOW)
    # One line in each row: not one for each point.
    needed = alt.Chart(data).transform_aggregate(points="count()", groupby=["category"])
    needed = needed.mark_rule(color=look.LINES, strokeDash=[4, 3]).encode(y=alt.datum(terms.successes))
    layers = alt.layer(
        needed,
        steps,
        happened.mark_point(size=24, filled=True, opacity=1, color=look.BLUE).encode(tooltip=tips),
        signs.encode(shape=alt.Shape("change:N", scale=shapes), color=alt.Color("change:N", scale=hues), tooltip=tips),
    )
    drawn = layers.properties(width=look.WIDTH - 120, height=_TRUST_HEIGHT).facet(
        row=alt.Row("category:N", title=None, sort=names, header=alt.Header(labelAngle=0, labelAlign="left"))
    )
    first, last = min(point.at for point in points), max(point.at for point in points)
    said = f"{title}. {', '.join(names)}, from {first:%Y-%m-%d} to {last:%Y-%m-%d}, UTC."
    return finished(drawn.properties(title=title), said)


def _point(point: Point) -> dict[str, Any]:
    return {
        "category": point.category,
        "at": f"{point.at:%Y-%m-%dT%H:%M:%SZ}",
        "when": f"{point.at:%Y-%m-%d %H:%M}",
        "successes": point.successes,
        "change": point.change,
        "run": visible(point.run_id) or "-",
    }
