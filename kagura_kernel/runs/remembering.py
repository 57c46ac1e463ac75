"""What a run knows of earlier ones: the gate, what it starts with, what its brain may ask, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.events.memory import Shown
from kagura_kernel.domain.memory import Memory, Recalled
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.tools.toolbox import Tool


class RunMemory:
    """One run's; on its loop. The store's calls block, and are made in threads.

    Attributes:
        store: Where memories are kept; None for a run that has none, such as a cell's own code, and before `open`.
        seen: Ids of memories that its brain was shown or has written, in that order.
        untrusted: Whether one of those shown is in quarantine: graduated powers are not applied from then on.
    """

    def __init__(
        self, order: RunOrder, parts: RunParts, record: RecordFact, redacting: Redacting, clock: Clock
    ) -> None:
        self.store: MemoryStore | None = None
        self.seen: list[str] = []
        self.untrusted = order.handoff.untrusted
        self._order = order
        self._parts = parts
        self._record = record
        self._redacting = redacting
        self._clock = clock

    @property
    def scopes(self) -> tuple[str, ...]:
        """Whose memories concern it: everybody's, its project's, its session's."""
        return ("", f"project:{self._order.project.name}", f"session:{self._order.session_id}")

    async def open(self) -> None:
        """The gate, and then what the run starts with.

        Raises:
            MemoryUnavailable: the memory cannot be read and written, so that the run is refused.
        """

    async def see(self, how: Shown, memories: Sequence[Memory | Recalled], *, call_id: str = "") -> None:
        """Record that these are about to be shown to the brain; one in quarantine marks the run."""

    def briefing(self) -> str:
        """What the brain is told of its memories, as data between marks; empty where there is nothing."""
        return ""

    def tools(self) -> Sequence[Tool]:
        """What the brain may ask of the memory."""
        return ()

    async def leave(self, ending: Ending, verified: RunVerified | None, cost: Cost) -> tuple[str, ...]:
        """Leave a summary of the outcome, and say of what was used whether it helped; ids of what was left."""
        return ()
