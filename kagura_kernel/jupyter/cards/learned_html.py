"""A run's plan and memories below the head of its card, and the parts of its body that tell what was learned."""

from __future__ import annotations

from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.memory import SeenMemory, Tier
from kagura_kernel.jupyter.cards.learned_text import HOW, memory_line, plan_line
from kagura_kernel.render.escape import escaped, escaped_output, escaped_prose, one_line
from kagura_kernel.render.figures import money
from kagura_kernel.views.learned import Learned
from kagura_kernel.views.parts import Check, Part
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import STATUS_WORDS

_SUMMARY = 200
_LESSON = 600
_LESSONS = 20
_TONES = {"done": "good", "stopped": "warn", "killed": "warn", "denied": "warn"}


def learned_html(view: RunView, *, live: bool) -> str:
    """Quiet lines that open to what is behind them; empty where there is nothing to say."""
    learned = view.learned
    steady = view.repeatable and not live
    # What a waiting question is about lies open, also just before it is there: a card that was drawn folded stays so.
    asks = live and (learned.asks or any(ask.request.subject == "plan" for ask in view.pending))
    inside = _plan(learned, steady=steady, unfolded=asks) + _memories(learned, steady=steady)
    if not inside:
        return ""
    return f'<div class="kg-kit kg-learned" role="group" aria-label="Plan and memory">{inside}</div>'


def told_html(item: Check | Part, *, steady: bool) -> str:
    """How the finished work was tried out, or a part of it that was handed on.

    What a program printed when all was well may hold times: a card that has to come out the same leaves it out.
    """
    return _check(item, steady=steady) if isinstance(item, Check) else _part(item, steady=steady)


def _check(check: Check, *, steady: bool) -> str:
    event = check.event
    tone, word = ("good", "Verified") if event.passed else ("bad", "Not verified")
    code = "" if event.passed or event.exit_code is None else f" exit {event.exit_code},"
    where = f"could not be done: {one_line(event.why, _SUMMARY)}" if event.why else f"{code} in a fresh box"
    command = f'<code class="kg-arg">{escaped(one_line(event.command, _SUMMARY))}</code>'
    head = (
        f'<span class="kg-chip kg-{tone}">{word}</span> {command} <span class="kg-soft">{escaped(where.strip())}</span>'
    )
    if not event.text.strip() or (steady and event.passed):
        return f'<div class="kg-note kg-check">{head}</div>'
    return (
        f'<details class="kg-call kg-check" data-keep="{escaped(check.key)}"><summary>{head}</summary>'
        f'<div class="kg-inside">{_printed(event)}</div></details>'
    )


def _part(part: Part, *, steady: bool) -> str:
    ended = part.ended
    state = "Running" if ended is None else STATUS_WORDS.get(ended.status, ended.status)
    tone = "busy" if ended is None else _TONES.get(ended.status, "bad")
    cost = f' <span class="kg-soft">{money(ended.usd)}</span>' if ended is not None and ended.usd is not None else ""
    where = f' <span class="kg-chip">{escaped(one_line(part.started.worker, 60))}</span>' if part.started.worker else ""
    again = f' <span class="kg-soft">done once more by {escaped(ended.again)}</span>' if ended and ended.again else ""
    whom = "" if steady else f" to <code>{escaped(part.started.child)}</code>"
    return (
        f'<div class="kg-note kg-handed"><span class="kg-chip kg-{tone}">{escaped(state)}</span> '
        f"<span>Handed on{whom}</span>{where}{cost}{again}</div>"
    )


def resume_html(view: RunView) -> str:
    """How to go on with a run that did not end well; empty where it cannot be done."""
    finished, checkpoint = view.finished, view.learned.checkpoint
    if finished is None or finished.status == "done" or checkpoint is None or view.repeatable:
        return ""
    how = f"`%%kagura --resume {finished.run_id}` goes on from here."
    return f'<div class="kg-label">{escaped_prose(how)}</div>'


def _plan(learned: Learned, *, steady: bool, unfolded: bool) -> str:
    planned = learned.planned
    if planned is None or not learned.tells_plan(steady=steady):
        return ""
    line = plan_line(planned, steady=steady)
    rows = [_row(learned, lesson, "lesson", None, steady=steady) for lesson in planned.lessons[:_LESSONS]]
    return _folded("plan", line, rows, unfolded=unfolded)


def _memories(learned: Learned, *, steady: bool) -> str:
    if not learned.tells_memories(steady=steady):
        return ""
    rows = [_row(learned, ident, how, memory, steady=steady) for ident, (how, memory) in learned.seen.items()]
    return _folded("memory", memory_line(learned), rows)


def _folded(key: str, about: str, rows: list[str], *, unfolded: bool = False) -> str:
    said = f'<span class="kg-soft">{escaped(about[:1].upper() + about[1:])}</span>'
    if not rows:
        return f"<div>{said}</div>"
    table = f'<div class="kg-wide"><table class="kg-table"><tbody>{"".join(rows)}</tbody></table></div>'
    opened = " open" if unfolded else ""
    line = f'<details data-keep="learned:{key}"{opened}><summary>{said}</summary>'
    return f'{line}<div class="kg-inside">{table}</div></details>'


def _row(learned: Learned, ident: str, how: str, memory: SeenMemory | None, *, steady: bool) -> str:
    shown = learned.lines.get(ident)
    tier = memory.tier if memory is not None else shown.tier if shown is not None else ""
    kind = shown.type if shown is not None else memory.type if memory is not None else "lesson"
    mark = '<span class="kg-chip kg-warn">not trusted</span>' if tier == Tier.QUARANTINE else ""
    # What it says is nobody's word but its author's.
    # A lesson is shown whole: that is what a person lets the agent read.
    most = _LESSON if how == "lesson" else _SUMMARY
    said = f"<q>{escaped(one_line(shown.summary, most))}</q>" if shown is not None else ""
    name = "" if steady else f'<code class="kg-path">{escaped(ident)}</code>'
    about = (
        escaped(kind),
        f'<span class="kg-soft">{escaped(HOW.get(how, how))}</span> {mark}',
        *([name] if name else ()),
    )
    # What it says comes first: that column is the one that wraps.
    cells = (said, *about) if learned.lines else about
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _printed(event: RunVerified) -> str:
    return f'<pre class="kg-pre">{escaped_output(event.text)}</pre>'
