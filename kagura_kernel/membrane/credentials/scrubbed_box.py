"""A box whose commands never print a live secret: it is hidden before anybody hears, keeps or spills it."""

from __future__ import annotations

from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult, OutputFilter, OutputListener, one_after_another
from kagura_kernel.domain.files import FileSystem
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.sandbox.backend import Box, BoxChange, Failed, Listener, ServeStream


def scrubbed(box: Box, scrubber: Scrubber) -> Box:
    """The same box, with everything that its commands print scrubbed."""
    return ScrubbedBox(box, scrubber)


class ScrubbedBox:
    """A box around a box. Output goes through the scrubber, and so does why it died; files pass as they are.

    Args:
        box: Does the work.
        scrubber: Knows what must not be shown.
        after: What output goes through when nothing leased is in it any more.
    """

    def __init__(self, box: Box, scrubber: Scrubber, after: OutputFilter | None = None) -> None:
        self._box = box
        self._scrubber = scrubber
        self._after = after

    @property
    def id(self) -> str:
        """As the box within."""
        return self._box.id

    @property
    def backend(self) -> str:
        """As the box within."""
        return self._box.backend

    @property
    def isolation(self) -> IsolationClass:
        """As the box within."""
        return self._box.isolation

    @property
    def image(self) -> str:
        """As the box within."""
        return self._box.image

    @property
    def warm(self) -> bool:
        """As the box within."""
        return self._box.warm

    @property
    def notes(self) -> tuple[str, ...]:
        """As the box within."""
        return self._box.notes

    @property
    def files(self) -> FileSystem:
        """As the box within: what a tool says of a file is scrubbed where it says it."""
        return self._box.files

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """As the box within; what is heard, kept and spilled has passed the scrubber behind a filter of the command."""
        return await self._box.run(self._filtered(command), on_output)

    async def changes(self) -> list[BoxChange]:
        """As the box within; whoever collects them looks for secrets."""
        return await self._box.changes()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """As the box within."""
        return await self._box.listen(listener, serve, failed)

    async def wait_closed(self) -> str:
        """As the box within: the last words of a box may be anything."""
        return self._scrubber.scrub(await self._box.wait_closed())

    async def close(self) -> None:
        """Close the box within."""
        await self._box.close()

    def _filtered(self, command: Command) -> Command:
        # A command's own filter could make a secret whole, so it comes first.
        filters = one_after_another(command.output_filter, self._scrubber.filter, self._after)
        return replace(command, output_filter=filters)
