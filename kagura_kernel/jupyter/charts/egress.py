"""Which hosts boxes reached, how much went there and came back, and which were refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.charts.picture import (
    AMBER,
    BLUE,
    GREEN,
    RED,
    Chart,
    bar,
    finished,
    markdown_table,
    text_table,
)
from kagura_kernel.render.figures import counted, data_size

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.journal.rows import EgressRow

MAX_HOSTS = 25
_KINDS = {"host": "string", "port": "Int64", "connections": "Int64", "refused": "Int64", "bytes_in": "Int64"}
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
    return Chart("egress", frame, _text(shown, title), _spec(shown, title), markdown_table(head, cells, title))


def egress_frame(found: Sequence[Place]) -> pd.DataFrame:
    """One line for each host and port; of a refused one `why` says why."""
    import pandas as pd

    cells = [(one.host, one.port, one.connections, one.refused, one.bytes_in, one.bytes_out, one.why) for one in found]
    frame = pd.DataFrame(cells, columns=[*_KINDS, "bytes_out", "why"], dtype=object)
    return frame.astype({**_KINDS, "bytes_out": "Int64", "why": "string"})


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


def _text(shown: list[Place], title: str) -> str:
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


def _spec(shown: list[Place], title: str) -> dict[str, Any]:
    import altair as alt

    order = [one.name for one in shown]
    tips = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TIPS]

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


_TIPS = (("place", "Host"), ("made", "Connections"), ("volume", "Bytes"), ("denied", "Refused"), ("why", "Why"))


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
