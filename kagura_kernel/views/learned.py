"""What a run knew of earlier ones, what it was expected to need, and what it left behind, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from kagura_kernel.domain.events import (
    MemoriesSeen,
    MemoriesShown,
    MemoryWritten,
    RunCheckpointed,
    RunPlanned,
    RunResumed,
    TrustChanged,
)
from kagura_kernel.domain.memory import SeenMemory, ShownMemory, Tier
from kagura_kernel.domain.visible import visible

_TRUST = {
    "proposed": "Trust in “{}” has been earned, and is proposed",
    "granted": "“{}” is trusted from now on",
    "refused": "Trust in “{}” was proposed and refused",
    "demoted": "“{}” is trusted no more",
    "applied": "Allowed by earned trust in “{}”",
}

Learning = MemoriesSeen | MemoriesShown | MemoryWritten | RunPlanned | RunCheckpointed


@dataclass(slots=True)
class Learned:
    """What a run was shown of the memory, its plan, and what it left.

    Attributes:
        seen: Memories that its brain was shown, by id, with why; the first reason counts.
        lines: What they say, by id, as long as the display lives: no row of the journal holds it.
        written: Memories that it left, in their order.
        planned: What it was expected to need, once that is known.
        checkpoint: Where it stood last.
    """

    seen: dict[str, tuple[str, SeenMemory]] = field(default_factory=dict)
    lines: dict[str, ShownMemory] = field(default_factory=dict)
    written: list[MemoryWritten] = field(default_factory=list)
    planned: RunPlanned | None = None
    checkpoint: RunCheckpointed | None = None

    def apply(self, event: Learning) -> None:
        """Take one event."""
        match event:
            case MemoriesSeen():
                for memory in event.memories:
                    self.seen.setdefault(memory.id, (event.how, memory))
            case MemoriesShown():
                self.lines |= {memory.id: memory for memory in event.memories}
            case MemoryWritten():
                self.written.append(event)
            case RunPlanned():
                self.planned = event
            case RunCheckpointed():
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

        Args:
            steady: For a card that has to come out the same: what this person's earlier runs have cost is no part of
                it, unless its cell wanted to see that.
        """
        planned = self.planned
        if planned is None or (steady and not planned.wanted):
            return False
        return planned.estimate is not None or bool(planned.lessons)

    def tells_memories(self, *, steady: bool) -> bool:
        """Whether its brain was shown any; what this person has remembered is no part of a card as above."""
        return bool(self.seen) and not steady


def resumed_line(event: RunResumed) -> str:
    """Where it goes on from."""
    files = f", {event.restored_files:,} of its files restored" if event.restored_files else ""
    doubt = f", unsure of {', '.join(map(visible, event.doubtful))}" if event.doubtful else ""
    steps = "1 finished step" if event.step == 1 else f"{event.step:,} finished steps"
    return f"It goes on from an earlier run, after {steps}{files}{doubt}."


def trust_line(event: TrustChanged) -> str:
    """What became of trust; empty for evidence, which is no news by itself."""
    words = _TRUST.get(event.change, "").format(visible(event.category))
    return f"{words}{f': {visible(event.why)}' if words and event.why else ''}{'.' if words else ''}"
