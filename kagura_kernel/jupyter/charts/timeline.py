"""A run's timeline: the brain, its tools and commands, the person, the network and the credentials on lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pandas as pd

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain import events as ev
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.views import one_run
from kagura_kernel.jupyter.charts import picture as look
from kagura_kernel.jupyter.charts.picture import Chart, finished, markdown_table, text_table
from kagura_kernel.jupyter.tables import table_of
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import seconds
from kagura_kernel.views.body import telling_argument

KINDS = (
    "run.started",
    "box.started",
    "tool.called",
    "tool.finished",
    "approval.requested",
    "approval.decided",
    "egress.decided",
    "egress.closed",
    "lease.changed",
    "run.finished",
)
"""What the lanes are drawn from; texts and outputs are not read."""

YOU, BRAIN, PROGRAM, TOOLS, COMMANDS = "you", "brain", "program", "tools", "commands"
NETWORK, LEASES, BOX = "network", "credentials", "box"
ORDER = (BRAIN, PROGRAM, TOOLS, COMMANDS, YOU, NETWORK, LEASES, BOX)
MAX_BARS = 400
"""Bars in one lane; of more, those that lie close together are drawn as one."""

State = Literal["works", "waits", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    lane: str  # Whose
    what: str  # What was done
    start: float  # Seconds since the run began
    end: float  # Likewise; not before `start`
    state: State = "works"  # Whether it worked or waited, or how it went wrong
    waits_for: str = ""  # For whom or what it waited; empty when it did not


@dataclass(slots=True)
class _Open:
    """Something that has begun: what it is, and when."""

    what: str
    start: float


def bars(events: Iterable[ev.Event], now: datetime) -> list[Bar]:
    """The bars of one run, lane by lane, in their order; what goes on has lasted until `now`."""
    lanes = _Lanes()
    for event in events:
        lanes.take(event)
    found = lanes.close(now)
    return [bar for lane in ORDER for bar in _close_together([bar for bar in found if bar.lane == lane])]


class _Lanes:
    """Takes the events of one run in their order."""

    def __init__(self) -> None:
        self._began: datetime | None = None
        self._ended: float | None = None
        self._agent = True
        self._boxed = 0.0
        self._bars: list[Bar] = []
        self._calls: dict[str, _Open] = {}
        self._asks: dict[str, tuple[_Open, ev.ApprovalRequested]] = {}
        self._connections: dict[str, _Open] = {}
        self._leases: dict[str, _Open] = {}
        self._holds: dict[str, float] = {}
        # While a call is open the brain waits for it.
        self._spans: list[Bar] = []
        # When calls and leases waited for an answer, by their ids.
        self._waited: dict[str, list[tuple[float, float]]] = {}

    def take(self, event: ev.Event) -> None:
        """Take the next one."""
        if isinstance(event, ev.RunStarted):
            self._began, self._agent = event.at, event.flavour == "agent" or event.brain != ""
        if self._began is not None:
            self._take(event, max(0.0, (event.at - self._began).total_seconds()))

    def _take(self, event: ev.Event, at: float) -> None:
        match event:
            case ev.BoxStarted():
                self._boxed = at
                self._bars.append(Bar(BOX, f"{event.backend} starts", 0.0, at))
            case ev.ToolCalled() | ev.ToolFinished():
                self._call(event, at)
            case ev.ApprovalRequested():
                self._asks[event.approval_id] = _Open(one_line(event.title, 80), at), event
            case ev.ApprovalDecided():
                self._answer(event.approval_id, event.verdict, at)
            case ev.EgressDecided() | ev.EgressClosed():
                self._connect(event, at)
            case ev.LeaseChanged():
                self._lease(event, at)
            case ev.RunFinished():
                self._ended = at
            case _:
                pass

    def close(self, now: datetime) -> list[Bar]:
        """All bars; what goes on is drawn up to the run's end, or to now."""
        if self._began is None:
            return []
        end = self._ended if self._ended is not None else max(0.0, (now - self._began).total_seconds())
        for approval_id in list(self._asks):
            self._answer(approval_id, "", end)
        for call_id, call in self._calls.items():
            self._done(Bar(TOOLS if self._agent else PROGRAM, call.what, call.start, end), call_id)
        for one in self._connections.values():
            self._bars.append(Bar(NETWORK, one.what, one.start, end))
        for lease_id in list(self._leases):
            self._release(lease_id, end)
        return self._bars + (_thinking(self._spans, self._boxed, end) if self._agent else [])

    def _name(self, event: ev.ToolCalled) -> str:
        about = telling_argument(event.arguments, 60)
        name = event.tool if self._agent else "the cell"
        return f"{name}: {about}" if about else name

    def _call(self, event: ev.ToolCalled | ev.ToolFinished, at: float) -> None:
        if isinstance(event, ev.ToolCalled):
            self._calls[event.call_id] = _Open(self._name(event), at)
            return
        call = self._calls.pop(event.call_id, None)
        if call is None:
            return
        lane = PROGRAM if not self._agent else COMMANDS if event.route else TOOLS
        failed = event.is_error or event.exit_code not in {None, 0}
        where = " (on the host)" if event.route == "host" else ""
        self._done(Bar(lane, call.what + where, call.start, at, "failed" if failed else "works"), event.call_id)

    def _done(self, whole: Bar, call_id: str) -> None:
        """A call is over: the time in which it waited for an answer is told apart."""
        self._spans.append(whole)
        self._bars.extend(_split(whole, self._waited.get(call_id, ()), YOU))

    def _answer(self, approval_id: str, verdict: str, at: float) -> None:
        """A question was answered, or is open to the end."""
        opened, request = self._asks.pop(approval_id, (None, None))
        if opened is None or request is None:
            return
        what = f"{opened.what}: {verdict or 'open'}"
        state: State = "waits" if verdict in {"", "allow"} else "refused"
        self._bars.append(Bar(YOU, what, opened.start, at, state, YOU))
        if request.call_id:
            self._waited.setdefault(request.call_id, []).append((opened.start, at))
        elif request.subject in {"question", "plugin"}:
            # Asked by the run itself, such as an audit that has its report: nobody thinks meanwhile.
            self._spans.append(Bar(YOU, what, opened.start, at))
        elif request.subject == "network":
            self._bars.append(Bar(NETWORK, opened.what, opened.start, at, "waits", YOU))

    def _connect(self, event: ev.EgressDecided | ev.EgressClosed, at: float) -> None:
        name = one_line(f"{event.host}:{event.port}", 80)
        if isinstance(event, ev.EgressClosed):
            opened = self._connections.pop(event.connection_id, _Open(name, at))
            state: State = "works" if event.ended == "done" else "failed"
            self._bars.append(Bar(NETWORK, opened.what, opened.start, at, state))
        elif event.allowed:
            self._connections[event.connection_id] = _Open(name, at)
        else:
            self._bars.append(Bar(NETWORK, f"{name} refused", at, at, "refused"))

    def _lease(self, event: ev.LeaseChanged, at: float) -> None:
        match event.change:
            case "acquired":
                self._leases[event.lease_id] = _Open(one_line(f"{event.provider}:{event.scope}", 80), at)
            case "held up" | "on hold":
                self._holds.setdefault(event.lease_id, at)
            case "extended" | "renewed":
                self._hold_over(event.lease_id, at)
            case "released":
                self._release(event.lease_id, at)

    def _hold_over(self, lease_id: str, at: float) -> None:
        began = self._holds.pop(lease_id, None)
        if began is not None:
            self._waited.setdefault(lease_id, []).append((began, at))

    def _release(self, lease_id: str, at: float) -> None:
        self._hold_over(lease_id, at)
        lease = self._leases.pop(lease_id, None)
        if lease is not None:
            whole = Bar(LEASES, lease.what, lease.start, at)
            self._bars.extend(_split(whole, self._waited.get(lease_id, ()), YOU))


def _thinking(spans: Sequence[Bar], start: float, end: float) -> list[Bar]:
    """The brain thinks while no call is open, and waits for those that are."""
    edges = [
        (min(max(time, start), end), begins, bar)
        for bar in spans
        for time, begins in ((bar.start, True), (bar.end, False))
    ]
    edges.sort(key=lambda edge: edge[:2])
    found: list[Bar] = []
    open_calls: dict[int, str] = {}
    at = start
    for time, begins, bar in [*edges, (end, False, None)]:
        if time > at:
            calls = one_line(", ".join(open_calls.values()), 120)
            state: State = "waits" if open_calls else "works"
            found.append(Bar(BRAIN, "waits" if open_calls else "thinks", at, time, state, calls))
            at = time
        if begins:
            open_calls[id(bar)] = bar.what if bar is not None else ""
        else:
            open_calls.pop(id(bar), None)
    return found


def _split(whole: Bar, waited: Sequence[tuple[float, float]], whom: str) -> list[Bar]:
    """The bar, with these stretches as bars of their own in which it waits."""
    found: list[Bar] = []
    at = whole.start
    for begin, end in sorted(waited):
        left, right = max(begin, at), min(end, whole.end)
        if right <= left:
            continue
        if left > at:
            found.append(replace(whole, start=at, end=left))
        found.append(replace(whole, start=left, end=right, state="waits", waits_for=whom))
        at = right
    if at < whole.end or not found:
        found.append(replace(whole, start=at))
    return found


def _close_together(found: list[Bar]) -> list[Bar]:
    """In their order, at most so many bars: of more, neighbours of one state become one that says how many they are."""
    found = sorted(found, key=lambda bar: (bar.start, bar.end))
    if len(found) <= MAX_BARS:
        return found
    span = max(bar.end for bar in found) - found[0].start
    width = span / MAX_BARS * 4 or 1.0
    merged: dict[tuple[int, State], list[Bar]] = {}
    for bar in found:
        merged.setdefault((int(bar.start / width), bar.state), []).append(bar)
    return [
        group[0]
        if len(group) == 1
        else replace(group[0], what=f"{len(group)} together, {group[0].what} first", end=max(bar.end for bar in group))
        for group in merged.values()
    ]


_LANE_HEIGHT = 34
_TEXT_WIDTH = 60
MAX_ROWS = 5
"""Rows that a lane may have."""
_SIGNS = {"works": "█", "waits": "░", "refused": "×", "failed": "▓"}
_HUES = {"works": look.BLUE, "waits": look.AMBER, "refused": look.RED, "failed": look.GREY}
# A bar that is too short to be seen is drawn this part of the whole.
_SHORTEST = 1 / 300


def timeline_chart(cockpit: Cockpit, run_id: str | None) -> Chart:
    """The timeline of a run, or of the latest one. Raises `RunUnknown`: there is no such run."""
    if run_id is None:
        latest = cockpit.runs(limit=1)
        if not latest:
            return Chart("timeline", timeline_frame([]), "No run yet, so there is no timeline to show.")
        run_id = latest[0].run_id
    run = one_run(cockpit.journal, run_id)
    found = bars(cockpit.records.events(run_id, KINDS), datetime.now(UTC))
    if not found:
        return Chart("timeline", timeline_frame([]), f"{run_id} has done nothing yet that takes time.")
    end = max(bar.end for bar in found)
    took = run.duration if run.duration is not None else end
    title = f"{run_id}: {seconds(took)}{'' if run.duration is not None else ' so far'}"
    head = ("who", "what", "from", "to", "took", "how", "waited for")
    rows = [
        (bar.lane, bar.what, *map(seconds, (bar.start, bar.end, bar.end - bar.start)), bar.state, bar.waits_for)
        for bar in found
    ]
    table = markdown_table(head, rows, title)
    return Chart("timeline", timeline_frame(found), _text(found, end, title), _spec(found, end, title), table)


def timeline_frame(found: Sequence[Bar]) -> pd.DataFrame:
    """One line for each bar; `start` and `end` in seconds since the run began."""
    columns = "lane what start:float end:float state waits_for"
    return table_of(found, columns, waits_for=lambda bar: bar.waits_for or None)


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
    chart = (
        alt.Chart(alt.InlineData(values=[_value(name, bar, end) for name, bar in rows]))
        .mark_bar(cornerRadius=2, stroke="#88888888", strokeWidth=0.5)
        .encode(
            x=alt.X("start:Q", title="seconds since the run began", scale=alt.Scale(domain=[0, end or 1.0])),
            x2="shown:Q",
            y=alt.Y("row:N", title=None, sort=lanes, scale=alt.Scale(domain=lanes)),
            color=alt.Color("state:N", scale=scale),
            tooltip=look.tips(_TIPS),
        )
        .properties(width=look.WIDTH, height=_LANE_HEIGHT * len(lanes), title=title)
    )
    return finished(chart, f"Timeline of {title}. Lanes: {', '.join(_lanes(found))}.")


_TIPS = {"lane": "Who", "what": "What", "took": "Took", "state": "How", "waits_for": "Waited for"}


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
