"""What a person can ask for about a plugin, as values; what they ask of a run is `runs.request`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.variables import CellPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlugin:
    """Examine a plugin."""

    name: str
    session: str | None = None  # Name of the session that this is about; None is the front door's own
    project: Path | None = None  # The project root; None is the working directory
    brain: str | None = None  # Who reads the source: a brain's name, or `auto`
    model: str | None = None
    budget_usd: float | None = None  # Limit in USD
    replay: Path | None = None  # Play this cassette instead of asking a brain
    record: Path | None = None  # Write a cassette here
    static: bool = False  # Whether no brain is asked
    headless: bool = False  # Whether nobody can be asked
    origin: str = "notebook"  # Which front door
    place: CellPlace = field(default_factory=CellPlace)  # The cell that asks
    by: str = "user"  # Who asks
    via: str = "command"  # Where: `cell`, `command`, `terminal`, `sidebar`


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePlugin(AuditPlugin):
    """Let a session's boxes call a plugin."""

    words: tuple[str, ...] = ()  # Configuration, each `field=value`
    accept: Risk | None = None  # The highest risk at which nobody needs to be asked; None asks always
    seen: str = ""  # Hash of the files whose audit a person has seen elsewhere, where they said yes; empty for nobody


def as_typed(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Configuration as it was typed, from the pairs that a command's words were read as."""
    return tuple(f"{name}={value}" for name, value in pairs)
