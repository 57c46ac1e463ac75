"""How tools reach the memory of their run: by the run, which records what is seen and written, and marks itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from kagura_kernel.domain.events.memory import Shown, Written
from kagura_kernel.domain.memory import Draft, Edge, Memory, Query, Recalled


class MemoryAccess(Protocol):
    """One run's way to the memory. Its methods raise `MemoryUnavailable` when it cannot be reached any more."""

    @property
    def agent(self) -> str:
        """Who writes."""
        ...

    @property
    def run_id(self) -> str:
        """In which run."""
        ...

    @property
    def scopes(self) -> tuple[str, ...]:
        """Whose memories concern the run: everybody's, its project's, its session's."""
        ...

    @property
    def written(self) -> Sequence[str]:
        """Ids of what its brain has written so far."""
        ...

    def now(self) -> datetime:
        """The time."""
        ...

    async def keep(self, draft: Draft, how: Written, *, call_id: str = "") -> Memory:
        """Remember it and record that; it came from everything that the brain has been shown so far."""
        ...

    async def find(self, query: Query) -> Sequence[Recalled]:
        """What fits, of the run's scopes."""
        ...

    async def look_up(self, memory_id: str) -> Memory:
        """One that the run may see; raises `MemoryUnknown` for every other."""
        ...

    async def around(self, memory_id: str) -> Sequence[Edge]:
        """The edges at one."""
        ...

    async def join(self, edge: Edge) -> None:
        """Draw an edge."""
        ...

    async def see(self, how: Shown, memories: Sequence[Memory | Recalled], *, call_id: str = "") -> None:
        """Record that these are about to be shown."""
        ...
