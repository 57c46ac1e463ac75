"""A run's timeline: the brain, its tools and commands, the person, the network and the credentials on lanes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.cards.words import seconds
from kagura_kernel.jupyter.charts.lanes import KINDS, ORDER, Bar, bars
from kagura_kernel.jupyter.charts.look import AMBER, BLUE, GREY, RED, WIDTH, finished
from kagura_kernel.jupyter.charts.picture import Chart, markdown_table, text_table

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.cockpit import Cockpit

_LANE_HEIGHT = 34
_TEXT_WIDTH = 60
MAX_ROWS = 5
"""Rows that a lane may have."""
_SIGNS = {"works": "█", "waits": "░", "refused": "×", "failed": "▓"}
_HUES = {"works": BLUE, "waits": AMBER, "refused": RED, "failed": GREY}
# A bar that is too short to be seen is drawn this part of the whole.
_SHORTEST = 1 / 300


def timeline_chart(cockpit: Cockpit, run_id: str | None) -> Chart:
    """The timeline of a run, or of the latest one.

    Raises:
        RunUnknown: there is no such run.
    """
    if run_id is None:
        latest = cockpit.runs(limit=1)
        if not latest:
            return Chart("timeline", timeline_frame([]), "No run yet, so there is no timeline to show.")
        run_id = latest[0].run_id
    run = cockpit.records.run(run_id)
    found = bars(cockpit.records.events(run_id, KINDS), datetime.now(UTC))
    if not found:
        return Chart("timeline", timeline_frame([]), f"{run_id} has done nothing yet that takes time.")
    end = max(bar.end for bar in found)
    took = run.duration if run.duration is not None else end
    title = f"{run_id}: {seconds(took)}{'' if run.duration is not None else ' so far'}"
    head = ("who", "what", "from", "to", "took", "how", "waited for")
    rows = [
        (
            bar.lane,
            bar.what,
            seconds(bar.start),
            seconds(bar.end),
            seconds(bar.end - bar.start),
            bar.state,
            bar.waits_for,
        )
        for bar in found
    ]
    table = markdown_table(head, rows, title)
    return Chart("timeline", timeline_frame(found), _text(found, end, title), _spec(found, end, title), table)


def timeline_frame(found: Sequence[Bar]) -> pd.DataFrame:
    """One line for each bar; `start` and `end` in seconds since the run began."""
    import pandas as pd

    cells = [(bar.lane, bar.what, bar.start, bar.end, bar.state, bar.waits_for or None) for bar in found]
    frame = pd.DataFrame(cells, columns=["lane", "what", "start", "end", "state", "waits_for"], dtype=object)
    texts = dict.fromkeys(("lane", "what", "state", "waits_for"), "string")
    return frame.astype({**texts, "start": "Float64", "end": "Float64"})


def in_rows(found: Sequence[Bar]) -> list[tuple[str, Bar]]:
    """Each bar with the row it is drawn in: what overlaps in one lane gets rows of its own, so many at most."""
    ends: dict[str, list[float]] = {}
    placed = []
    for bar in found:
        own = ends.setdefault(bar.lane, [])
        free = next((number for number, end in enumerate(own) if end <= bar.start), len(own))
        if free < MAX_ROWS:
            own[free : free + 1] = [bar.end]
        else:
            free = min(range(MAX_ROWS), key=lambda number: own[number])
            own[free] = max(own[free], bar.end)
        placed.append((bar.lane if free == 0 else f"{bar.lane} {free + 1}", bar))
    return placed


def _lanes(found: Sequence[Bar]) -> list[str]:
    there = {bar.lane for bar in found}
    return [lane for lane in ORDER if lane in there]


def _text(found: Sequence[Bar], end: float, title: str) -> str:
    rows = []
    for lane in _lanes(found):
        own = [bar for bar in found if bar.lane == lane]
        line = [" "] * _TEXT_WIDTH
        for bar in own:
            left = min(_TEXT_WIDTH - 1, int(_TEXT_WIDTH * bar.start / end)) if end else 0
            right = max(left + 1, round(_TEXT_WIDTH * bar.end / end)) if end else 1
            line[left:right] = _SIGNS[bar.state] * (min(right, _TEXT_WIDTH) - left)
        worked = sum(bar.end - bar.start for bar in own if bar.state != "waits")
        waited = sum(bar.end - bar.start for bar in own if bar.state == "waits")
        took = ", ".join(f"{word} {seconds(time)}" for word, time in (("worked", worked), ("waited", waited)) if time)
        rows.append((lane, "|" + "".join(line) + "|", took))
    return f"{title}\n{text_table(rows)}\n█ works  ░ waits  × refused  ▓ failed"


def _spec(found: Sequence[Bar], end: float, title: str) -> dict[str, Any]:
    import altair as alt

    rows = in_rows(found)
    lanes = list(dict.fromkeys(name for lane in _lanes(found) for name, bar in rows if bar.lane == lane))
    states = [state for state in _HUES if any(bar.state == state for bar in found)]
    scale = alt.Scale(domain=states, range=[_HUES[state] for state in states])
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TIPS]
    chart = (
        alt.Chart(alt.InlineData(values=[_value(name, bar, end) for name, bar in rows]))
        .mark_bar(cornerRadius=2, stroke="#88888888", strokeWidth=0.5)
        .encode(
            x=alt.X("start:Q", title="seconds since the run began", scale=alt.Scale(domain=[0, end or 1.0])),
            x2="shown:Q",
            y=alt.Y("row:N", title=None, sort=lanes, scale=alt.Scale(domain=lanes)),
            color=alt.Color("state:N", scale=scale),
            tooltip=tips,
        )
        .properties(width=WIDTH, height=_LANE_HEIGHT * len(lanes), title=title)
    )
    return finished(chart, f"Timeline of {title}. Lanes: {', '.join(_lanes(found))}.")


_TIPS = (("lane", "Who"), ("what", "What"), ("took", "Took"), ("state", "How"), ("waits_for", "Waited for"))


def _value(name: str, bar: Bar, end: float) -> dict[str, object]:
    return {
        "row": name,
        "lane": bar.lane,
        "what": bar.what,
        "start": round(bar.start, 3),
        "shown": round(max(bar.end, min(bar.start + end * _SHORTEST, end or 1.0)), 3),
        "took": seconds(bar.end - bar.start),
        "state": bar.state,
        "waits_for": bar.waits_for or "–",
    }
