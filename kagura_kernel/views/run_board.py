"""The board of runs: a row for each, with what it waits for, its buttons while it goes on, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kagura_kernel.domain.asked import plainly
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.blocks import (
    SPRING,
    Block,
    Blocks,
    Button,
    Clock,
    Group,
    Inline,
    Line,
    Span,
    Told,
    Words,
    code,
    item,
    quote,
    soft,
)
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import clock_face, counted, money, seconds
from kagura_kernel.views.approvals import asked, asked_text, buttons_of
from kagura_kernel.views.status import STATUS_WORDS, TONES

BOARD_MIME = "application/vnd.kagura.runs+json"
LABEL = "Runs"

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
    if request.subject == "question" or request.options:
        return False
    parts = asked(request)
    whole = f"{parts.subject}\n{parts.means}\n{request.reason}"
    return not parts.stdin and len(whole) <= _SIMPLE_LENGTH and whole.count("\n") <= _SIMPLE_LINES


def board_blocks(lines: Sequence[RunLine], now: datetime, *, live: bool) -> Blocks:
    """All rows; without `live` as they were at that time."""
    when: Words = () if live else (SPRING, soft(f"as of {now:%Y-%m-%d %H:%M:%S} UTC"))
    summary = _summary(lines)
    top = Line((Span(LABEL, "name"), Span(summary, "soft", is_status=True), *when), "top")
    rows = tuple(_row(line, now, live=live) for line in lines)
    inside = (Group(rows, "leases", LABEL),) if rows else ()
    return (Group((top,), "head", plain=f"[runs: {summary}]"), Told(), *inside)


def board_record(lines: Sequence[RunLine], now: datetime) -> dict[str, Any]:
    """The same for programs."""
    rows = [
        {
            "run_id": line.run_id,
            "status": line.status,
            "name": visible(line.name),
            "task": visible(line.task),
            "started_at": line.started_at.isoformat(),
            "duration": line.duration,
            "usd": line.usd,
            "waits_for": line.waits_for,
        }
        for line in lines
    ]
    return {BOARD_MIME: {"version": 1, "at": now.isoformat(), "runs": rows}}


def _summary(lines: Sequence[RunLine]) -> str:
    going = [line for line in lines if line.live]
    if not going:
        return "none goes on"
    waiting = sum(bool(line.asks) for line in going)
    return f"{counted(len(going), 'run')} going on" + (f", {waiting} waiting for you" if waiting else "")


def _row(line: RunLine, now: datetime, *, live: bool) -> Group:
    stop: Words = ()
    if live and line.live:
        hint = "Stop the run and everything it started"
        stop = (Button("Stop", "stop", {"id": line.run_id}, "small", f"Stop {line.run_id}", hint),)
    state = STATUS_WORDS.get(line.status, line.status)
    words: Words = (
        Span(state, "pill", tone=TONES.get(line.status, "bad")),
        Span(line.name, look="tool"),
        code(one_line(line.task, 160), "arg", line.task),
        _figures(line, now, live=live),
        *stop,
    )
    inside: list[Block] = [Line(words, "lease-top"), Line(_facts(line, live=live), "facts soft")]
    waits = f"\n    {line.waits_for}: %kagura attach {line.run_id}" if line.asks else ""
    facts = "  ".join(filter(None, [line.run_id, state.lower(), line.name, line.task]))
    name = f"{line.name}: {one_line(line.task, 60)}"
    inside += _question(line, live=live)
    return Group(tuple(inside), "lease", name, {"block": ""}, plain=f"{facts}{waits}")


def _figures(line: RunLine, now: datetime, *, live: bool) -> Span:
    shown: list[Inline] = []
    if line.duration is not None:
        shown.append(item(seconds(line.duration), hint="Duration"))
    elif line.live:
        elapsed = max(0.0, (now - line.started_at).total_seconds())
        shown.append(Clock(elapsed, "elapsed", clock_face(elapsed), ticks=live))
    if line.usd is not None:
        shown.append(item(money(line.usd), hint="Cost in USD"))
    return Span(tuple(shown), look="chips soft")


def _facts(line: RunLine, *, live: bool) -> Words:
    facts = [item(line.run_id), *([item(line.where)] if line.where else [])]
    if live and line.live:
        facts.append(item(code(f"%kagura attach {line.run_id}"), "shows it"))
    return tuple(facts)


def _question(line: RunLine, *, live: bool) -> Blocks:
    if not line.asks:
        return ()
    first = line.asks[0]
    if not (live and is_simple(first)):
        return (Line((f"Waits for you: {line.waits_for}",), "why"),)
    parts = asked(first)
    inside: list[Block] = [Line((Span(plainly(first.title), look="ask-title"),), "ask-top")]
    inside += [Line((code(parts.target),), "target")] if parts.target else []
    inside += [block for text in parts.blocks for block in asked_text(text, live=live)]
    inside += [Line((f"in {shown_path(parts.directory)}",), "why")] if parts.directory else []
    inside += [Line((parts.means,), "why")] if parts.means else []
    # A model's reason is its own word, and stands in quotation marks.
    inside += [Line((quote(one_line(first.reason, 300)),), "why says")] if first.reason else []
    inside += [Line((f"{len(line.asks) - 1} more after this one",), "why")] if len(line.asks) > 1 else []
    about = {"approval": first.approval_id, "block": ""}
    return (Group((*inside, *buttons_of(first)), "ask open brief", first.title, about),)
