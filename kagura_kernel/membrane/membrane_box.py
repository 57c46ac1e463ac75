"""A run's box behind its membrane: commands find what was granted, and print nothing that was leased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult, OutputFilter, OutputListener
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.scrubbed_box import ScrubbedBox
from kagura_kernel.sandbox.backend import Box


class MembraneBox(ScrubbedBox):
    """A box with variables of its run.

    Args:
        box: Does the work.
        scrubber: Knows what must not be shown.
        variables: By which commands find what was granted, asked for at each command; without secrets.
        after: What output goes through when nothing leased is in it any more.
    """

    def __init__(
        self,
        box: Box,
        scrubber: Scrubber,
        variables: Callable[[], Mapping[str, str]],
        after: OutputFilter | None = None,
    ) -> None:
        super().__init__(box, scrubber, after)
        self._variables = variables

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """As the box within, with the run's variables; a command's own win."""
        return await super().run(replace(command, env={**self._variables(), **command.env}), on_output)
