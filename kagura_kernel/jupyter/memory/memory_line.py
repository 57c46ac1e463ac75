"""One row of a list of memories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kagura_kernel.cockpit.memory_words import said_in, source_words
from kagura_kernel.domain.memory import Memory, Tier


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """What a row says."""

    id: str  # `mem-…`
    tier: str  # `trusted` or `quarantine`
    type: str
    source: str  # Who said it, and where
    at: datetime  # When it happened, UTC
    summary: str  # Its first line
    text: str  # All of it
    why: str = ""  # What matched; empty where nothing was asked
    tags: str = ""  # With commas
    scope: str = ""  # Whom it concerns; empty for everybody
    pinned: bool = False  # Whether every run starts with it
    score: float | None = None  # How well it fits, 0 to 1; None where nothing was asked
    forgotten: bool = False  # Whether it is forgotten
    gone: bool = False  # Whether it is not there any more
    said: str = ""  # Of a lesson: what a box or somebody said then

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
