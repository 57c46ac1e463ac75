"""What runs cost by day, brain and model. Unknown prices are marked, and never taken for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.charts.picture import HUES, WIDTH, Chart, bar, finished, markdown_table, text_table
from kagura_kernel.render.figures import counted, money

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.records import CostReport

# Neither a cell's own code nor a replay pays anybody.
_FREE = frozenset({"", "replay"})
_LABELS = 12
_KINDS = {"day": "string", "brain": "string", "model": "string", "usd": "Float64", "runs": "Int64"}
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
    frame = pd.DataFrame(cells, columns=[*_KINDS, "unpriced_runs"], dtype=object)
    return frame.astype({**_KINDS, "unpriced_runs": "Int64"})


def cost_chart(report: CostReport) -> Chart:
    """Costs of the days of a report."""
    rows, frame = _rows(report), cost_frame(report)
    if not rows:
        return Chart("cost", frame, f"No run has cost anything since {report.since:%Y-%m-%d}.")
    title = f"Cost by day, brain and model: {_total(rows)}"
    head = ("day (UTC)", "brain", "model", "cost", "runs")
    table = markdown_table(head, [(row.day, row.brain, row.model, row.price, row.runs) for row in rows], title)
    return Chart("cost", frame, _text(rows, title), _spec(rows, title), table)


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


def _text(rows: list[_Row], title: str) -> str:
    most = max((row.usd or 0.0 for row in rows), default=0.0)
    cells = [
        (row.day, row.who, money(row.usd) if row.usd is not None else "?", bar(row.usd or 0.0, most), _marks(row))
        for row in rows
    ]
    return f"{title}\n{text_table(cells)}"


def _marks(row: _Row) -> str:
    return f"? {counted(row.unpriced, 'run')} of unknown price" if row.unpriced else ""


def _spec(rows: list[_Row], title: str) -> dict[str, Any]:
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
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TIPS]
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


_TIPS = (("day", "Day (UTC)"), ("who", "Brain"), ("price", "Cost"), ("runs", "Runs"))


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
