"""What a run knows of earlier ones: the gate, what it starts with, what its brain may ask, what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.errors import KaguraError, MemoryInvalid, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.events import Noted, RunVerified
from kagura_kernel.domain.events.memory import (
    MemoriesSeen,
    MemoriesShown,
    MemoryAct,
    MemoryChanged,
    MemoryWritten,
    Shown,
    Written,
)
from kagura_kernel.domain.memory import (
    CAME_FROM,
    FOLLOWS,
    Draft,
    Edge,
    Memory,
    Neighbourhood,
    Query,
    Recalled,
    SeenMemory,
    ShownMemory,
    Tier,
    known_type,
    project_scope,
)
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal.session_registry import known_memories, last_run, read_untrusted
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.memory.store import MemoryStore, ready
from kagura_kernel.runs.memory_outcome import Ended, agent_of, outcome_of, usd_of, words_of
from kagura_kernel.runs.memory_start import Start, is_gone, memory_in, start_of
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runtime.router import Asker
from kagura_kernel.tools.memory import (
    ExploreTool,
    ForgetTool,
    RecallTool,
    ReferenceTool,
    RelateTool,
    RememberTool,
)
from kagura_kernel.tools.toolbox import Tool

PUSH_SECONDS = 10.0
"""How long a run's end waits for the memory's server to take its cost."""

VERIFICATION = "verification"
"""Who promotes what was measured, when the run's work was tried out and is good."""

P = ParamSpec("P")
T = TypeVar("T")


async def leave_outcome(
    memory: RunMemory, store: MemoryStore, order: RunOrder, ended: Ended, record: RecordFact
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
    memory: RunMemory,
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
    if why := await pushed(push, order.run_id, facts):
        record(Noted, text=f"What the run cost was not told to the memory's server: {why}")


async def pushed(push: Callable[[str, Mapping[str, Any]], None], run_id: str, facts: Mapping[str, Any]) -> str:
    """Tell the memory's server of a run; why it did not take that, a sentence, and empty where it did."""
    try:
        async with asyncio.timeout(PUSH_SECONDS):
            await asyncio.to_thread(push, run_id, facts)
    except (KaguraError, TimeoutError) as error:
        return error.message if isinstance(error, KaguraError) else "it did not answer in time."
    return ""


class RunMemory:
    """One run's; on its loop. The store's calls block, and are made in threads."""

    def __init__(
        self, order: RunOrder, parts: RunParts, record: RecordFact, redacting: Redacting, clock: Clock
    ) -> None:
        # Where memories are kept; None for a run that has none, such as a cell's own code, and before `open`
        self.store: MemoryStore | None = None
        # Ids of memories that its brain knows from its conversation, was shown or has written, in that order
        self.seen: list[str] = []
        self.written: list[str] = []  # Of them, those that its brain has written
        # Whether one of those shown is in quarantine: graduated powers are not applied from then on
        self.untrusted = order.handoff.untrusted
        self.held: Callable[[], str] = str  # Why its brain writes nothing now, as a clause; empty where it may
        # Takes live secrets out of the fields of what is kept; set before anything is
        self.scrub: Callable[[Any], Any] = _as_it_is
        self._order = order
        self._parts = parts
        self._record = record
        self._redacting = redacting
        self._clock = clock
        self._began = clock.monotonic()
        self.before = ""  # The summary that its session's last run has left; empty for none
        self._known: list[str] = []  # Ids of memories that its brain knows from earlier runs of its conversation
        self._briefing = ""
        self._shown: dict[str, None] = {}
        self._admitted: set[str] = set()
        self._troubles: set[str] = set()

    @property
    def scopes(self) -> tuple[str, str, str]:
        """Whose memories concern it: everybody's, its project's, its session's."""
        return ("", project_scope(self._order.project), f"session:{self._order.session_id}")

    @property
    def agent(self) -> str:
        """Who carries the run out."""
        return agent_of(self._order)

    @property
    def run_id(self) -> str:
        """The run."""
        return self._order.run_id

    def now(self) -> datetime:
        """The time."""
        return self._clock.now()

    # -------------------------------------------------------------------- gate

    async def open(self) -> None:
        """The gate, and then what the run starts with.

        Raises:
            MemoryUnavailable: the memory cannot be read and written, so that the run is refused.
            MemoryUnknown: what the run above has handed on is not there any more.
        """
        if self._parts.memory is None:
            return
        self.store = await asyncio.to_thread(_opened, self._parts.memory)
        start = await asyncio.to_thread(self._looked_up, self.store)
        for how, memories in start.shown.items():
            await self.see(how, memories)
        self._briefing = start.briefing(self.now())

    def _looked_up(self, store: MemoryStore) -> Start:
        order, journal = self._order, self._parts.journal
        last = last_run(journal, order.session_id)
        self.before = last.outcome if last is not None else ""
        if order.resume:
            # Its brain still knows what it had read then.
            brain = order.brain.name if order.brain is not None else ""
            self.untrusted |= read_untrusted(journal, order.session_id, order.resume, brain)
            self._known = known_memories(journal, order.session_id)
            self.seen += self._known
        return start_of(store, self._order, self.scopes, self.now(), self._shorn, last)

    async def see(self, how: Shown, memories: Sequence[Memory | Recalled], *, call_id: str = "") -> None:
        """Record that these are about to be shown to the brain; one in quarantine marks the run."""
        if not memories:
            return
        # What it has written itself tells it nothing new.
        others = (memory_in(one) for one in memories if memory_in(one).id not in self.written)
        untrusted = any(one.tier is Tier.QUARANTINE for one in others)
        self.untrusted = self.untrusted or untrusted
        seen, shown = tuple(map(_seen, memories)), tuple(map(_shown, memories))
        self._record(MemoriesSeen, how=how, call_id=call_id, memories=seen, untrusted=untrusted)
        self._record(MemoriesShown, how=how, call_id=call_id, memories=shown)
        for one in seen:
            self._shown[one.id] = None
            if one.id not in self.seen:
                self.seen.append(one.id)

    def briefing(self) -> str:
        """What the brain is told of its memories, as data between marks; empty where there is nothing."""
        return self._briefing

    # ------------------------------------------------------------------- tools

    def tools(self, asker: Asker) -> Sequence[Tool]:
        """What the brain may ask of the memory; a person is asked by `asker`."""
        if self.store is None:
            return ()
        return (
            RememberTool(self),
            RecallTool(self),
            ReferenceTool(self),
            ExploreTool(self),
            RelateTool(self),
            ForgetTool(self, asker),
        )

    async def find(self, query: Query) -> Sequence[Recalled]:
        """What fits, of the run's scopes; never of another project's, whatever is asked."""
        return await self.ask(self._opened().recall, replace(query, scopes=self.scopes))

    async def look_up(self, memory_id: str) -> Memory:
        """One memory that the run may see: of its scopes, shown or admitted to it, and not forgotten.

        Raises:
            MemoryUnknown: every other.
            MemoryUnavailable: the memory cannot be reached any more.
        """
        memory = await self.ask(self._opened().reference, memory_id)
        if not self._may_see(memory):
            raise MemoryUnknown(memory_id)
        return memory

    def _may_see(self, memory: Memory) -> bool:
        known = memory.scope in self.scopes or memory.id in self._admitted or memory.id in self.seen
        return known and not is_gone(memory, self.now())

    async def reach(self, memory_id: str, depth: int, most: int) -> Neighbourhood:
        """What lies around one memory, as far as the run may see it."""
        around = await self.ask(self._opened().explore, memory_id, depth=depth, most=most)
        return Neighbourhood(tuple(filter(self._may_see, around.memories)), around.edges)

    async def forget(self, memory_id: str, *, by: str) -> None:
        """Take it out of what is recalled, on the word of this person, and record that.

        Raises:
            MemoryUnavailable: the memory cannot be reached any more.
        """
        await self.ask(self._opened().forget, memory_id)
        self._record(MemoryChanged, memory_id=memory_id, change="forgotten", by=by, via="approval")

    async def around(self, memory_id: str) -> Sequence[Edge]:
        """The edges at one memory."""
        return (await self.ask(self._opened().explore, memory_id)).edges

    async def join(self, edge: Edge) -> None:
        """Draw an edge."""
        await self.ask(self._opened().create_edge, edge)

    def admit(self, ids: Iterable[str]) -> None:
        """Let the brain ask for these by their ids, whatever their scope: what a child has left, for one."""
        self._admitted.update(ids)

    async def keep(
        self, draft: Draft, how: Written, *, call_id: str = "", came_from: Iterable[str] | None = None
    ) -> Memory:
        """Remember something for this run, and record that, without what it says.

        Its texts are redacted first. It is joined by `came-from` to what it came from, so that it is erased with it;
        what is gone by then is left out.

        Args:
            draft: What; its source says who.
            how: Why it is made.
            call_id: The tool call that asked.
            came_from: Ids of memories that it came from; None for everything that the brain may know from a memory.

        Raises:
            MemoryUnavailable: there is no memory, or it cannot be reached any more.
            MemoryInvalid: something in it is wrong.
        """
        store = self._opened()
        clean = await asyncio.to_thread(self._clean, draft)
        kept = await self.ask(store.remember, clean)
        self._record(
            MemoryWritten,
            memory_id=kept.id,
            type=known_type(kept.type),
            tier=kept.tier.value,
            author=kept.source.author.value,
            how=how,
            call_id=call_id,
        )
        self.seen.append(kept.id)
        if how == "asked":
            self.written.append(kept.id)
        origins = dict.fromkeys(self._origins() if came_from is None else came_from)
        await self.ask(join_all, store, [Edge(kept.id, one, CAME_FROM) for one in origins if one != kept.id])
        return kept

    def _origins(self) -> Iterable[str]:
        """Everything that the brain may know from a memory: what it was shown, here or where it goes on from."""
        order = self._order
        earlier = order.resumes.memories if order.resumes is not None else ()
        return (*earlier, *self._known, *self._shown)

    # --------------------------------------------------------------------- end

    async def leave(
        self,
        ending: Ending,
        verified: RunVerified | None,
        cost: Cost,
        changes: Sequence[FileChange] = (),
        *,
        began: bool = True,
        acted: bool = True,
    ) -> tuple[str, ...]:
        """Leave a summary of the outcome, and say of what was used whether it helped; ids of what was left.

        A run from which nothing is learned leaves none.

        Raises:
            MemoryUnavailable: the memory cannot be reached any more.
        """
        if self.store is None:
            return ()
        seconds = self._clock.monotonic() - self._began
        order = self._order
        acted = acted or bool(self.before or order.handoff.lineage or order.resumes is not None)
        ended = Ended(ending, verified, cost, seconds, changes, tuple(self._shown), began, acted)
        try:
            return await leave_outcome(self, self.store, self._order, ended, self._record)
        finally:
            await push_cost(self._parts.push_cost, self._order, ended, self.now(), self._record)

    # ----------------------------------------------------------------- threads

    async def ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store in a thread.

        Raises:
            MemoryUnavailable: it is gone meanwhile; the person was told, once for each reason.
        """
        try:
            return await asyncio.to_thread(call, *args, **kwargs)
        except MemoryUnavailable as error:
            if error.message not in self._troubles:
                self._troubles.add(error.message)
                self._record(Noted, text=f"{error.message} The run goes on without what it asked for.")
            raise

    def _opened(self) -> MemoryStore:
        if self.store is None:
            raise MemoryUnavailable("this run", "it has no memory", "Runs of agents have one.")
        return self.store

    def _clean(self, draft: Draft) -> Draft:
        """A draft without secrets: one that was kept could not be told from a memory any more."""
        said = self.scrub({"text": draft.text, "summary": draft.summary, "data": dict(draft.data)})
        text, summary, data = self._redacting.value((said["text"], said["summary"], said["data"]))
        tags = tuple(tag for tag in draft.tags if self._redacting.text(tag) == tag)
        return replace(draft, text=text, summary=summary, data=data, tags=tags)

    def _shorn(self, memory: Memory) -> Memory:
        return replace(memory, text=self._redacting.text(memory.text), summary=self._redacting.text(memory.summary))


def _as_it_is(fields: Any) -> Any:
    return fields


def _opened(opener: Callable[[], MemoryStore]) -> MemoryStore:
    store = opener()
    ready(store)
    return store


def _seen(one: Memory | Recalled) -> SeenMemory:
    memory = memory_in(one)
    score = round(one.score, 4) if isinstance(one, Recalled) else None
    return SeenMemory(memory.id, known_type(memory.type), memory.tier.value, memory.source.author.value, score)


def _shown(one: Memory | Recalled) -> ShownMemory:
    memory, seen = memory_in(one), _seen(one)
    why = one.why[:12] if isinstance(one, Recalled) else ()
    return ShownMemory(seen.id, memory.type, seen.tier, seen.author, memory.summary[:300], seen.score, why)
