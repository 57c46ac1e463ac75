"""A container whose guest has answered, and one that is frozen until somebody takes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker_engine import Image
from kagura_kernel.sandbox.docker_volumes import Copies
from kagura_kernel.sandbox.further import identities


@dataclass(frozen=True, slots=True)
class Running:
    """A container whose guest has answered.

    Attributes:
        id: The box's, and the container's name.
        name: Of its image.
        image: The image.
        channel: The pipe to its guest.
        notes: What a reader should know of it.
        copies: What it shows of the host.
    """

    id: str
    name: str
    image: Image
    channel: BoxChannel
    notes: tuple[str, ...]
    copies: Copies


class ParkedContainer:
    """A frozen container; made by `DockerBackend.park`.

    Args:
        running: What it is.
        spec: What it was made for.
        wake: Lets it go on and hands it over.
        discard: Removes it.
    """

    def __init__(
        self,
        running: Running,
        spec: BoxSpec,
        wake: Callable[[Running, BoxSpec], Awaitable[Box]],
        discard: Callable[[str], Awaitable[None]],
    ) -> None:
        self._running = running
        self._spec = spec
        self._seen = identities(spec)
        self._wake = wake
        self._discard = discard
        self._used = False

    @property
    def alive(self) -> bool:
        """Whether its pipe still stands, and the directories on the host are there."""
        return not self._used and not self._running.channel.closed and identities(self._spec) == self._seen

    async def take(self, spec: BoxSpec) -> Box:
        """Let it go on, and send the project in.

        Raises:
            SandboxUnavailable: it is dead, or shows what has changed on the host; it is removed then.
            WorkspaceError: the project cannot be sent.
        """
        self._used = True
        return await self._wake(self._running, spec)

    async def close(self) -> None:
        """Remove it."""
        self._used = True
        await self._running.channel.close()
        await self._discard(self._running.id)
