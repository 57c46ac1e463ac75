"""The books of one child: what its parent's journal says of it, and what it takes from the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.events import ChildEnded, ChildStarted, MemoryWritten
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.patterns import HANDOFF
from kagura_kernel.patterns.dispatch import charged

if TYPE_CHECKING:
    from kagura_kernel.runs.stage import Stage


class ChildBooks:
    """One child's; on its parent's loop.

    Attributes:
        memory_id: The memory that it was handed.
        usd: What it has cost with what it handed on; None while that is not known.
        spent: What it takes from its parent's budget so far.

    Args:
        stage: Its parent.
        call_id: The call that handed it on.
        share: What it may spend; None is no limit.
        agent: Which sub-agent does it; empty for one like its parent.
    """

    def __init__(self, stage: Stage, call_id: str, share: float | None, agent: str) -> None:
        self._stage = stage
        self._call_id = call_id
        self._share = share
        self._agent = agent
        self._open = ""
        self.memory_id = ""
        self.usd: float | None = None
        self.spent = 0.0

    def started(self, child: str, worker: str) -> None:
        """It has begun."""
        order = self._stage.order
        self._stage.recorder.record(
            ChildStarted,
            child=child,
            call_id=self._call_id,
            memory_id=self.memory_id,
            agent=self._agent,
            budget_usd=self._share,
            depth=order.handoff.depth + 1,
            worker=worker,
        )
        self._open = child

    def lost(self, outcome: RunOutcome, again: str) -> None:
        """Its worker is gone, and another run does it once more."""
        self._end(outcome.run_id, "lost", usd=outcome.cost.usd, error_code=outcome.error_code, again=again)

    async def ended(self, outcome: RunOutcome) -> tuple[str, ...]:
        """It is over; ids of what it has left, its summary first."""
        written, handed = await asyncio.to_thread(self._look, outcome.run_id)
        ids = tuple(dict.fromkeys((*outcome.memories, *written)))
        self.usd = _sum([outcome.cost.usd, *handed])
        self._end(outcome.run_id, outcome.status, memories=ids, usd=self.usd, error_code=outcome.error_code)
        return ids

    def cut_off(self) -> None:
        """Nothing more comes of it, if it was not over."""
        if self._open:
            self._end(self._open, "killed", usd=None, error_code="ERR_RUN_KILLED")

    def _end(
        self,
        child: str,
        status: str,
        *,
        usd: float | None,
        error_code: str,
        memories: tuple[str, ...] = (),
        again: str = "",
    ) -> None:
        self._open = ""
        self.spent += charged(self._share, usd)
        self._stage.account.count_child(usd)
        self._stage.recorder.record(
            ChildEnded, child=child, status=status, memories=memories, usd=usd, error_code=error_code, again=again
        )

    def _look(self, child: str) -> tuple[list[str], list[float | None]]:
        """What it has written down, and what it has handed on has cost."""
        rows = self._stage.parts.journal.events(run_id=child, kinds=("memory.written", "child.ended"))
        events = [row.event for row in rows]
        written = [one.memory_id for one in events if isinstance(one, MemoryWritten) and one.how != HANDOFF]
        return written, [one.usd for one in events if isinstance(one, ChildEnded)]


def _sum(parts: Sequence[float | None]) -> float | None:
    """A sum with unknown parts is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
