"""Commands about memories and lessons, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.grammar import Command

MEMORY_COMMANDS: tuple[Command, ...] = ()
