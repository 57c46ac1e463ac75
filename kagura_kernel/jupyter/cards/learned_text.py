"""A run's plan and memories in words: for terminals, for diffs, for readers without HTML.

Nothing here differs between two runs of the same thing: neither times nor ids.
"""

from __future__ import annotations

from kagura_kernel.domain.events import RunPlanned, RunVerified
from kagura_kernel.domain.patterns import Estimate
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted, money, span
from kagura_kernel.views.learned import Learned
from kagura_kernel.views.parts import Check, Part
from kagura_kernel.views.status import STATUS_WORDS

_COMMAND = 120
_CENTS_SAY_ENOUGH = 0.1
_MINUTE = 60
HOW = {
    "pinned": "pinned",
    "recalled": "fits the task",
    "lesson": "a lesson",
    "handoff": "handed on",
    "state": "left open",
    "asked": "asked for",
}
"""Why a brain was shown a memory, in a word or two."""


def learned_text(learned: Learned, *, steady: bool) -> list[str]:
    """The plan and the memories as lines; none where there is nothing to say."""
    planned = learned.planned
    lines = (
        [f"~ {plan_line(planned, steady=steady)}"] if planned is not None and learned.tells_plan(steady=steady) else []
    )
    return lines + ([f"~ {memory_line(learned)}"] if learned.tells_memories(steady=steady) else [])


def plan_line(planned: RunPlanned, *, steady: bool) -> str:
    """What was expected, on one line; without times where the same has to come out again."""
    estimate = planned.estimate
    lessons = f"; {counted(len(planned.lessons), 'lesson')}" if planned.lessons else ""
    if estimate is None:
        return f"nobody knows yet what such a task needs{lessons}"
    about = " and ".join(filter(None, (_about_money(estimate), "" if steady else _about_time(estimate))))
    failed = f", {estimate.failed:,} of them failed" if estimate.failed else ""
    runs = counted(estimate.runs, "similar run")
    return f"expected: {about or 'a cost that nobody knows'}, from {runs}{failed}{lessons}"


def memory_line(learned: Learned) -> str:
    """`3 memories were shown to the brain, 1 of them not trusted`."""
    count = len(learned.seen)
    told = "1 memory was" if count == 1 else f"{count:,} memories were"
    marked = learned.quarantined
    doubt = f", {'it is' if count == 1 else f'{marked:,} of them'} not trusted" if marked else ""
    return f"{told} shown to the brain{doubt}"


def verified_line(event: RunVerified) -> str:
    """Whether the work was good, on one line."""
    command = one_line(event.command, _COMMAND)
    if event.why:
        return f"verification could not be done: {command} ({one_line(event.why, 300)})"
    ending = "passed" if event.passed else "did not pass"
    code = "" if event.passed or event.exit_code is None else f", exit {event.exit_code}"
    return f"verification {ending} in a fresh box: {command}{code}"


def told_text(item: Check | Part) -> str:
    """How the work was tried out, or a part that was handed on and how it ended."""
    if isinstance(item, Check):
        return f"{'=' if item.event.passed else '!'} {verified_line(item.event)}"
    ended = item.ended
    state = "goes on" if ended is None else STATUS_WORDS.get(ended.status, ended.status).lower()
    code = f" ({ended.error_code})" if ended is not None and ended.error_code and ended.status != "killed" else ""
    return f"> handed on  ({state}{code})"


def _about_money(estimate: Estimate) -> str:
    if estimate.usd is None:
        return ""
    low, high = estimate.usd_low, estimate.usd_high
    spread = f" ({_about(low)} to {_about(high)})" if low is not None and high is not None and low != high else ""
    return f"{_about(estimate.usd)}{spread}"


def _about(usd: float) -> str:
    """Money without false precision."""
    return f"${usd:.2f}" if usd >= _CENTS_SAY_ENOUGH else money(usd)


def _about_time(estimate: Estimate) -> str:
    if estimate.seconds is None:
        return ""
    # What is expected is rounded, and never cut: 280 seconds are nearer to five minutes than to four.
    minutes = round(estimate.seconds / _MINUTE)
    return span(minutes * _MINUTE) if minutes > 1 else span(estimate.seconds)
