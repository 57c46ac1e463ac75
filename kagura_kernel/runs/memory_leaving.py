"""How a run leaves its summary in the memory, says of what it was shown whether it helped, and tells what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar

from kagura_kernel.domain.errors import KaguraError, MemoryInvalid, MemoryUnknown
from kagura_kernel.domain.events import Noted, RunVerified
from kagura_kernel.domain.events.memory import MemoryAct, MemoryChanged, Written
from kagura_kernel.domain.memory import FOLLOWS, Draft, Edge, Memory
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.runs.memory_outcome import Ended, agent_of, outcome_of, usd_of, words_of
from kagura_kernel.runs.order import RunOrder

PUSH_SECONDS = 10.0
"""How long a run's end waits for the memory's server to take its cost."""

VERIFICATION = "verification"
"""Who promotes what was measured, when the run's work was tried out and is good."""

P = ParamSpec("P")
T = TypeVar("T")


class Leaver(Protocol):
    """The run's memory, as far as its end needs it.

    Attributes:
        before: The summary that its session's last run has left; empty for none.
        untrusted: Whether it has read what is not trusted.
    """

    before: str
    untrusted: bool

    @property
    def scopes(self) -> tuple[str, str, str]:
        """Everybody's, its project's, its session's."""
        ...

    async def keep(
        self, draft: Draft, how: Written, *, call_id: str = "", came_from: Iterable[str] | None = None
    ) -> Memory:
        """Remember something, redacted and recorded."""
        ...

    async def ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store in a thread."""
        ...


async def leave_outcome(
    memory: Leaver, store: MemoryStore, order: RunOrder, ended: Ended, record: RecordFact
) -> tuple[str, ...]:
    """Keep what was measured and, apart from it, what the agent said; ids of both, none where nothing was learned.

    What was measured becomes trusted when the work was verified, and the run had read nothing that is not trusted.

    Raises:
        MemoryUnavailable: the memory cannot be reached any more.
    """
    if not ended.taught:
        return ()
    scope = memory.scopes[1]
    outcome = await memory.keep(outcome_of(order, ended, scope=scope), "outcome")
    left = [outcome.id]
    if memory.before:
        await memory.ask(join_all, store, [Edge(outcome.id, memory.before, FOLLOWS)])
    words = words_of(order, ended, scope=scope)
    if words is not None:
        # By way of the outcome it came from everything that the run was shown.
        left.append((await memory.keep(words, "outcome", came_from=[outcome.id])).id)
    if ended.verified is not None:
        await _judge(memory, store, outcome, ended.verified, ended.memories, record)
    return tuple(left)


async def _judge(
    memory: Leaver,
    store: MemoryStore,
    outcome: Memory,
    verified: RunVerified,
    used: Sequence[str],
    record: RecordFact,
) -> None:
    if verified.passed and not memory.untrusted:
        await memory.ask(lambda: store.promote(outcome.id, by=VERIFICATION))
        _record_change(record, "promoted", [outcome.id])
    if not verified.passed and verified.exit_code is None:
        # It was not tried, which says nothing about what the run had read.
        return
    told = await memory.ask(_feed_back, store, used, helped=verified.passed)
    _record_change(record, "helped" if verified.passed else "misled", told)


def _record_change(record: RecordFact, change: MemoryAct, ids: Sequence[str]) -> None:
    if ids:
        fact = {"memory_id": ids[0], "change": change, "memories": len(ids)}
        record(MemoryChanged, **fact, by=VERIFICATION, via=VERIFICATION)


def join_all(store: MemoryStore, edges: Iterable[Edge]) -> None:
    """Draw edges; one whose end is gone by now is left out. Blocks."""
    for edge in edges:
        # Not every store joins two memories twice.
        with suppress(MemoryUnknown, MemoryInvalid):
            store.create_edge(edge)


def _feed_back(store: MemoryStore, ids: Iterable[str], *, helped: bool) -> list[str]:
    told = []
    for one in ids:
        with suppress(MemoryUnknown):
            store.feedback(one, helped=helped)
            told.append(one)
    return told


async def push_cost(
    push: Callable[[str, Mapping[str, Any]], None] | None,
    order: RunOrder,
    ended: Ended,
    at: datetime,
    record: RecordFact,
) -> None:
    """Tell the memory's server what the run has cost; one that does not take it is told about, and no more."""
    if push is None:
        return
    cost = ended.cost
    facts = {
        "run_id": order.run_id,
        "session_id": order.session_id,
        "project": order.project.name,
        "agent": agent_of(order),
        "brain": order.brain.name if order.brain is not None else "",
        "model": order.model,
        "status": ended.ending.status,
        "usd": usd_of(cost),
        "reported_usd": cost.reported_usd,
        "computed_usd": cost.computed_usd,
        "cost_source": cost.source,
        "seconds": round(ended.seconds, 3),
        "at": at.isoformat(),
    }
    try:
        async with asyncio.timeout(PUSH_SECONDS):
            await asyncio.to_thread(push, order.run_id, facts)
    except (KaguraError, TimeoutError) as error:
        why = error.message if isinstance(error, KaguraError) else "it did not answer in time."
        record(Noted, text=f"What the run cost was not told to the memory's server: {why}")
