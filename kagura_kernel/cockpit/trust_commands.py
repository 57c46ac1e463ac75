"""Commands about earned trust, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.grammar import Command

TRUST_COMMANDS: tuple[Command, ...] = ()
