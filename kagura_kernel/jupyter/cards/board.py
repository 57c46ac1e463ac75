"""The board of runs: a row for each, with what it waits for, its buttons while it goes on, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kagura_kernel.domain.asked import plainly
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped, one_line, shown_path
from kagura_kernel.render.figures import clock_face, counted, money, seconds
from kagura_kernel.render.html import html_of
from kagura_kernel.render.style import framed
from kagura_kernel.views.approvals import asked, asked_text, buttons_of
from kagura_kernel.views.status import STATUS_WORDS

BOARD_MIME = "application/vnd.kagura.runs+json"
LABEL = "Runs"

_TONES = {"running": "busy", "waiting": "ask", "done": "good", "stopped": "warn", "killed": "warn", "denied": "warn"}
_SIMPLE_LENGTH = 400
_SIMPLE_LINES = 8


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a row says.

    Attributes:
        run_id: `run-…`.
        name: Brain and model, or `Sandbox`.
        task: What was asked, on one line.
        status: A key of `STATUS_WORDS`.
        started_at: UTC.
        duration: Seconds from start to end; None while it goes on.
        usd: What it cost so far; None when that is unknown, or nothing.
        where: The notebook, and whether another kernel runs it.
        asks: Its open questions, the oldest first.
        live: Whether it goes on, and can be stopped.
    """

    run_id: str
    name: str
    task: str
    status: str
    started_at: datetime
    duration: float | None = None
    usd: float | None = None
    where: str = ""
    asks: tuple[ApprovalRequested, ...] = ()
    live: bool = False

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


def board_html(lines: Sequence[RunLine], now: datetime, *, live: bool = True) -> str:
    """All rows; without `live` as they were at that time."""
    when = (
        "" if live else f'<span class="kg-spring"></span><span class="kg-soft">as of {now:%Y-%m-%d %H:%M:%S} UTC</span>'
    )
    head = (
        f'<div class="kg-head"><div class="kg-top"><strong class="kg-name">{LABEL}</strong> '
        f'<span class="kg-soft" role="status">{_summary(lines)}</span>{when}</div></div>'
        '<div class="kg-told" role="status"></div>'
    )
    rows = "".join(_row(line, now, live=live) for line in lines)
    return head + (f'<div class="kg-leases" role="group" aria-label="{LABEL}">{rows}</div>' if rows else "")


def board_text(lines: Sequence[RunLine]) -> str:
    """The same, a line for each."""
    rows = []
    for line in lines:
        facts = [
            line.run_id,
            STATUS_WORDS.get(line.status, line.status).lower(),
            visible(line.name),
            visible(line.task),
        ]
        rows.append("  ".join(fact for fact in facts if fact))
        rows.extend([f"    {line.waits_for}: %kagura attach {line.run_id}"] if line.asks else [])
    return "\n".join([f"[runs: {_summary(lines)}]", *rows])


def board_bundle(lines: Sequence[RunLine], now: datetime) -> tuple[dict[str, Any], dict[str, Any]]:
    """The board for a display slot, as it is at a moment."""
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
    data = {
        "text/plain": board_text(lines),
        "text/html": framed(board_html(lines, now, live=False), LABEL),
        BOARD_MIME: {"version": 1, "at": now.isoformat(), "runs": rows},
    }
    return data, {}


def _summary(lines: Sequence[RunLine]) -> str:
    going = [line for line in lines if line.live]
    if not going:
        return "none goes on"
    waiting = sum(bool(line.asks) for line in going)
    return f"{counted(len(going), 'run')} going on" + (f", {waiting} waiting for you" if waiting else "")


def _row(line: RunLine, now: datetime, *, live: bool) -> str:
    tone = _TONES.get(line.status, "bad")
    about = f'data-id="{escaped(line.run_id)}"'
    stop = (
        f'<button type="button" class="kg-btn kg-small" data-act="stop" {about}'
        f' aria-label="Stop {escaped(line.run_id)}"'
        ' title="Stop the run and everything it started">Stop</button>'
        if live and line.live
        else ""
    )
    label = escaped(f"{line.name}: {one_line(line.task, 60)}")
    return (
        f'<div class="kg-lease" data-block role="group" aria-label="{label}"><div class="kg-lease-top">'
        f'<strong class="kg-pill kg-{tone}">{escaped(STATUS_WORDS.get(line.status, line.status))}</strong> '
        f'<span class="kg-tool">{escaped(line.name)}</span> '
        f'<code class="kg-arg" title="{escaped(line.task)}">{escaped(one_line(line.task, 160))}</code> '
        f"{_figures(line, now, live=live)} {stop}</div>"
        f'<div class="kg-facts kg-soft">{_facts(line, live=live)}</div>{_question(line, live=live)}</div>'
    )


def _figures(line: RunLine, now: datetime, *, live: bool) -> str:
    shown = []
    if line.duration is not None:
        shown.append(f'<span title="Duration">{seconds(line.duration)}</span>')
    elif line.live:
        elapsed = max(0.0, (now - line.started_at).total_seconds())
        ticking = f' data-elapsed="{elapsed:.1f}"' if live else ""
        shown.append(f'<span class="kg-tick"{ticking} title="Elapsed">{clock_face(elapsed)}</span>')
    if line.usd is not None:
        shown.append(f'<span title="Cost in USD">{money(line.usd)}</span>')
    return f'<span class="kg-chips kg-soft">{" ".join(shown)}</span>'


def _facts(line: RunLine, *, live: bool) -> str:
    facts = [escaped(line.run_id)]
    if line.where:
        facts.append(escaped(line.where))
    if live and line.live:
        facts.append(f"<code>%kagura attach {escaped(line.run_id)}</code> shows it")
    return " ".join(f"<span>{fact}</span>" for fact in facts)


def _question(line: RunLine, *, live: bool) -> str:
    if not line.asks:
        return ""
    first = line.asks[0]
    if not (live and is_simple(first)):
        return f'<div class="kg-why">Waits for you: {escaped(line.waits_for)}</div>'
    parts = asked(first)
    where = f'<div class="kg-why">in {escaped(shown_path(parts.directory))}</div>' if parts.directory else ""
    means = f'<div class="kg-why">{escaped(parts.means)}</div>' if parts.means else ""
    # A model's reason is its own word, and stands in quotation marks.
    why = f'<div class="kg-why kg-says"><q>{escaped(one_line(first.reason, 300))}</q></div>' if first.reason else ""
    subject = f'<div class="kg-target"><code>{escaped(parts.target)}</code></div>' if parts.target else ""
    subject += "".join(html_of(asked_text(text, live=live)) for text in parts.blocks)
    more = f'<div class="kg-why">{len(line.asks) - 1} more after this one</div>' if len(line.asks) > 1 else ""
    return (
        f'<div class="kg-ask kg-open kg-brief" data-approval="{escaped(first.approval_id)}" data-block role="group" '
        f'aria-label="{escaped(first.title)}">'
        f'<div class="kg-ask-top"><span class="kg-ask-title">{escaped(plainly(first.title))}</span></div>'
        f"{subject}{where}{means}{why}{more}{html_of(buttons_of(first))}</div>"
    )
