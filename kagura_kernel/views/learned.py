"""What a run knew of earlier ones, what it was expected to need, and what it left behind, folded from its events."""

from __future__ import annotations

from kagura_kernel.domain import events as ev
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.memory import SeenMemory, ShownMemory, Tier
from kagura_kernel.domain.patterns import Estimate
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.blocks import Block, Blocks, Cell, Fold, Group, Line, Table, chip, code, quote, soft
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted, money, span

_TRUST = {
    "proposed": "Trust in “{}” has been earned, and is proposed",
    "granted": "“{}” is trusted from now on",
    "refused": "Trust in “{}” was proposed and refused",
    "demoted": "“{}” is trusted no more",
    "applied": "Allowed by earned trust in “{}”",
}

Learning = ev.MemoriesSeen | ev.MemoriesShown | ev.MemoryWritten | ev.RunPlanned | ev.RunCheckpointed


@dataclass(slots=True)
class Learned:
    """What a run was shown of the memory, its plan, and what it left."""

    # Memories that its brain was shown, by id, with why; the first reason counts.
    seen: dict[str, tuple[str, SeenMemory]] = field(default_factory=dict)
    # What they say, by id, as long as the display lives: no row of the journal holds it.
    lines: dict[str, ShownMemory] = field(default_factory=dict)
    written: list[ev.MemoryWritten] = field(default_factory=list)  # memories that it left, in their order
    planned: ev.RunPlanned | None = None  # what it was expected to need, once that is known
    checkpoint: ev.RunCheckpointed | None = None  # where it stood last

    def apply(self, event: Learning) -> None:
        """Take one event."""
        match event:
            case ev.MemoriesSeen():
                for memory in event.memories:
                    self.seen.setdefault(memory.id, (event.how, memory))
            case ev.MemoriesShown():
                self.lines |= {memory.id: memory for memory in event.memories}
            case ev.MemoryWritten():
                self.written.append(event)
            case ev.RunPlanned():
                self.planned = event
            case ev.RunCheckpointed():
                self.checkpoint = event

    @property
    def quarantined(self) -> int:
        """How many of those that the brain was shown are not trusted."""
        return sum(memory.tier == Tier.QUARANTINE for _, memory in self.seen.values())

    @property
    def asks(self) -> bool:
        """Whether a person is about to be asked for their word on the plan, or is asked now."""
        return self.planned is not None and self.planned.asked and not self.planned.by

    def tells_plan(self, *, steady: bool) -> bool:
        """Whether its plan says anything: what it is expected to need, or what went wrong in the like of it.

        To whoever wanted to see it, it also says that nobody knows that yet.

        What this person's earlier runs have cost is no part of a steady card, unless its cell wanted to see that.
        """
        planned = self.planned
        if planned is None or (steady and not planned.wanted):
            return False
        return planned.wanted or planned.estimate is not None or bool(planned.lessons)

    def tells_memories(self, *, steady: bool) -> bool:
        """Whether its brain was shown any; what this person has remembered is no part of a card as above."""
        return bool(self.seen) and not steady


def course_line(event: ev.RunResumed | ev.PlanLeft) -> str:
    """Where it goes on from: an earlier run, or its plan."""
    if isinstance(event, ev.PlanLeft):
        return f"{visible(event.by)} said that the plan shall be carried out."
    files = f", {event.restored_files:,} of its files restored" if event.restored_files else ""
    doubt = f", unsure of {', '.join(map(visible, event.doubtful))}" if event.doubtful else ""
    steps = counted(event.step, "finished step")
    return f"It goes on from an earlier run, after {steps}{files}{doubt}."


def trust_line(event: ev.TrustChanged) -> str:
    """What became of trust; empty for evidence, which is no news by itself."""
    words = _TRUST.get(event.change, "").format(visible(event.category))
    return f"{words}{f': {visible(event.why)}' if words and event.why else ''}{'.' if words else ''}"


# ---------------------------------------------------------------- what is shown

_SUMMARY = 200
_LESSON = 1_000
_LESSONS = 20
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


def learned_blocks(learned: Learned, *, steady: bool, unfolded: bool = False) -> Blocks:
    """The plan and the memories: quiet lines that open to what is behind them; nothing where there is nothing to say.

    What is steady has neither times nor ids. The plan lies open where a question that waits is about it.
    """
    inside: list[Block] = []
    planned = learned.planned
    if planned is not None and learned.tells_plan(steady=steady):
        lessons = [_row(learned, lesson, "lesson", None, steady=steady) for lesson in planned.lessons[:_LESSONS]]
        inside.append(_folded("plan", plan_line(planned, steady=steady), lessons, unfolded=unfolded))
    if learned.tells_memories(steady=steady):
        seen = [_row(learned, ident, how, memory, steady=steady) for ident, (how, memory) in learned.seen.items()]
        inside.append(_folded("memory", memory_line(learned), seen))
    return (Group(tuple(inside), "kit learned", "Plan and memory"),) if inside else ()


def plan_line(planned: ev.RunPlanned, *, steady: bool) -> str:
    """What was expected, on one line; without times where the same has to come out again."""
    estimate = planned.estimate
    lessons = f"; {counted(len(planned.lessons), 'lesson')}" if planned.lessons else ""
    if estimate is None:
        return f"nobody knows yet what such a task needs{lessons}"
    about = " and ".join(filter(None, (_about_money(estimate), "" if steady else _about_time(estimate))))
    of_them = "which" if estimate.runs == 1 else f"{estimate.failed:,} of them"
    failed = f", {of_them} failed" if estimate.failed else ""
    runs = counted(estimate.runs, "similar run")
    return f"expected: {about or 'an unknown cost'}, from {runs}{failed}{lessons}"


def memory_line(learned: Learned) -> str:
    """`3 memories were shown to the brain, 1 of them not trusted`."""
    count = len(learned.seen)
    told = "1 memory was" if count == 1 else f"{count:,} memories were"
    marked = learned.quarantined
    doubt = f", {'it is' if count == 1 else f'{marked:,} of them'} not trusted" if marked else ""
    return f"{told} shown to the brain{doubt}"


def _folded(key: str, about: str, rows: list[list[Cell]], *, unfolded: bool = False) -> Block:
    said = (soft(about[:1].upper() + about[1:]),)
    plain = f"~ {about}"
    if not rows:
        return Line(said, plain=plain)
    return Fold(said, (Table(rows, is_wide=True),), f"learned:{key}", is_open=unfolded, plain=plain)


def _row(learned: Learned, ident: str, how: str, memory: SeenMemory | None, *, steady: bool) -> list[Cell]:
    shown = learned.lines.get(ident)
    tier = memory.tier if memory is not None else shown.tier if shown is not None else ""
    kind = shown.type if shown is not None else memory.type if memory is not None else "lesson"
    mark = (chip("not trusted", "warn"),) if tier == Tier.QUARANTINE else ()
    # What it says is nobody's word but its author's.
    # A lesson is shown whole, with each of its parts at its longest: that is what a person lets the agent read.
    most = _LESSON if how == "lesson" else _SUMMARY
    said: Cell = (quote(one_line(shown.summary, most)),) if shown is not None else ()
    about: list[Cell] = [(kind,), (soft(HOW.get(how, how)), *mark), *([] if steady else [(code(ident, "path"),)])]
    # What it says comes first: that column is the one that wraps.
    return [said, *about] if learned.lines else about


def _about_money(estimate: Estimate) -> str:
    if estimate.usd is None:
        return ""
    if estimate.usd_low is None or estimate.usd_high is None:
        return _about(estimate.usd)
    low, high = _about(estimate.usd_low), _about(estimate.usd_high)
    return _about(estimate.usd) + (f" ({low} to {high})" if low != high else "")


def _about(usd: float) -> str:
    """Money without false precision."""
    return f"${usd:.2f}" if usd >= _CENTS_SAY_ENOUGH else money(usd)


def _about_time(estimate: Estimate) -> str:
    if estimate.seconds is None:
        return ""
    # What is expected is rounded, and never cut: 280 seconds are nearer to five minutes than to four.
    minutes = round(estimate.seconds / _MINUTE)
    return span(minutes * _MINUTE) if minutes > 1 else span(estimate.seconds)
