"""The command about brains, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON, PLACE
from kagura_kernel.domain.grammar import BOTH, Command, Kind, Option

BRAIN_COMMANDS: tuple[Command, ...] = (
    Command(
        "brain",
        "the brains that are configured, and what a turn of each would cost",
        BOTH,
        options=(
            Option(("--model",), "as if this model were asked for", Kind.MODEL, metavar="NAME", default=""),
            JSON,
            *PLACE,
        ),
        examples=("brain", "brain --model openai:gpt-4o-mini"),
        detail="Asks no service. A turn is as large as the latest ones were; an unknown price is never 0. How to get a "
        "brain stands in docs/brains.md.",
    ),
)
