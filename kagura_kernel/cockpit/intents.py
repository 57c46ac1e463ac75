"""What a person can ask for about a plugin, as values; what they ask of a run is `runs.request`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.variables import CellPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlugin:
    """Examine a plugin.

    Attributes:
        name: The plugin.
        session: Name of the session that this is about; None is the front door's own.
        project: The project root; None is the working directory.
        brain: Who reads the source: a brain's name, or `auto`.
        model: Model for it.
        budget_usd: Limit in USD.
        replay: Play this cassette instead of asking a brain.
        record: Write a cassette here.
        static: Whether no brain is asked.
        headless: Whether nobody can be asked.
        origin: Which front door.
        place: The cell that asks.
        by: Who asks.
        via: Where: `cell`, `command`, `terminal`, `sidebar`.
    """

    name: str
    session: str | None = None
    project: Path | None = None
    brain: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    replay: Path | None = None
    record: Path | None = None
    static: bool = False
    headless: bool = False
    origin: str = "notebook"
    place: CellPlace = field(default_factory=CellPlace)
    by: str = "user"
    via: str = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePlugin(AuditPlugin):
    """Let a session's boxes call a plugin.

    Attributes:
        words: Configuration, each `field=value`.
        accept: The highest risk at which nobody needs to be asked; None asks always.
        seen: Hash of the files whose audit a person has seen elsewhere, where they said yes; empty for nobody.
    """

    words: tuple[str, ...] = ()
    accept: Risk | None = None
    seen: str = ""


def as_typed(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Configuration as it was typed, from the pairs that a command's words were read as."""
    return tuple(f"{name}={value}" for name, value in pairs)
