"""What the clients of all protocols have in common: one server, begun, read with care, and ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.tools.toolsets.cutting import Breach, word
from kagura_kernel.tools.toolsets.server import Failed, Server

T = TypeVar("T")


class Client(ABC):
    """A server of one protocol. A protocol adds how it begins (`_get_ready`) and what is asked of it.

    Args:
        server: Not started yet.
    """

    def __init__(self, server: Server) -> None:
        self.name = server.name  # The toolset's
        self.server = ""  # What it calls itself, with its version; its own word, empty before it has begun
        self._limits = server.limits
        self._server = server

    @property
    def log(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._server.log

    @property
    def ending(self) -> str:
        """Why it is over, half a sentence; empty while it is not."""
        return self._server.ending

    async def start(self) -> None:
        """Start it, and hear what it is. Whatever happens, `close` has to follow.

        Raises:
            ToolsetError: it cannot be started, or says what no good server says.
            SandboxError: the box is gone.
        """
        try:
            await self._server.begin(self._begin())
        except Failed as error:
            self._server.end(f"it refused to begin: {word(str(error))}")
            raise ToolsetError(self.name, f"refused to begin: {error}") from error
        except Breach as breach:
            raise self._cut_off(breach) from breach

    def require(self, read: Callable[[], T]) -> T:
        """What a reader makes of an answer; a server whose answer is none is given up.

        Raises:
            ToolsetError: it was.
        """
        try:
            return read()
        except Breach as breach:
            raise self._cut_off(breach) from breach

    async def close(self) -> None:
        """End it; may be called twice."""
        await self._server.close()

    @abstractmethod
    async def _get_ready(self) -> None:
        """What the protocol begins with, on a server that is started.

        Raises:
            Failed: it does not want to.
            Breach: its answer is none.
            ToolsetError: it is gone.
        """

    async def _begin(self) -> None:
        await self._server.open()
        await self._get_ready()

    def _cut_off(self, breach: Breach) -> ToolsetError:
        self._server.end(str(breach))
        return ToolsetError(self.name, f"was cut off: {breach}")
