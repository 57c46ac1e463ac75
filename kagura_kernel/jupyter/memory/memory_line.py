"""One row of a list of memories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kagura_kernel.cockpit.memory_words import said_in, source_words
from kagura_kernel.domain.memory import Memory, Tier


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """What a row says.

    Attributes:
        id: `mem-…`.
        tier: `trusted` or `quarantine`.
        type: Its type.
        source: Who said it, and where.
        at: When it happened, UTC.
        summary: Its first line.
        text: All of it.
        why: What matched; empty where nothing was asked.
        tags: With commas.
        scope: Whom it concerns; empty for everybody.
        pinned: Whether every run starts with it.
        score: How well it fits, 0 to 1; None where nothing was asked.
        forgotten: Whether it is forgotten.
        gone: Whether it is not there any more.
        said: Of a lesson: what a box or somebody said then.
    """

    id: str
    tier: str
    type: str
    source: str
    at: datetime
    summary: str
    text: str
    why: str = ""
    tags: str = ""
    scope: str = ""
    pinned: bool = False
    score: float | None = None
    forgotten: bool = False
    gone: bool = False
    said: str = ""

    @property
    def trusted(self) -> bool:
        """Whether somebody may rely on it."""
        return self.tier == Tier.TRUSTED


def line_of(memory: Memory) -> MemoryLine:
    """A memory as a row that nobody has searched for."""
    return MemoryLine(
        id=memory.id,
        tier=memory.tier.value,
        type=memory.type,
        source=source_words(memory.source),
        at=memory.at,
        summary=memory.summary,
        text=memory.text,
        tags=", ".join(memory.tags),
        scope=memory.scope,
        pinned=memory.pinned,
        forgotten=memory.forgotten_at is not None,
        said=said_in(memory),
    )
