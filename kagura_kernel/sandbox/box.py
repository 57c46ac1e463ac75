"""The box that every back-end hands out: a channel, a name, and what must be freed when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kagura_kernel.domain.commands import Command, CommandResult, OutputListener
from kagura_kernel.domain.files import FileSystem
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import BoxChange
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.guest_streams import Failed, Listener, ServeStream


class PipedBox:
    """A `Box` over a channel that has said hello.

    `on_close` frees the process or the container; it is called exactly once, after the pipe is closed, whether somebody
    closed the box or it died.
    """

    def __init__(
        self,
        channel: BoxChannel,
        *,
        id: str,  # noqa: A002 - the protocol's word
        backend: str,
        isolation: IsolationClass,
        image: str = "",
        warm: bool = False,
        notes: tuple[str, ...] = (),
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self._channel = channel
        self._id = id
        self._backend = backend
        self._isolation = isolation
        self._image = image
        self._warm = warm
        self._notes = notes if channel.hardened else (*notes, "the guest could not hide itself from its commands")
        self._on_close = on_close
        self._why = ""
        self._freed = asyncio.get_running_loop().create_task(self._free_at_end())

    @property
    def id(self) -> str:
        """`box-…`."""
        return self._id

    @property
    def backend(self) -> str:
        """Name of the back-end that started it."""
        return self._backend

    @property
    def isolation(self) -> IsolationClass:
        """How strong its walls are."""
        return self._isolation

    @property
    def image(self) -> str:
        """Image it runs; empty where there are none."""
        return self._image

    @property
    def warm(self) -> bool:
        """Whether it came from the pool."""
        return self._warm

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about it."""
        return self._notes

    @property
    def files(self) -> FileSystem:
        """Files inside."""
        return self._channel.files

    @property
    def channel(self) -> BoxChannel:
        """The pipe, for the back-end that made it."""
        return self._channel

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """Run one command to its end; see `Box.run`."""
        return await self._channel.run(command, on_output)

    async def changes(self) -> list[BoxChange]:
        """How the workspace differs from what it was at the start."""
        return await self._channel.changes()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Serve connections that programs in the box make to a loopback port; see `Box.listen`."""
        return await self._channel.listen(listener, serve, failed)

    async def wait_closed(self) -> str:
        """Return when the box is gone: why it died, or an empty text when it was closed."""
        return await self._channel.wait_closed()

    async def close(self) -> None:
        """End everything in it and free what it held; may be called twice."""
        await self._channel.close()
        # Being cancelled here must not leave the process or the container behind.
        await asyncio.shield(self._freed)

    async def _free_at_end(self) -> None:
        await self._channel.wait_closed()
        await self._on_close()
