"""The board of runs, the cost panel and the list of plugins. What is not known is said, and never taken for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kagura_kernel.domain.approval_content import plainly
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import RISK_WORDS, Risk
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import clock_face, counted, money, seconds
from kagura_kernel.views.approvals import asked, asked_text, buttons_of
from kagura_kernel.views.record import clean, picked
from kagura_kernel.views.status import RISK_TONES, STATUS_WORDS, TONES

BOARD_MIME = "application/vnd.kagura.runs+json"
_SIMPLE_LENGTH = 400
_SIMPLE_LINES = 8


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a row says."""

    run_id: str
    name: str  # brain and model, or `Sandbox`
    task: str  # what was asked, on one line
    status: str  # a key of `STATUS_WORDS`
    started_at: datetime  # UTC
    duration: float | None = None  # seconds from start to end; None while it goes on
    usd: float | None = None  # what it cost so far; None when that is unknown, or nothing
    where: str = ""  # the notebook, and whether another kernel runs it
    asks: tuple[ApprovalRequested, ...] = ()  # its open questions, the oldest first
    live: bool = False  # whether it goes on, and can be stopped

    @property
    def waits_for(self) -> str:
        """What it waits for: the oldest question, and how many more there are; empty when it does not wait."""
        if not self.asks:
            return ""
        more = f" (and {len(self.asks) - 1} more)" if len(self.asks) > 1 else ""
        return f"{one_line(self.asks[0].title)}{more}"


def is_simple(request: ApprovalRequested) -> bool:
    """Whether all that is asked has room in a row, and yes or no is the whole answer."""
    # A plan's answer has an amount, and may trust lessons, which stand on the card of its run alone.
    if request.subject in {"question", "plan"} or request.options:
        return False
    parts = asked(request)
    whole = "\n".join([parts.target, *(block.text for block in parts.blocks), parts.means, request.reason])
    lines = max(whole.count("\n"), parts.subject.count("\n"))
    return not parts.stdin and len(whole) <= _SIMPLE_LENGTH and lines <= _SIMPLE_LINES


def board_blocks(lines: Sequence[RunLine], now: datetime, *, live: bool) -> ui.Blocks:
    """All rows; without `live` as they were at that time."""
    when: ui.Words = () if live else (ui.SPRING, ui.soft(f"as of {now:%Y-%m-%d %H:%M:%S} UTC"))
    summary = _summary(lines)
    top = ui.Line((ui.Span("Runs", "name"), ui.Span(summary, "soft", is_status=True), *when), "top")
    rows = tuple(_row(line, now, live=live) for line in lines)
    inside = (ui.Group(rows, "leases", "Runs"),) if rows else ()
    return (ui.Group((top,), "head", plain=f"[runs: {summary}]"), ui.Told(), *inside)


def board_record(lines: Sequence[RunLine], now: datetime) -> dict[str, Any]:
    """The same for programs."""
    names = ("run_id", "status", "name", "task", "started_at", "duration", "usd", "waits_for")
    rows = [picked(line, *names) | {"name": visible(line.name), "task": visible(line.task)} for line in lines]
    return {BOARD_MIME: clean({"version": 1, "at": now, "runs": rows})}


def _summary(lines: Sequence[RunLine]) -> str:
    going = [line for line in lines if line.live]
    if not going:
        return "none goes on"
    waiting = sum(bool(line.asks) for line in going)
    return f"{counted(len(going), 'run')} going on" + (f", {waiting} waiting for you" if waiting else "")


def _row(line: RunLine, now: datetime, *, live: bool) -> ui.Group:
    stop: ui.Words = ()
    if live and line.live:
        hint = "Stop the run and everything it started"
        stop = (ui.Button("Stop", "stop", {"id": line.run_id}, "small", f"Stop {line.run_id}", hint),)
    state = STATUS_WORDS.get(line.status, line.status)
    words: ui.Words = (
        ui.Span(state, "pill", tone=TONES.get(line.status, "bad")),
        ui.Span(line.name, look="tool"),
        ui.code(one_line(line.task, 160), "arg", line.task),
        _figures(line, now, live=live),
        *stop,
    )
    inside: list[ui.Block] = [ui.Line(words, "lease-top"), ui.Line(_facts(line, live=live), "facts soft")]
    waits = f"\n    {line.waits_for}: %kagura attach {line.run_id}" if line.asks else ""
    facts = "  ".join(filter(None, [line.run_id, state.lower(), line.name, line.task]))
    name = f"{line.name}: {one_line(line.task, 60)}"
    inside += _question(line, live=live)
    return ui.Group(tuple(inside), "lease", name, {"block": ""}, plain=f"{facts}{waits}")


def _figures(line: RunLine, now: datetime, *, live: bool) -> ui.Span:
    shown: list[ui.Inline] = []
    if line.duration is not None:
        shown.append(ui.item(seconds(line.duration), hint="Duration"))
    elif line.live:
        elapsed = max(0.0, (now - line.started_at).total_seconds())
        shown.append(ui.Clock(elapsed, "elapsed", clock_face(elapsed), ticks=live))
    if line.usd is not None:
        shown.append(ui.item(money(line.usd), hint="Cost in USD"))
    return ui.Span(tuple(shown), look="chips soft")


def _facts(line: RunLine, *, live: bool) -> ui.Words:
    facts = [ui.item(line.run_id), *([ui.item(line.where)] if line.where else [])]
    if live and line.live:
        facts.append(ui.item(ui.code(f"%kagura attach {line.run_id}"), "shows it"))
    return tuple(facts)


def _question(line: RunLine, *, live: bool) -> ui.Blocks:
    if not line.asks:
        return ()
    first = line.asks[0]
    if not (live and is_simple(first)):
        return (ui.Line((f"Waits for you: {line.waits_for}",), "why"),)
    parts = asked(first)
    inside: list[ui.Block] = [ui.Line((ui.Span(plainly(first.title), look="ask-title"),), "ask-top")]
    inside += [ui.Line((ui.code(parts.target),), "target")] if parts.target else []
    inside += [block for text in parts.blocks for block in asked_text(text, live=live)]
    inside += [ui.Line((f"in {shown_path(parts.directory)}",), "why")] if parts.directory else []
    inside += [ui.Line((parts.means,), "why")] if parts.means else []
    # A model's reason is its own word, and stands in quotation marks.
    inside += [ui.Line((ui.quote(one_line(first.reason, 300)),), "why says")] if first.reason else []
    inside += [ui.Line((f"{len(line.asks) - 1} more after this one",), "why")] if len(line.asks) > 1 else []
    about = {"approval": first.approval_id, "block": ""}
    return (ui.Group((*inside, *buttons_of(first)), "ask open brief", first.title, about),)


@dataclass(frozen=True, slots=True)
class Sum:
    """What some runs cost."""

    label: str  # which runs
    usd: float | None  # the sum of what is known; None when nothing is
    unpriced: int  # how many runs have no known price
    runs: int


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget in use, in USD."""

    run_id: str  # the run that spends it
    limit: float
    spent: float | None  # None while nothing is known

    @property
    def part(self) -> float:
        """How much of it is spent, from 0 to 1."""
        return min(1.0, (self.spent or 0.0) / self.limit) if self.limit > 0 else 1.0


def costs_blocks(sums: Sequence[Sum], budget: BudgetLine | None) -> ui.Blocks:
    """The panel; in text a line for each."""
    rows: list[list[ui.Cell]] = [[(one.label,), (_known(one.usd),), (_rest(one),)] for one in sums]
    lines = [f"{one.label}: {_known(one.usd)} ({_rest(one)})" for one in sums]
    if budget is not None:
        percent = f"{100 * budget.part:.0f} %"
        spent = f"{_known(budget.spent)} of {money(budget.limit)}"
        meter = ui.Meter(budget.part, f"{percent} of the budget spent")
        rows.append([("Budget in use",), (spent,), (ui.Span((meter, f"{percent}, {budget.run_id}"), look="count"),)])
        lines.append(f"Budget in use: {spent} by {budget.run_id}")
    table = ui.Table(rows, has_names=True, plain="\n".join(lines))
    return (ui.head("Costs", plain="[costs]"), ui.Group((table,), "body"))


def _known(usd: float | None) -> str:
    return "unknown" if usd is None else money(usd)


def _rest(one: Sum) -> str:
    words = [counted(one.runs, "run")]
    if one.unpriced:
        words.append(f"{one.unpriced:,} of unknown price, not in the sum")
    return ", ".join(words)


_STATES = {"enabled": "good", "quarantined": "bad", "not usable": "bad", "disabled": "warn"}
_OPENS = ("reads", "writes", "reaches")
_HEAD = ("plugin", "state", "risk", "approved", "its jail opens", "from", "next")
_LINE, _SENTENCE = 160, 300
_NO_PLUGINS = "There are none: `%kagura plugin install SOURCE` copies one here."


def plugins_blocks(lines: Sequence[Mapping[str, Any]]) -> ui.Blocks:
    """The list."""
    enabled = sum(line["state"] == "enabled" for line in lines)
    figures = f"{counted(len(lines), 'plugin')}, {enabled} enabled in this session" if lines else _NO_PLUGINS
    if not lines:
        return (ui.head("Plugins", ui.soft(ui.Span(figures, "prose"))),)
    table = ui.Table([_plugin_row(line) for line in lines], _HEAD, "list")
    return (ui.head("Plugins", ui.soft(figures)), ui.Group((table,), "part wide"))


def _plugin_row(line: Mapping[str, Any]) -> list[ui.Cell]:
    state = str(line["state"])
    says = [ui.Line((_text(line["description"], _SENTENCE),))] if line["description"] else []
    problem = [ui.Line((_text(line["problem"], _SENTENCE),), "wrong")] if line["problem"] else []
    signed = [ui.Line((f"signed by {_text(line['signed_by'])}",), "soft")] if line["signed_by"] else []
    opens = [ui.Line((word, ui.code(_text(line[word]), "path"))) for word in _OPENS if line[word]]
    return [
        (ui.Span(_text(line["plugin"]), "name"), ui.soft(_text(line["version"])), *says, *problem),
        (ui.chip(state, _STATES.get(state, "")),),
        (_risk(line["risk"]),),
        (ui.chip("approved", "good") if line["approved"] else ui.soft("no"),),
        tuple(opens) or (ui.soft("nothing"),),
        (_text(line["place"]), *signed),
        tuple(ui.Line((ui.code(command),)) for command in line.get("next", ())),
    ]


def _risk(risk: object) -> ui.Span:
    if not risk:
        return ui.soft("not audited")
    found = Risk(str(risk))
    return ui.chip(RISK_WORDS[found].removesuffix(" risk").removeprefix("Risk ").lower(), RISK_TONES[found])


def _text(value: object, limit: int = _LINE) -> str:
    return one_line(str(value or ""), limit)
