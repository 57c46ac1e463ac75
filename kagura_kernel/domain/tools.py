"""Tools as a brain sees them: a name, a schema, a call, a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

NO_OUTPUT = "(no output)"
"""What a result says of a command that printed nothing."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool offered to a brain."""

    name: str  # A Python identifier, unique in a toolbox
    description: str  # For the model; says what is refused
    input_schema: Mapping[str, Any]  # JSON Schema of the arguments, an object
    # It changes nothing, so a brain may have several calls of such tools under way at once. Calls of other tools in one
    # answer of a model are made in their order, one after the other.
    read_only: bool = False
    foreign: bool = False  # Its schema is another program's, which checks the arguments itself
    # Arguments that stand in no journal: what they say can be erased, and a journal only grows
    private: tuple[str, ...] = ()
    # It may change something, and a brain may have several calls of it under way at once all the same
    side_by_side: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A brain asks for a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers; a failing command is a result with `is_error`."""

    text: str  # What the brain reads, bounded
    is_error: bool = False  # Whether the brain should take it as a failure
    exit_code: int | None = None  # Of the command behind it, if there was one
    route: str = "sandbox"  # `sandbox` or `host`; empty for tools that run nothing
    spill: str | None = None  # Name of the file with the full output, if it was cut
    recorded: str | None = None  # What the journal says instead of the text; None for the text itself


CallTool = Callable[[ToolCall], Awaitable[ToolResult]]
"""How a brain reaches the toolbox. Raises only what must end the run; a refusal is a result."""
