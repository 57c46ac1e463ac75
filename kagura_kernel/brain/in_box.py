"""What a brain needs that thinks in the box of its run, and what it is given there.

It never sees the box itself: it says what to show and where its service is, and gets a way to run its one program.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from kagura_kernel.domain.late_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class SealedNeeds:
    """What has to be there before such a brain can think."""

    program: Path  # The folder of its program on the host, absolute, without links; shown read-only
    place: str  # Where it lies in the box
    url: str  # Base URL of its service
    header: str  # The header that carries the key
    # Reads the key, outside of the box alone; raises `BrainNotConfigured`
    key: Callable[[], Awaitable[str]] = field(repr=False)


class InsideProgram(Protocol):
    """A program in the box: bytes both ways, and an end. Everything it says is the box's word."""

    def output(self) -> AsyncIterator[bytes]:
        """What it prints, to its end; used once."""
        ...

    async def write(self, data: bytes) -> None:
        """Hand it bytes; raises `OSError` when it is gone."""
        ...

    def kill(self) -> None:
        """End it at once, and all that it has started."""
        ...

    async def close(self) -> None:
        """Let it end by itself for a moment, then end it. It is gone when this returns; may be called twice."""
        ...

    def ending(self) -> str:
        """Why it is gone, half a sentence; empty while it is not."""
        ...

    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""
        ...


class InsideBox(Protocol):
    """The box of a run, as a brain that thinks in it sees it."""

    @property
    def api(self) -> str:
        """The base URL of the brain's service there."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs find in their environment beside the box's own."""
        ...

    @property
    def root(self) -> bool:
        """Whether programs run as the root of the box."""
        ...

    async def put(self, name: str, text: str) -> str:
        """Keep a text in the box, outside of the workspace: its path there."""
        ...

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> InsideProgram:
        """Start a program in the workspace.

        Raises:
            SandboxError: the box is gone.
        """
        ...


@runtime_checkable
class ThinksInside(Protocol):
    """A brain whose program runs in the box of its run; its turns have an `inside`."""

    def sealed_needs(self) -> SealedNeeds:
        """What has to be there.

        Raises:
            BrainNotConfigured: its program or its key is missing; the text says how to get it.
        """
        ...
