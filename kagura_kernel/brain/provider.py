"""The protocol of a brain.

A brain owns its loop: it is given a task and a way to call tools, and yields what happens until it is done. It never
runs anything itself, sees no box, no journal and no approval: all of that stands behind `Turn.call_tool`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kagura_kernel.brain.inside import InsideBox
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.tools import CallTool, ToolSpec


@dataclass(frozen=True, slots=True)
class AuthContext:
    """How a brain would sign in; never the secret itself."""

    ready: bool  # Whether it can think now
    method: str  # `api key`, `sign-in`, `none needed`, …
    reason: str  # Half a sentence: what was found, or what is missing and how to get it


@dataclass(frozen=True, slots=True)
class BrainCapabilities:
    """What a brain can do beside thinking."""

    streaming: bool = True  # Whether it says things as it writes them
    resume: bool = False  # Whether it can go on with an earlier conversation
    reports_cost: bool = False  # Whether it says what it has cost
    budget: bool = False  # Whether it keeps to a budget by itself
    # Whether the model that is asked for may say where it thinks, so that a turn can do without what is configured
    by_model: bool = False
    sealed: bool = False  # Whether it thinks in the box of its run, with tools of its own; see `inside.ThinksInside`


@dataclass(frozen=True, slots=True)
class Turn:
    """What a brain is given."""

    task: str  # The prompt
    system: str  # What it is told about its place and its tools
    tools: Sequence[ToolSpec]  # What it may call
    call_tool: CallTool  # How it calls; raises only what must end the run. May be called several times at once.
    model: str = ""  # Model asked for; empty is its own choice
    budget_usd: float | None = None  # What it may spend; None is no limit
    max_turns: int | None = None  # How often it may go round its loop; None is no limit
    resume: str = ""  # What an earlier `BrainDone.session` said, to go on from there; empty starts afresh
    inside: InsideBox | None = None  # The box, for a brain that thinks there; None for every other


@dataclass(frozen=True, slots=True)
class BrainText:
    """Text, Markdown. `partial` pieces come as they are written and are followed by the whole."""

    text: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class BrainUsage:
    """One round of the loop was paid for. Sent as soon as it is known, so that a budget can stop the run."""

    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True)
class BrainDone:
    """The brain has finished; always the last event."""

    text: str = ""  # The final answer
    session: str = ""  # For `Turn.resume`; empty when it cannot resume
    reported_usd: float | None = None  # What it says it cost; None if it does not say
    usage: Usage = field(default_factory=Usage)  # All tokens
    model: str = ""  # The model that answered
    turns: int = 0  # How often it went round
    stopped: Literal["", "budget", "turns"] = ""  # Why it ended early: `budget`, `turns`, or empty


@dataclass(frozen=True, slots=True)
class BrainSession:
    """What the brain needs to go on from here, as soon as it is known: for `Turn.resume` of a later turn."""

    session: str


@dataclass(frozen=True, slots=True)
class BrainToolCalled:
    """A brain that thinks in its box uses a tool of its own there; on the box's word, and bounded."""

    id: str  # Ours
    name: str
    arguments: Mapping[str, Any]  # As it tells them
    known: bool = False  # Whether its program was given a tool of that name


@dataclass(frozen=True, slots=True)
class BrainToolFinished:
    """What came of it, likewise; `id`, `name` and `known` as it was called."""

    id: str
    name: str
    text: str
    is_error: bool = False
    known: bool = False


BrainEvent = BrainText | BrainUsage | BrainSession | BrainDone | BrainToolCalled | BrainToolFinished
"""What a brain yields. Calls of our tools do not appear: they go through `Turn.call_tool`, which records them."""


class BrainProvider(Protocol):
    """Something that thinks."""

    @property
    def name(self) -> str:
        """`claude`, `replay`, …; what `--brain` takes."""
        ...

    def resolve_auth(self) -> AuthContext:
        """How it would sign in; quick, without network, never raises."""
        ...

    def capabilities(self) -> BrainCapabilities:
        """What it can do."""
        ...

    def run(self, turn: Turn) -> AsyncIterator[BrainEvent]:
        """Think until done. Cancelling, or closing the iterator, ends its program and all its children.

        Raises:
            BrainNotConfigured: it cannot sign in.
            BrainRefused: its service said no.
            BrainLost: its program ended in the middle.
        """
        ...
